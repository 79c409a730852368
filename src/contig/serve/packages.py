"""The packages of the extra ``serve``."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = ("fastapi", "httpx2", "prometheus_client", "pydantic", "starlette", "uvicorn")


def missing_packages() -> str | None:
    """Return what to install before anything can be served; None if all of it is there."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if not missing:
        return None
    return f"needs {', '.join(missing)}; install the extra: pip install 'contig[serve]'"
