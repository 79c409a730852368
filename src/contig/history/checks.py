"""Checks of queries and of events to append."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.errors import DataError
from contig.history.columns import EventColumns
from contig.kernels.lookup import last_times
from contig.kernels.segments import Segments

MAX_NODE = 2**31 - 2  # entries store nodes as int32


def check_queries(nodes: Tensor, times: Tensor) -> None:
    """Raise ``DataError`` unless these are two vectors of node ids and of times."""
    for name, value in (("nodes", nodes), ("times", times)):
        if not isinstance(value, Tensor):
            raise DataError(f"{name} is a {type(value).__name__}; expected a tensor.")
    if nodes.ndim != 1 or nodes.shape != times.shape:
        raise DataError(
            f"nodes {list(nodes.shape)} and times {list(times.shape)} must be two vectors of the same length."
        )
    if nodes.dtype not in (torch.int64, torch.int32):
        raise DataError(f"nodes are {nodes.dtype}; expected int64 node ids.")
    if times.dtype not in (torch.int64, torch.float64, torch.int32):
        raise DataError(f"times are {times.dtype}; expected int64 or float64, since float32 loses seconds.")


def checked_positions(chosen: Any, num_events: int) -> NDArray[np.int64]:
    """Return positions of events as an array; raise ``DataError`` unless they are distinct and ascending."""
    given = np.asarray(chosen)
    ascending = given.ndim == 1 and (given.dtype.kind in "iu" or not len(given))
    positions = given.astype(np.int64) if ascending else np.empty(0, np.int64)
    if len(positions):
        ascending = bool(positions[0] >= 0 and positions[-1] < num_events and (np.diff(positions) > 0).all())
    if not ascending:
        raise DataError(
            f"only: expected distinct event positions below {num_events:,} in ascending order; "
            "np.flatnonzero turns a mask into positions."
        )
    return positions


def check_appended(
    events: EventColumns, src: Tensor, dst: Tensor, t: Tensor, features: Tensor | None
) -> dict[str, Tensor]:
    """Return the rows to add to ``events``; raise ``DataError`` if any of them is invalid."""
    for nodes in (src, dst):
        check_queries(nodes, t)
    _check_nodes(src, dst)
    times = _checked_times(events["t"], t)
    _check_features(events.columns.get("features"), features, len(t))
    rows = {"src": src, "dst": dst, "t": times}
    return rows if features is None else rows | {"features": features}


def check_happened(happened: Tensor, clock: Tensor) -> Tensor:
    """Return the events' own times in the dtype of the clock; none may be after it."""
    _check_vector("happened", happened, clock)
    times = _exact_times(happened, clock.dtype)
    if bool((times > clock).any()):
        raise DataError("append: an event happened after the clock of the stream; its own time is at most t.")
    return times


def check_late(late: Tensor, happened: Tensor | None, t: Tensor) -> Tensor:
    """Return the marks of late events; raise ``DataError`` unless there is one per event."""
    _check_vector("late", late, t)
    if late.dtype != torch.bool:
        raise DataError(f"append: late is {late.dtype}; expected a mask of booleans.")
    if happened is None and bool(late.any()):
        raise DataError("append: late events need their own times in happened.")
    return late


def _check_vector(name: str, values: Tensor, t: Tensor) -> None:
    """Raise ``DataError`` unless there is one value per event."""
    if values.shape != t.shape:
        raise DataError(f"append: {name} has shape {list(values.shape)}; expected {list(t.shape)}, like t.")


def check_order_of_nodes(segments: Segments, src: Tensor, dst: Tensor, happened: Tensor) -> None:
    """Raise ``DataError`` if an event happened before an earlier one of the same node."""
    node, order = torch.stack([src, dst], dim=1).flatten().sort(stable=True)
    time = happened.repeat_interleave(2)[order]
    last, known = last_times(segments, node)
    first = torch.cat([torch.ones_like(known[:1]), node.diff() != 0])
    before = torch.where(first, torch.where(known, last, time), time.roll(1))
    if bool((time < before).any()):
        raise DataError("append: an event happened before another one of its nodes; mark it as late.")


def _check_nodes(src: Tensor, dst: Tensor) -> None:
    if len(src) and (int(torch.minimum(src, dst).min()) < 0 or int(torch.maximum(src, dst).max()) > MAX_NODE):
        raise DataError(f"append: a node id is not in 0..{MAX_NODE:,}; number the nodes from 0.")


def _checked_times(before: Tensor, t: Tensor) -> Tensor:
    """Return ``t`` in the dtype of the times before."""
    times = _exact_times(t, before.dtype)
    if bool((torch.cat([before[-1:], times]).diff() < 0).any()):
        raise DataError("append: times decrease; events must be appended in stream order.")
    return times


def _exact_times(t: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert times without changing any of them."""
    if t.dtype.is_floating_point and not bool(torch.isfinite(t).all()):
        raise DataError("append: a time is not finite; every event needs a real time.")
    times = t.to(dtype)
    # Comparing the two would convert integers to floating point; converting back shows what was lost.
    if dtype != t.dtype and bool(((times.to(t.dtype) != t) | (t.abs() >= 2.0**63)).any()):
        raise DataError(
            f"append: this history stores times as {dtype}, and a time does not fit; "
            "round it, or build the history with times of the other type."
        )
    return times


def _check_features(column: Tensor | None, features: Tensor | None, count: int) -> None:
    expected = None if column is None else [count, column.shape[1]]
    shape = None if features is None else list(features.shape)
    if shape != expected:
        raise DataError(f"append: expected features of shape {expected}, got {shape}.")
    if features is None or column is None:
        return
    if not bool(torch.isfinite(features).all()):
        raise DataError("append: a feature is not finite; fill in missing features, usually with 0.")
    if not bool(torch.isfinite(features.to(column.dtype)).all()):
        raise DataError(f"append: a feature is too large for {column.dtype}; scale the features.")
