"""Counts in messages."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 event``, ``1,200 events``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
