"""Results for people: tables as plain text cells, for any front end to render."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

SELECTIONS = ("transductive", "inductive")  # those that tables show
FEW = 100  # figures that rest on fewer events depend much on chance
FEW_MARK = "*"
FEW_NOTE = f"{FEW_MARK} fewer than {FEW} events: the figures may be due to chance"


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


def event_count(events: int) -> str:
    """Format how many events a figure rests on, marked if they are few."""
    return f"{count(events)}{few_mark(events)}"


def few_mark(events: int) -> str:
    """Return the mark of figures that rest on few events."""
    return FEW_MARK if 0 < events < FEW else ""


def few_notes(rows: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the note that explains the mark, if a row has it."""
    return (FEW_NOTE,) if any(cell.endswith(FEW_MARK) for row in rows for cell in row) else ()
