"""Results for people: tables as plain text cells, for any front end to render."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

SELECTIONS = ("transductive", "inductive")  # those that tables show


@dataclass(frozen=True)
class ResultTable:
    """Text cells under headings; ``notes`` explain what the numbers are."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    names: int = 2  # how many columns on the left are names rather than numbers


def selection_rows(
    results: Mapping[str, Any],
    cells: Callable[[Any], tuple[str, ...]],
    selections: Mapping[str, str] | None = None,
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each selection of each result.

    ``results`` are named by their model; ``selections`` are fields of a result, by how to name them
    (transductive and inductive by default). Selections after the first are left out if no result has events.
    """
    selections = {name: name for name in SELECTIONS} if selections is None else selections
    first, *_ = selections
    return tuple(
        (name, model, *cells(getattr(result, selection)))
        for name, selection in selections.items()
        if name == first or any(map(_has_events, (getattr(one, selection) for one in results.values())))
        for model, result in results.items()
    )


def _has_events(metrics: Any) -> bool:
    return bool(getattr(metrics, "events", 1))


def percent(share: float) -> str:
    """Format a share as a percentage; a dash for NaN."""
    return "-" if isnan(share) else f"{100 * share:.2f}"


def count(number: int) -> str:
    """Format a number with thousands separators."""
    return f"{number:,}"
