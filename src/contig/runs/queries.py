"""The arguments of queries: their ids and times, checked and converted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import LATEST, TimeLike, TimeSpan, check_unit, out_of_range, parse_time
from contig.data.columns import Array
from contig.errors import ConfigError, DataError, unknown
from contig.tasks.recommend import AsOf


def check_k(k: int) -> None:
    """Raise ``ConfigError`` unless ``k`` is a whole number of at least 1."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"k={k!r}: pass a whole number of at least 1.")


def check_as_of(as_of: str) -> None:
    """Raise ``ConfigError`` unless it is when states are read."""
    if as_of not in get_args(AsOf):
        raise ConfigError(unknown("value for as_of", as_of, get_args(AsOf)))


def paired(src: Any, dst: Any) -> tuple[Array, Array]:
    """Return two columns of ids; a single id is repeated for all of the other side."""
    sides = [np.atleast_1d(np.asarray(side)) for side in (src, dst)]
    single = [not isinstance(side, Iterable) or isinstance(side, str) for side in (src, dst)]
    if single[0] != single[1]:
        one = single.index(True)
        sides[one] = np.repeat(sides[one], len(sides[1 - one]))
    return sides[0], sides[1]


def query_time(
    given: TimeLike | None, span: TimeSpan, indexed: Tensor, date_format: str | None = None
) -> Tensor:
    """Convert a time to a tensor like ``indexed``, the times of the history.

    None means just after the last event.
    """
    if given is None:
        last = indexed[-1]
        return torch.nextafter(last, last.new_tensor(math.inf)) if last.is_floating_point() else last + 1
    at = parse_time(given, span, f"at={given!r}", date_format)
    if not abs(at) < LATEST:
        raise DataError(f"at={at}: pass a finite time.")
    check_unit(np.array([at]), span, lambda _: "at")
    # Embeddings move between two whole times too.
    dtype = indexed.dtype if math.floor(at) == at else torch.float64
    return torch.tensor(at, dtype=dtype, device=indexed.device)


def pair_times(
    times: Sequence[TimeLike] | NDArray[Any], span: TimeSpan, date_format: str | None = None
) -> Array:
    """Convert the times of pairs, one each, to numbers of the stream's unit."""
    numbers = _numbers(times, span, "t", date_format)
    if numbers.ndim != 1:
        raise DataError("t must be a time, or one time per pair.")
    return numbers


def ascending_times(
    times: Sequence[TimeLike] | NDArray[Any], span: TimeSpan, date_format: str | None = None
) -> Array:
    """Convert the times of a trajectory to numbers of the stream's unit; raise unless they ascend."""
    numbers = _numbers(times, span, "times", date_format)
    if numbers.ndim != 1 or not len(numbers):
        raise DataError(f"times={times!r}: pass a sequence of at least one time, such as ['2024-05-01'].")
    if (falls := np.diff(numbers) < 0).any():
        row = int(np.argmax(falls)) + 1
        raise DataError(
            f"times[{row}]={np.asarray(times)[row]} is earlier than the one before it; sort them."
        )
    check_unit(numbers, span, lambda row: f"times[{row}]")
    return numbers


def _numbers(
    times: Sequence[TimeLike] | NDArray[Any], span: TimeSpan, name: str, date_format: str | None
) -> Array:
    numbers = np.asarray(times)
    if numbers.ndim == 1 and numbers.dtype.kind not in "iuf":
        return np.array([parse_time(one, span, f"{name}: {one!r}", date_format) for one in times])
    return numbers


def score_times(t: Array, span: TimeSpan, place: Callable[[int], str]) -> Array:
    """Check times that pairs are scored at; they become integers if the stream's are and all are whole."""
    first = span.first
    bad = out_of_range(t) | (t < first)
    if bad.any():
        row = int(np.argmax(bad))
        value = t[row].item()
        if not t[row] < first:
            raise DataError(f"{place(row)}: t={value}: pass a finite time.")
        raise DataError(
            f"{place(row)}: t={span.written(value)} is before the first event, at "
            f"{span.written(span.first)}; a score needs events to build on."
        )
    check_unit(t, span, lambda row: f"{place(row)}: t")
    whole = span.type.startswith("int") and bool(np.all(np.floor(t) == t))
    return t.astype(np.int64 if whole else np.float64)
