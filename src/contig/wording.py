"""Counts and sizes in messages."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 event``, ``1,200 events``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def in_bytes(number: float) -> str:
    """Return a size: ``2.50 GB``, ``900 MB``, ``12 kB``."""
    if number >= 1e9:
        return f"{number / 1e9:,.2f} GB"
    return f"{number / 1e6:,.0f} MB" if number >= 1e6 else f"{number / 1e3:,.0f} kB"
