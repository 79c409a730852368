"""The path of a node's embedding: at which times it is computed, and how it is shown in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.clock import TimeLike
from contig.data.ids import Side
from contig.live import Engine, PastEvent

Spacing = Literal["time", "events"]
MOST_EVENTS = 1_000  # events of a node that are looked at


@dataclass(frozen=True, eq=False)
class Path:
    """The embedding of a node at many times, and its events on the way.

    ``indices[i]`` is the first point that knows ``events[i]``.
    """

    node: int | str
    times: NDArray[Any]  # [points], ascending
    embeddings: NDArray[np.float32]  # [points, d]
    events: Sequence[PastEvent]
    indices: Sequence[int]


def follow(
    engine: Engine,
    node: int | str,
    side: Side | None,
    span: tuple[TimeLike, TimeLike],
    steps: int,
    spacing: Spacing,
) -> Path:
    """Embed a node at ``steps`` times from the first to the last of a span.

    With the spacing ``events``, every interval between two events of the node gets as many points, the first
    of them just after the event and the last just before the next: jumps and drift are apart.
    """
    ends = engine.trajectory(node, *span, 2, side=side)
    first, last = (t.item() for t in ends.times)
    recent = engine.recent_events(node, MOST_EVENTS, side=side)
    events = [event for event in reversed(recent) if first <= event.t < last]
    intervals = [(first, last)]
    if spacing == "events":
        latest = events[len(events) - min(len(events), max(steps // 2 - 1, 0)) :]  # two points each
        intervals = between(first, last, [event.t for event in latest])
    sizes = np.diff(np.linspace(0, steps, len(intervals) + 1).round().astype(int)).tolist()
    parts = [
        engine.trajectory(node, *interval, size, side=side)
        for interval, size in zip(intervals, sizes, strict=True)
    ]
    times = np.concatenate([part.times for part in parts])
    indices = np.searchsorted(times, [event.t for event in events], side="right").tolist()
    return Path(node, times, np.concatenate([part.embeddings for part in parts]), events, indices)


def between(first: float, last: float, events: Sequence[float]) -> list[tuple[float, float]]:
    """Return the intervals between events in a span, each from just after an event to the next one.

    An answer for the time of an event does not know it yet, so the end of an interval is before its jump.
    """
    cuts = sorted({t for t in events if first < t < last})
    starts = [first, *(_just_after(cut, end) for cut, end in pairwise([*cuts, last]))]
    return list(zip(starts, [*cuts, last], strict=True))


def _just_after(event: float, end: float) -> float:
    """Return a time after an event that is close to it, compared with the time to the next one."""
    if isinstance(event, int) and isinstance(end, int) and end - event > 1:
        return event + max(1, (end - event) // 1000)
    return event + (end - event) / 1000


def project(path: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Project a path ``[points, d]`` on its first two principal components; also return their shares."""
    centered = path.astype(np.float64) - path.mean(axis=0, dtype=np.float64)
    left, strength, axes = np.linalg.svd(centered, full_matrices=False)
    # The sign of a component is arbitrary; fix it, so that the same path always looks the same.
    sign = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    missing = max(2 - len(strength), 0)
    points = np.pad(left * strength * sign, ((0, 0), (0, missing)))[:, :2]
    return points, np.pad(strength**2 / max(float((strength**2).sum()), 1e-30), (0, missing))[:2]


def distances(path: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the distance of every point to the one before it; 0 for the first."""
    moved = np.diff(path.astype(np.float64), axis=0, prepend=path[:1])
    lengths: NDArray[np.float64] = np.linalg.norm(moved, axis=1)
    return lengths
