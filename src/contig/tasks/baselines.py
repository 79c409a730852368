"""Heuristic baselines next to a learned model, and where the model loses to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from contig.tasks.results import TaskResult
from contig.tasks.tables import FEW
from contig.tasks.task import Task
from contig.wording import counted

HEURISTICS = ("recency", "edgebank", "popularity", "transition")  # those tested next to every learned model


class Loss(NamedTuple):
    """A heuristic that is better than a model on a selection of events."""

    selection: str
    heuristic: str
    metric: str
    model: float
    better: float
    events: int | None = None  # on which both were measured, if the metrics say

    def text(self, model: str) -> str:
        """Say it in one line."""
        ours, theirs = 100 * self.model, 100 * self.better
        few = f", on only {counted(self.events, 'event')}" if self.events and self.events < FEW else ""
        return (
            f"{model} loses to {self.heuristic} by {theirs - ours:.2f} points of {self.metric.upper()}, "
            f"{self.selection} ({ours:.2f} against {theirs:.2f}{few})"
        )

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def losses(
    task: type[Task[Any, Any]],
    result: TaskResult,
    heuristics: Mapping[str, TaskResult],
    *,
    inductive: bool = True,
) -> list[Loss]:
    """Return the best heuristic of each selection on which it is better than the model.

    A model that is not ``inductive`` is measured on events between known nodes, so heuristics are too.
    """
    found = []
    for selection, field in task.selections.items():
        own = _value(task, result, field)
        theirs = "old_old" if not inductive and hasattr(result, "old_old") else field
        better = {
            name: value for name, one in heuristics.items() if (value := _value(task, one, theirs)) > own
        }
        if better:  # never where the model was not measured, because its metric is NaN
            best = max(better, key=lambda name: better[name])
            events = getattr(getattr(result, field), "events", None)
            found.append(Loss(selection, best, task.headline, own, better[best], events))
    return found


def _value(task: type[Task[Any, Any]], result: TaskResult, selection: str) -> float:
    value: float = getattr(getattr(result, selection), task.headline)
    return value
