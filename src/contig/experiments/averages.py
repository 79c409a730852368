"""Results of one task over several seeds, as one table: mean and standard deviation of every number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from math import isnan, nan
from statistics import mean, stdev
from typing import Any

from contig.experiments.rows import Spread
from contig.tasks.results import Protocol, TaskResult
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


def flat_spreads(results: Sequence[Any], *path: str) -> Iterator[tuple[str, float | int | None]]:
    """Yield the numbers of a result over seeds by the name of their column in a CSV file.

    A name is that of the field, followed by where it is: ``mrr_transductive_mean``. A number with a fraction
    has a mean and a standard deviation, None where undefined; a count is that of the first seed. Protocols
    and lists have no columns.
    """
    first = results[0]
    if isinstance(first, Protocol):
        return
    if is_dataclass(first):
        inner = {one.name: [getattr(result, one.name) for result in results] for one in fields(first)}
    elif isinstance(first, Mapping):
        inner = {str(key): [result[key] for result in results] for key in first}
    else:
        yield from _flat_number(results, "_".join([*path[-1:], *path[:-1]]))
        return
    for name, values in inner.items():
        if not any(value is None for value in values):
            yield from flat_spreads(values, *path, name)


def _flat_number(values: Sequence[Any], name: str) -> Iterator[tuple[str, float | int | None]]:
    if isinstance(values[0], float):
        for statistic, value in Spread.of(values).as_dict().items():
            yield f"{name}_{statistic}", value
    elif isinstance(values[0], int):
        yield name, values[0]


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else nan


def _cell(mean: str, deviation: str) -> str:
    return mean if deviation in ("-", mean) or "±" in mean else f"{mean} ± {deviation}"
