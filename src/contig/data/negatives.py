"""Negative destinations: those a source did not interact with at that time.

``contig.data.negative_edges`` samples whole pairs, as DyGLib does.

Sampling is exact, without rejection: to pick one of ``n`` candidates of which ``m`` are true at that
time, draw one of ``n - m`` positions and step over the true ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.columns import Array
from contig.data.events import EventStream, check_stream
from contig.errors import ConfigError, DataError, unknown

Kind = Literal["random", "historical-source"]
GROUPED_AT_ONCE = 1 << 22  # events
KINDS: tuple[Kind, ...] = ("random", "historical-source")


class Negatives:
    """Samples negative destinations for the events of one stream, with its own generator.

    ``random`` samples from ``destinations`` (all of the stream's by default); ``historical-source`` from the
    destinations of the source's training events. If the source has no such destination left, the sample is
    ``random``; ``falls_back`` says for which events. A sampled pair is never a true event of that source and
    time. With ``train``, ``draw`` can add historical negatives to random ones. ``events`` are the positions
    that will be sampled for (all by default); if one of them leaves no destination to sample, that is an
    error.
    """

    def __init__(
        self,
        stream: EventStream,
        kind: Kind = "random",
        *,
        train: NDArray[np.int64] | None = None,
        destinations: NDArray[np.int64] | None = None,
        events: NDArray[np.int64] | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        check_stream(stream)
        if kind not in KINDS:
            raise ConfigError(unknown("kind of negatives", str(kind), KINDS))
        if kind != "random" and train is None:
            raise ConfigError(f"{kind} negatives need train=, the positions of the training events.")
        self.kind = kind
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self._nodes = stream.num_nodes
        self.destinations = self._tensor(
            stream.destinations if destinations is None else np.unique(destinations)
        )
        if not len(self.destinations):
            raise ConfigError("destinations= is empty; negatives are sampled from it.")
        truth = _true_destinations(stream)
        # int32 where it fits: of a long stream these are the largest arrays of a training
        self._true = torch.from_numpy(truth.destinations).to(self.device)  # flat, ascending inside a group
        self._first = torch.from_numpy(truth.first).to(self.device)  # [groups + 1] where each group begins
        self._group = torch.from_numpy(truth.group_of_event).to(self.device)  # [events]
        self._most = int(np.diff(truth.first).max())
        met = _pairs(stream, train)
        self._pairs = self._tensor(met)  # sorted source * nodes + destination
        self._check_possible(stream, np.arange(len(stream)) if events is None else events)

    def _tensor(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.require(array, np.int64, ["C", "W"])).to(self.device)

    def _check_possible(self, stream: EventStream, events: NDArray[np.int64]) -> None:
        """Reject events whose source interacts with every destination at that time."""
        wanted = self._tensor(events)
        impossible = wanted[self.without_negative(wanted)]
        if len(impossible):
            event = int(impossible[0])
            raise DataError(
                f"{stream.origin}: event {event}: its source interacts with every destination at time "
                f"{stream.t[event]}, so there is no negative; add destinations or leave out such events."
            )

    def without_negative(self, events: Tensor) -> Tensor:
        """Return which events leave no destination to sample, because all of them are true."""
        if self._most < len(self.destinations):
            return torch.zeros(len(events), dtype=torch.bool, device=self.device)
        taken = self._places_of(self._true.long(), self.destinations)[1].long()
        total, first = torch.nn.functional.pad(taken.cumsum(0), (1, 0)), self._first.long()
        full = total[first[1:]] - total[first[:-1]] >= len(self.destinations)
        return full[self._group[events].long()]

    def _true_at(self, events: Tensor) -> Tensor:
        """Return the true destinations of each event's source and time, padded with -1."""
        group = self._group[events].long()
        at = self._first[group].unsqueeze(1) + torch.arange(self._most, device=self.device)
        inside = at < self._first[group + 1].unsqueeze(1)
        return torch.where(inside, self._true[torch.where(inside, at, 0)].long(), -1)  # [events, most]

    def draw(self, events: Tensor, src: Tensor, count: int = 1, *, historical: int = 0) -> Tensor:
        """Sample ``count`` negative destinations for each event (by position), ``[events, count]``.

        The last ``historical`` of them are ``historical-source``, whatever the kind.
        """
        uniform = torch.rand(
            (len(events), count), dtype=torch.float64, device=self.device, generator=self.generator
        )
        true = self._true_at(events)
        random = self._pick(self.destinations, *self._segment_of_all(len(events)), true, uniform)[0]
        kept = 0 if self.kind == "historical-source" else count - historical
        if kept == count:
            return random
        picked, any_left = self._pick_met(src, true, uniform[:, kept:])
        return torch.cat([random[:, :kept], torch.where(any_left, picked, random[:, kept:])], dim=1)

    def falls_back(self, events: Tensor, src: Tensor) -> Tensor:
        """Return for which events ``historical-source`` has to sample at random."""
        if self.kind == "random":
            return torch.zeros_like(events, dtype=torch.bool)
        zero = torch.zeros((len(events), 1), dtype=torch.float64, device=self.device)
        return ~self._pick_met(src, self._true_at(events), zero)[1].squeeze(1)

    def _pick_met(self, src: Tensor, true: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Pick a destination that the source met in training, and say if there is one."""
        base = (src * self._nodes).unsqueeze(1)
        first = torch.searchsorted(self._pairs, base)
        size = torch.searchsorted(self._pairs, base + self._nodes) - first
        known = torch.where(true >= 0, base + true, -1)
        picked, any_left = self._pick(self._pairs, first, size, known, uniform)
        return picked - base, any_left

    def _segment_of_all(self, count: int) -> tuple[Tensor, Tensor]:
        zero = torch.zeros((count, 1), dtype=torch.int64, device=self.device)
        return zero, zero + len(self.destinations)

    def _pick(
        self, pool: Tensor, first: Tensor, size: Tensor, true: Tensor, uniform: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Pick one of ``pool[first : first + size]`` that is not in ``true``, and say if there is one."""
        if not len(pool):
            return torch.zeros_like(uniform, dtype=torch.int64), torch.zeros_like(size, dtype=torch.bool)
        place, taken = self._places_of(true, pool)
        met = taken.cumsum(dim=1)
        free = torch.where(taken, place - first - met + 1, pool.numel())  # not true, before this true one
        left = size - met[:, -1:]
        drawn = (uniform * left).long()
        over = (free.unsqueeze(2) <= drawn.unsqueeze(1)).sum(dim=1)  # true ones before it, [events, count]
        return pool[(first + drawn + over).clamp(0, len(pool) - 1)], left > 0

    @staticmethod
    def _places_of(values: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
        """Return the position of each value in the sorted pool, and whether it is in the pool."""
        place = torch.searchsorted(pool, values)
        inside = place < len(pool)
        return place, inside & (pool[torch.where(inside, place, 0)] == values)

    def candidates(self, events: Tensor) -> tuple[Tensor, Tensor]:
        """Return all destinations, and which of them are true at each event's time ``[events, all]``.

        Ranking takes every destination as a candidate except the *other* true ones.
        """
        place, taken = self._places_of(self._true_at(events), self.destinations)
        true = torch.zeros((len(events), len(self.destinations) + 1), dtype=torch.bool, device=self.device)
        true.scatter_(1, torch.where(taken, place, len(self.destinations)), True)
        return self.destinations, true[:, :-1]


class _Truth(NamedTuple):
    group_of_event: Array
    first: Array
    destinations: Array


def _true_destinations(stream: EventStream) -> _Truth:
    """Return the distinct destinations of each source at each of its times, by time and then by source.

    The stream is grouped a part at a time, since sorting all of it takes many times its memory.
    """
    events = len(stream)
    kind = np.dtype(np.int32 if max(events + 1, stream.num_nodes) < 2**31 else np.int64)
    truth = _Truth(np.empty(events, kind), np.empty(events + 1, kind), np.empty(events, kind))
    groups = distinct = 0
    for begin, end in _parts_by_time(stream.t):
        part = _grouped(stream.src[begin:end], stream.dst[begin:end], stream.t[begin:end])
        truth.group_of_event[begin:end] = part.group_of_event + groups
        truth.first[groups : groups + len(part.first)] = part.first + distinct
        truth.destinations[distinct : distinct + len(part.destinations)] = part.destinations
        groups, distinct = groups + len(part.first), distinct + len(part.destinations)
    truth.first[groups] = distinct
    return _Truth(truth.group_of_event, truth.first[: groups + 1], truth.destinations[:distinct])


def _parts_by_time(t: Array) -> Iterator[tuple[int, int]]:
    """Divide events into parts that share no time."""
    begin = 0
    while begin < len(t):
        last = min(begin + GROUPED_AT_ONCE, len(t)) - 1
        end = int(np.searchsorted(t, t[last], side="right"))
        yield begin, end
        begin = end


def _grouped(src: Array, dst: Array, t: Array) -> _Truth:
    """Group some events; ``first`` has no end."""
    time_rank = np.concatenate([[0], np.cumsum(t[1:] != t[:-1])])
    key = time_rank * (int(src.max()) + 1) + src
    order = np.argsort(key, kind="stable")  # fast where few events share a time: then it is sorted already
    key = key[order]
    new_group = np.ones(len(order), dtype=bool)
    new_group[1:] = key[1:] != key[:-1]
    several = ~(new_group & np.append(new_group[1:], True))  # rows of groups with several events
    rows = order[several]
    order[several] = rows[np.lexsort((dst[rows], key[several]))]
    dst, distinct = dst[order], new_group.copy()
    distinct[1:] |= dst[1:] != dst[:-1]
    group_of_event = np.empty(len(order), dtype=np.int64)
    group_of_event[order] = np.cumsum(new_group) - 1
    return _Truth(group_of_event, np.flatnonzero(new_group[distinct]), dst[distinct])


def _pairs(stream: EventStream, train: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the distinct ``source * nodes + destination`` of these events, in ascending order."""
    at = np.empty(0, dtype=np.int64) if train is None else train
    return np.unique(stream.src[at] * stream.num_nodes + stream.dst[at])
