"""The exceptions of the package, and messages for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ContigError(Exception):
    """An error that the caller can fix; the message says how."""


class DataError(ContigError):
    """The events are invalid: a column, a row or a value."""


class NoEventsError(DataError):
    """The columns of the file or table are as expected, but there are no rows."""

    @property
    def problem(self) -> str:
        """The message without what a stream needs, which later events do not."""
        return str(self).rpartition(";")[0]


class ConfigError(ContigError):
    """The name or the value of an option is invalid."""


class DiskError(ContigError, OSError):
    """A file cannot be written or read: a full disk, a missing permission."""


class StorageFullError(DiskError):
    """There is no space left for events; nothing of the request was stored."""


class DamagedLogError(ContigError):
    """The event log of a live folder is damaged; the message says what to do."""


class UnknownNodeError(DataError):
    """No event has named the node."""


class RunError(ContigError):
    """A run folder is missing, incomplete or does not support the request."""


def unknown(what: str, given: str, known: Iterable[str], where: str = "") -> str:
    """Return a message for an unknown name that suggests the most similar known ones.

    ``where`` follows the name: ``Unknown option 'k' of the task link``.
    """
    names, at = sorted(known), f" {where}" if where else ""
    hint = did_you_mean(given, names, 0.5)
    return f"Unknown {what} {given!r}{at}.{hint} Known: {', '.join(names) or 'none'}."


def did_you_mean(given: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Return a question after the known names that are most similar to the given one, or nothing."""
    near = close_names(given, known, cutoff)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def close_names(given: str, known: Iterable[str], cutoff: float = 0.5) -> list[str]:
    """Return the known names that are most similar to the given one, best first."""
    return difflib.get_close_matches(given, list(known), n=3, cutoff=cutoff)
