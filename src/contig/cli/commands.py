"""The class of every command: its help shows only what a reader needs."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help has no types next to flags and arguments, and no braces and parentheses.

    Its paragraphs fill the width of the terminal: Typer keeps the line breaks of the source.
    """

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, help=help and _filled(help), **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return readable(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub(r"^\{(.+?)(\.\.\.)?\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


def _filled(text: str) -> str:
    """Return a text without line breaks within its paragraphs."""
    return "\n\n".join(" ".join(part.split("\n")) for part in inspect.cleandoc(text).split("\n\n"))


def readable(params: list[Any]) -> list[Any]:
    """Remove what Typer adds to the help of parameters.

    That is ``<bool>`` and ``<str>`` next to flags and arguments, and parentheses around defaults in words.
    """
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        if param.param_type_name == "argument":
            param.display_type_rich = _no_type
        if isinstance(param.show_default, str):
            param._get_default_string = partial(_default, param.show_default)
    return params


def _no_type(ctx: Any) -> None:
    return None


def _default(text: str, **_: Any) -> str:
    return text
