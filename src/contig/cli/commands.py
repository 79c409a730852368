"""The class of every command: its help shows only what a reader needs."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help gives flags no type and arguments no braces."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_flag_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub(r"^\{(.+?)(\.\.\.)?\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


def without_flag_types(params: Any) -> list[Any]:
    """Remove the type from flags, which Typer would show as ``<bool>``."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return list(params)
