"""Negative edges as DyGLib samples them: whole pairs, whose source may differ from the event's.

The protocol is that of ``NegativeEdgeSampler`` in DyGLib (Yu et al., "Towards Better Dynamic Graph
Learning", NeurIPS 2023), after Poursafaei et al., "Towards Better Evaluation for Dynamic Link Prediction"
(NeurIPS 2022). Events are taken in blocks of 200. For a block from time ``start`` to ``end`` the candidates
are distinct edges of any source that occurred up to ``start`` and do not occur from ``start`` to ``end``:

- ``historical``: all of them, whether in training, validation or test;
- ``inductive``: those that had not occurred before the evaluated part of the stream, such as the test.

A block gets as many as it has events, without replacement and in no particular order. Where there are fewer,
the rest are random pairs of a source and a destination that do not occur from ``start`` to ``end``.

Blocks have 200 events whatever the batch size of a model, so that all models have the same negatives. DyGLib
lets a random pair be a true event if that is not one of the events it evaluates; here it never is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.errors import DataError

BLOCK = 200  # events sampled for at once: the batch size of DyGLib

Ids = NDArray[np.int64]


class NegativeEdges(NamedTuple):
    """A negative pair for each event; every field is ``[events]``."""

    src: Ids
    dst: Ids
    fallback: NDArray[np.bool_]  # whether it is random because no other was left

    @property
    def fallback_share(self) -> float:
        """Return the share of random pairs; NaN without events."""
        return float(np.mean(self.fallback)) if len(self.fallback) else float("nan")


def sample_edges(
    stream: EventStream,
    events: Ids,
    rng: np.random.Generator,
    *,
    among: Ids | None = None,
    only_new: bool = False,
) -> NegativeEdges:
    """Sample a negative edge for each of ``events`` (ascending positions).

    ``among`` are the positions of the events whose edges are candidates (all by default); random pairs
    combine their sources and destinations. ``only_new`` leaves out edges that occurred before the first of
    ``events``.
    """
    if not len(events):
        nothing = np.empty(0, dtype=np.int64)
        return NegativeEdges(nothing, nothing, nothing.astype(bool))
    among = np.arange(len(stream)) if among is None else among
    observed = int(events[0]) if only_new else 0
    pool = _Pool(stream, among, observed)
    blocks = [pool.sample(events[at : at + BLOCK], rng) for at in range(0, len(events), BLOCK)]
    return NegativeEdges(*map(np.concatenate, zip(*blocks, strict=True)))


class _Pool:
    """The distinct edges of some events, in the order in which they first occur."""

    def __init__(self, stream: EventStream, among: Ids, observed: int) -> None:
        self.stream = stream
        self.codes = stream.src * stream.num_nodes + stream.dst
        self.sorted, first = np.unique(self.codes[among], return_index=True)
        order = np.argsort(first)
        self.edges = self.sorted[order]
        self.place = np.argsort(order)  # of each sorted edge among the edges
        self.first_time = stream.t[among[first[order]]]
        self.begin = int(np.searchsorted(among[first[order]], observed))  # the first that is a candidate
        self.grids = [_Grid(stream, among), _Grid(stream, np.arange(len(stream)))]

    def sample(self, block: Ids, rng: np.random.Generator) -> NegativeEdges:
        """Sample an edge for each event of a block."""
        start, end = self.stream.t[block[0]], self.stream.t[block[-1]]
        now = self._occurring(start, end)
        stop = max(self.begin, int(np.searchsorted(self.first_time, start, side="right")))
        places = self.place[_positions(now, self.sorted)]
        taken = np.sort(places[(places >= self.begin) & (places < stop)]) - self.begin
        free = stop - self.begin - len(taken)
        count = min(len(block), free)
        chosen = self.edges[self.begin + _step_over(rng.choice(free, count, replace=False), taken)]
        random = self._random(len(block) - count, now, block, rng)
        code, fallback = np.append(chosen, random), np.arange(len(block)) >= count
        order = rng.permutation(len(block))
        src, dst = np.divmod(code[order], self.stream.num_nodes)
        return NegativeEdges(src, dst, fallback[order])

    def _occurring(self, start: np.generic, end: np.generic) -> Ids:
        """Return the distinct edges of the whole stream from ``start`` to ``end``."""
        times = self.stream.t
        first, stop = np.searchsorted(times, start), np.searchsorted(times, end, side="right")
        return np.unique(self.codes[first:stop])

    def _random(self, count: int, now: Ids, block: Ids, rng: np.random.Generator) -> Ids:
        if not count:
            return np.empty(0, dtype=np.int64)
        for grid in self.grids:
            taken = grid.places(now)
            free = grid.size - len(taken)
            if free:
                return grid.edges(_step_over(rng.choice(free, count, replace=free < count), taken))
        raise DataError(
            f"{self.stream.origin}: every pair of a source and a destination interacts at the time of event "
            f"{block[0]} or soon after, so there is no negative; use a stream with more nodes."
        )


class _Grid:
    """All pairs of the sources and the destinations of some events."""

    def __init__(self, stream: EventStream, among: Ids) -> None:
        self.nodes = stream.num_nodes
        self.src, self.dst = np.unique(stream.src[among]), np.unique(stream.dst[among])
        self.size = len(self.src) * len(self.dst)

    def places(self, codes: Ids) -> Ids:
        """Return the ascending numbers of those edges that are in the grid."""
        src, dst = np.divmod(codes, self.nodes)
        inside = np.isin(src, self.src) & np.isin(dst, self.dst)
        row, column = np.searchsorted(self.src, src[inside]), np.searchsorted(self.dst, dst[inside])
        return np.sort(row * len(self.dst) + column)

    def edges(self, places: Ids) -> Ids:
        """Return the codes of the edges with these numbers."""
        row, column = np.divmod(places, len(self.dst))
        return self.src[row] * self.nodes + self.dst[column]


def _positions(values: Ids, pool: Ids) -> Ids:
    """Return the positions of those values that are in a sorted pool."""
    at = np.searchsorted(pool, values).clip(max=len(pool) - 1)
    found: Ids = at[pool[at] == values]
    return found


def _step_over(numbers: Ids, taken: Ids) -> Ids:
    """Return the integers with these numbers among those that are not in ``taken`` (ascending)."""
    over: Ids = np.searchsorted(taken - np.arange(len(taken)), numbers, side="right")
    return numbers + over
