"""The one exception family, and the suggestions that go with unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ContigError(Exception):
    """Something the caller can put right; the message says what and how."""


class DataError(ContigError):
    """The events are not what they must be (a column, a row, a value)."""


class ConfigError(ContigError):
    """An option's name or value is not one we know."""


class RunError(ContigError):
    """A run folder is missing, incomplete or does not fit what is asked of it."""


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """A message for an unknown name that offers the nearest known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"Unknown {what} {given!r}.{hint} Known: {', '.join(names)}."
