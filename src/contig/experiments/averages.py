"""Results of one task over several seeds, as one table: mean and standard deviation of every number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from math import isnan, nan
from statistics import mean, stdev
from typing import Any

from contig.tasks.results import TaskResult
from contig.tasks.tables import ResultTable
from contig.tasks.task import Task

Statistic = Callable[[Sequence[float]], float]


def mean_table(task: type[Task[Any, Any]], results: Mapping[str, Sequence[TaskResult]]) -> ResultTable:
    """Return the table of a task, with the results of several seeds for each model.

    Where the mean and the standard deviation of a cell are the same text, as for counts, or the cell has a
    deviation of its own, it shows the mean alone.
    """
    means = task.table({name: combined(seeds, mean) for name, seeds in results.items()})
    if max(map(len, results.values())) == 1:
        return means
    spread = task.table({name: combined(seeds, _deviation) for name, seeds in results.items()})
    rows = tuple(
        tuple(map(_cell, ours, theirs)) for ours, theirs in zip(means.rows, spread.rows, strict=True)
    )
    seeds = " or ".join(f"{count:,}" for count in sorted({len(one) for one in results.values()}))
    return replace(means, rows=rows, notes=(*means.notes, f"mean ± standard deviation over {seeds} seeds"))


def combined(values: Sequence[Any], statistic: Statistic) -> Any:
    """Combine records of the same type: each number with a fraction becomes the statistic over all of them.

    Everything else, such as counts and text, is that of the first record.
    """
    first = values[0]
    if is_dataclass(first) and not isinstance(first, type):
        each = {one.name: [getattr(value, one.name) for value in values] for one in fields(first)}
        return replace(first, **{name: combined(column, statistic) for name, column in each.items()})
    if isinstance(first, dict):
        return {key: combined([value[key] for value in values], statistic) for key in first}
    if isinstance(first, float):
        return nan if any(map(isnan, values)) else statistic(values)
    return first


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else nan


def _cell(mean: str, deviation: str) -> str:
    return mean if deviation in ("-", mean) or "±" in mean else f"{mean} ± {deviation}"
