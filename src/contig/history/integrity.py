"""Checks of a saved history before any compiled loop reads it.

Compiled loops do not check indices, so an index out of range would crash the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from contig.errors import DataError
from contig.kernels.segments import ENTRIES, SEGMENTS, concatenated_ranges, node_ranges

CHUNK = 2**20  # entries checked at once, so that a mapped history need not fit into memory

_TIMES = (torch.int64, torch.float64)
_DTYPES: dict[str, tuple[torch.dtype, ...]] = {
    "events.src": (torch.int64,),
    "events.dst": (torch.int64,),
    "events.t": _TIMES,
    "events.features": (torch.float32,),
    "entry_event": (torch.int32, torch.int64),
    "entry_node": (torch.int32,),
    "entry_time": _TIMES,
    "start": (torch.int64,),
    "length": (torch.int64,),
    "capacity": (torch.int64,),
}


def check_saved(arrays: Mapping[str, Tensor], folder: Path) -> None:
    """Raise ``DataError`` unless these arrays are a consistent history."""
    for problem in _problems(arrays):
        raise DataError(f"{folder}: the saved history is damaged ({problem}); save it again.")


def _problems(arrays: Mapping[str, Tensor]) -> Iterator[str]:
    """Yield what is wrong, the checks that later ones rely on first."""
    yield from _wrong_names(arrays)
    yield from _wrong_shapes(arrays)
    yield from _wrong_columns(arrays)
    yield from _wrong_segments(arrays)
    yield from _wrong_entries(arrays)


def _wrong_names(arrays: Mapping[str, Tensor]) -> Iterator[str]:
    if missing := sorted(_DTYPES.keys() - arrays.keys() - {"events.features"}):
        yield f"missing: {', '.join(missing)}"
    if extra := sorted(arrays.keys() - _DTYPES.keys()):
        yield f"unknown: {', '.join(extra)}"


def _wrong_shapes(arrays: Mapping[str, Tensor]) -> Iterator[str]:
    for name, array in arrays.items():
        if array.dtype not in _DTYPES[name]:
            yield f"{name} is {array.dtype}"
        if array.ndim != 1 + (name == "events.features") or not array.is_contiguous():
            yield f"{name} has shape {list(array.shape)} and strides {list(array.stride())}"
    columns = [name for name in arrays if name.startswith("events.")]
    for names in (columns, ENTRIES, SEGMENTS):
        if len({len(arrays[name]) for name in names}) > 1:
            yield f"the lengths of {', '.join(names)} differ"
    if arrays["events.t"].dtype != arrays["entry_time"].dtype:
        yield "events.t and entry_time have different dtypes"


def _wrong_columns(arrays: Mapping[str, Tensor]) -> Iterator[str]:
    nodes = len(arrays["start"])
    for name in ("events.src", "events.dst"):
        if not _within(arrays[name], 0, nodes - 1):
            yield f"{name} is not in 0..{nodes}"
    for part in _overlapping_chunks(arrays["events.t"]):
        if not (bool(torch.isfinite(part).all()) and bool((part[1:] >= part[:-1]).all())):
            yield "events.t decreases or is not finite"


def _wrong_segments(arrays: Mapping[str, Tensor]) -> Iterator[str]:
    start, length, capacity = (arrays[name] for name in SEGMENTS)
    pool = len(arrays["entry_event"])
    if not (_within(start, 0, pool) and _within(capacity, 0, pool) and _within(length, 0, pool)):
        yield "a segment is outside of the pool"
        return
    if bool((length > capacity).any()) or bool((start + capacity > pool).any()):
        yield "a segment is longer than its capacity or outside of the pool"
    order = torch.argsort(start[capacity > 0])
    first, size = start[capacity > 0][order], capacity[capacity > 0][order]
    if bool((first[:-1] + size[:-1] > first[1:]).any()):
        yield "two segments overlap"


def _wrong_entries(arrays: Mapping[str, Tensor]) -> Iterator[str]:
    src, dst, t = (arrays[f"events.{name}"] for name in ("src", "dst", "t"))
    for owner, at in _entry_chunks(arrays["start"], arrays["length"]):
        event, node, time = (arrays[name][at] for name in ENTRIES)
        if not _within(event, 0, len(t) - 1):
            yield f"entry_event is not in 0..{len(t)}"
        if bool(((event[1:] <= event[:-1]) & (owner[1:] == owner[:-1])).any()):
            yield "the events of a segment are not in stream order"
        one, other = src[event], dst[event]
        matches = ((one == owner) & (other == node)) | ((other == owner) & (one == node))
        if not bool((matches & (time == t[event])).all()):
            yield "an entry does not match its event"


def _entry_chunks(start: Tensor, length: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield owners and positions of entries, at most a chunk at a time but whole segments."""
    for first, last in node_ranges(length, entries=CHUNK):
        part = slice(first, last)
        owner = torch.arange(first, last).repeat_interleave(length[part])
        yield owner, concatenated_ranges(start[part], length[part])


def _overlapping_chunks(column: Tensor) -> Iterator[Tensor]:
    """Yield a column in chunks, each beginning with the last value of the one before."""
    for first in range(0, len(column), CHUNK):
        yield column[max(first - 1, 0) : first + CHUNK]


def _within(values: Tensor, low: int, high: int) -> bool:
    return not len(values) or (int(values.min()) >= low and int(values.max()) <= high)
