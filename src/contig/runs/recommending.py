"""Lists of the best candidates for many nodes at one time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.events import EventStream
from contig.data.ids import Side
from contig.errors import DataError
from contig.history import History
from contig.models import Model, NodeState
from contig.runs.answers import Recommendation, RecommendationList
from contig.tasks.ranking import best_first

CANDIDATES_AT_ONCE = 2**12  # bounds the memory of embedding them
SCORES_AT_ONCE = 2**22  # bounds the memory of a block of scores

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Recommender:
    """Ranks candidates on the other side for nodes on one side, from a state and the events before a time."""

    model: Model
    state: NodeState
    history: History
    past: EventStream  # the events strictly before the time
    time: Tensor
    side: Side  # of the nodes that get recommendations

    def answers(
        self, names: list[int | str], candidates: Ints, k: int, exclude_seen: bool
    ) -> list[RecommendationList]:
        """Return a list per node; one without events before the time gets the most popular candidates."""
        rows = np.array([self._row_or_new(name) for name in names], dtype=np.int64)
        known = (rows >= 0) & self._has_events[rows]
        found = self.lists(rows[known], candidates, k, exclude_seen)
        popular = self.popular(candidates, k + 1)  # one of them may be the node itself
        return [
            RecommendationList(
                next(found) if warm else self.counted(popular[popular != row][:k]),
                node=name if row < 0 else self.past.ids.labels[row].item(),  # 7, not '7'
                at=self.time.item(),
                last_event=self.past.t[-1].item() if len(self.past) else None,
                cold_start=not warm,
                learns=self.model.learns,
                dates=self.past.dates,
            )
            for name, row, warm in zip(names, rows, known, strict=True)
        ]

    def _row_or_new(self, node: int | str) -> int:
        """Return the number of a node, -1 for one that no event has named; reject the other side's nodes."""
        if not self.past.ids.has(node):
            return -1
        other = "dst" if self.side == "src" else "src"
        try:
            return self.past.ids.find(node, self.side)
        except DataError as error:
            raise DataError(f"{error} To get a list for it, use side='{other}' (--side {other}).") from None

    @cached_property
    def _has_events(self) -> NDArray[np.bool_]:
        """Marks the nodes with an event before the time, on either side."""
        seen = np.zeros(self.past.num_nodes, dtype=bool)
        seen[self.past.src] = seen[self.past.dst] = True
        return seen

    def lists(
        self, nodes: Ints, candidates: Ints, k: int, exclude_seen: bool
    ) -> Iterator[list[Recommendation]]:
        """Yield the best ``k`` candidates of each node; never the node itself."""
        for part in np.array_split(nodes, -(-len(nodes) * len(candidates) // SCORES_AT_ONCE) or 1):
            if not len(candidates):
                yield from ([] for _ in part)
                continue
            allowed = part[:, None] != candidates
            if exclude_seen:
                allowed &= ~self._seen(part, candidates)
            for scores, possible in zip(self._scores(part, candidates), allowed, strict=True):
                chosen = np.flatnonzero(possible)
                top = best(scores[torch.from_numpy(chosen).to(scores.device)], k, self.model.resolution)
                yield self._named(candidates[chosen[top[0]]], top[1])

    def popular(self, candidates: Ints, k: int) -> Ints:
        """Return the ``k`` candidates with the most events: the answer for a node without events."""
        return candidates[np.argsort(-self._counts[candidates], kind="stable")[:k]]

    def counted(self, nodes: Ints) -> list[Recommendation]:
        """Return nodes as recommendations, scored by their number of events."""
        names, counts = self.past.ids.labels[nodes].tolist(), self._counts[nodes].tolist()
        return [Recommendation(name, float(n), None) for name, n in zip(names, counts, strict=True)]

    @cached_property
    def _counts(self) -> Ints:
        """The number of events of each node on the candidates' side."""
        column = self.past.dst if self.side == "src" else self.past.src
        return np.bincount(column, minlength=self.past.num_nodes)

    @torch.no_grad()
    def _scores(self, nodes: Ints, candidates: Ints) -> Tensor:
        """Return the scores ``[nodes, candidates]``."""
        ours, theirs = (torch.from_numpy(rows).to(self.history.device) for rows in (nodes, candidates))
        parts = []
        for part in theirs.split(CANDIDATES_AT_ONCE):
            src, dst = (ours, part) if self.side == "src" else (part, ours)
            scores = self.model.rank(self.state, self.history, src, dst, self.time, self.time)
            parts.append(scores if self.side == "src" else scores.T)
        return torch.cat(parts, dim=1)

    def _seen(self, nodes: Ints, candidates: Ints) -> NDArray[np.bool_]:
        """Mark the candidates ``[nodes, candidates]`` that a node has met on its side of an event."""
        return np.isin(nodes[:, None] * self.past.num_nodes + candidates, self._met)

    @cached_property
    def _met(self) -> Ints:
        """The distinct pairs of events, as ``own * nodes + other`` in ascending order."""
        own, other = self.past.src, self.past.dst
        if self.side == "dst":
            own, other = other, own
        return np.unique(own * self.past.num_nodes + other)

    def _named(self, nodes: Ints, scores: Tensor) -> list[Recommendation]:
        names = self.past.ids.labels[nodes].tolist()
        values = scores.double()
        likely = values.sigmoid().tolist() if self.model.learns else [None] * len(values)
        return [Recommendation(*one) for one in zip(names, values.tolist(), likely, strict=True)]


def known_candidates(past: EventStream, side: Side) -> Ints:
    """Return all nodes that can be recommended to one side, given the events before a time."""
    return past.destinations if side == "src" else np.unique(past.src)


def best(scores: Tensor, k: int, resolution: float) -> tuple[Ints, Tensor]:
    """Return the positions and values of the ``k`` best scores ``[n]``; ties keep their order."""
    if k < len(scores):
        # Twice the resolution: whatever can tie with one of the best is looked at.
        last = float(scores.topk(k).values[-1])
        near = torch.nonzero(scores >= last - 2 * resolution * max(1.0, abs(last))).squeeze(1)
    else:
        near = torch.arange(len(scores), device=scores.device)
    chosen = near[best_first(scores[near], resolution)[:k]]
    return chosen.cpu().numpy(), scores[chosen]
