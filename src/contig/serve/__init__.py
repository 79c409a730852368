"""Serve a trained run over HTTP while events keep coming (extra ``serve``).

``Client`` talks to a running service. ``serve`` runs one around an engine until a signal stops it, and
``running`` while a block runs; ``create_app`` builds the ASGI app for another server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contig.serve.app import create_app
    from contig.serve.client import Client
    from contig.serve.server import running, serve
    from contig.serve.settings import ServeSettings

_HOME = {
    "Client": "client",
    "ServeSettings": "settings",
    "create_app": "app",
    "running": "server",
    "serve": "server",
}

__all__ = ["Client", "ServeSettings", "create_app", "running", "serve"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"contig.serve.{_HOME[name]}"), name)
    raise AttributeError(f"module 'contig.serve' has no attribute {name!r}")
