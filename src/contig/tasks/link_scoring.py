"""Scores of true events and of their negatives, for link prediction.

One walk over all events scores the negatives of both protocols (see ``contig.tasks.link_negatives``), so node
states know every event before an inductive one, as in use. TGN's code and DyGLib walk the inductive events a
second time with the memory restored, which then misses the other events of that period; models without
memory get the same scores either way.

Each protocol is scored by a call of its own, because the scores of a model may depend on which nodes are
computed together: negatives of one protocol must not change the figures of the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.negative_edges import NegativeEdges
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.packing import count_nodes
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.context import EvaluationContext
from contig.tasks.link import NegativeKind
from contig.tasks.link_negatives import LinkNegatives, draw_negatives
from contig.tasks.metrics import LinkScores, Scores


class NegativePairs(NamedTuple):
    """Negative pairs of events, ``[events, negatives]``; without ``src`` they have the events' sources."""

    dst: Tensor
    src: Tensor | None = None

    @classmethod
    def blank(cls, history: History, *, replace_source: bool) -> NegativePairs:
        """Return room for one negative of every event, in memory that a captured step may keep reading."""
        shape = (history.num_events, 1)
        dst = torch.zeros(shape, dtype=torch.int64, device=history.device)
        return cls(dst, torch.zeros_like(dst) if replace_source else None)

    def set(self, rows: Tensor, pairs: NegativePairs) -> None:
        """Set those of some events; sources are ignored where the events' own are used."""
        self.dst[rows] = pairs.dst
        if self.src is not None:
            assert pairs.src is not None
            self.src[rows] = pairs.src

    def of(self, rows: Tensor) -> NegativePairs:
        """Return those of some events."""
        return NegativePairs(self.dst[rows], None if self.src is None else self.src[rows])

    @property
    def nodes(self) -> Tensor:
        """Return every node mentioned for each event."""
        return self.dst if self.src is None else torch.cat([self.dst, self.src], dim=1)


def score_batch(
    model: Model,
    state: NodeState,
    history: History,
    batch: EventBatch,
    negative: NegativePairs,
) -> Tensor:
    """Return logits ``[events, 1 + negatives]`` of a batch, the true pair first."""
    as_of = batch.as_of
    dst = torch.cat([batch.dst.unsqueeze(1), negative.dst], dim=1)
    if negative.src is None:
        return model.link(state, history, batch.src, dst, batch.t, as_of)
    src = torch.cat([batch.src.unsqueeze(1), negative.src], dim=1)
    times = batch.t.repeat_interleave(dst.shape[1])
    logits = model.link(state, history, src.flatten(), dst.reshape(-1, 1), times, as_of)
    return logits.view(dst.shape)


class LinkScorer:
    """Walks events in order: scores each batch against its negatives, then observes it.

    Each event has one negative; ``replace_source`` says whether it has a source of its own.
    """

    def __init__(
        self,
        model: Model,
        state: NodeState,
        history: History,
        batch_size: int,
        *,
        replace_source: bool = False,
    ) -> None:
        self.model, self.state, self.history = model, state, history
        self._negative = NegativePairs.blank(history, replace_source=replace_source)
        self.walker = Walker(model, state, history, batch_size, self._score)

    def __call__(
        self, events: NDArray[np.int64], negative: NegativePairs, progress: Progress = no_progress
    ) -> LinkScores:
        """Score ``events`` (ascending positions) and their negatives ``[events, 1]``.

        The state advances past the events; weights do not change.
        """
        at = torch.from_numpy(events).to(self.history.device)
        self._negative.set(at, negative)
        size = self.walker.schedule.batch_size
        counts = count_nodes(self.model, self.state, self.history, at, negative.nodes, size)
        both = self.walker.read_scores(events, progress, counts, shape=(2,))
        return LinkScores(both[:, 0], both[:, 1])

    def _score(self, batch: EventBatch) -> Tensor:
        return score_batch(self.model, self.state, self.history, batch, self._negative.of(batch.event))


class TwoProtocolScorer:
    """Scores each batch by both protocols in one walk; on a CPU only inductive events a second time."""

    def __init__(self, context: EvaluationContext, negatives: LinkNegatives) -> None:
        self.model, self.state, self.history = context.model, context.state, context.data.history
        device, replace_source = self.history.device, negatives.replace_source
        self.events = negatives.events
        at = torch.from_numpy(negatives.events).to(device)
        new = torch.from_numpy(negatives.inductive).to(device)
        ours, dyglib = pairs_of(negatives.ours, device), pairs_of(negatives.dyglib, device)
        if not replace_source:
            ours, dyglib = NegativePairs(ours.dst), NegativePairs(dyglib.dst)
        self._ours = NegativePairs.blank(self.history, replace_source=replace_source)
        self._dyglib = NegativePairs.blank(self.history, replace_source=replace_source)
        self._ours.set(at, ours)
        self._dyglib.set(at, ours)  # of events that are not inductive; it fills the shape on a GPU
        self._dyglib.set(at[new], dyglib)
        self._inductive = torch.zeros(self.history.num_events, dtype=torch.bool, device=device)
        self._inductive[at] = new
        self._counts = count_nodes(
            self.model,
            self.state,
            self.history,
            at,
            torch.cat([ours.nodes, self._dyglib.of(at).nodes], dim=1),
            context.batch_size,
        )
        self._walker = Walker(self.model, self.state, self.history, context.batch_size, self._score)

    def __call__(self, progress: Progress = no_progress) -> Scores:
        """Return logits ``[events, 4]``: a true pair and its negative by ``ours``, then by ``dyglib``."""
        return self._walker.read_scores(self.events, progress, self._counts, shape=(4,))

    def _score(self, batch: EventBatch) -> Tensor:
        ours = score_batch(self.model, self.state, self.history, batch, self._ours.of(batch.event))
        if ours.is_cuda:  # shapes must not depend on the events of a batch
            return torch.cat([ours, self._score_dyglib(batch)], dim=1)
        rows = self._inductive[batch.event]
        dyglib = torch.full_like(ours, torch.nan)
        if rows.any():
            dyglib[rows] = self._score_dyglib(batch.part(rows))
        return torch.cat([ours, dyglib], dim=1)

    def _score_dyglib(self, batch: EventBatch) -> Tensor:
        negative = self._dyglib.of(batch.event)
        return score_batch(self.model, self.state, self.history, batch, negative)


class ScoredLinks(NamedTuple):
    """The scores of events and of their negatives, by both protocols."""

    ours: LinkScores  # [events]
    dyglib: LinkScores  # [inductive events]


def pairs_of(edges: NegativeEdges, device: torch.device) -> NegativePairs:
    """Return negatives as tensors ``[events, 1]``."""
    src, dst = (torch.from_numpy(side).unsqueeze(1).to(device) for side in (edges.src, edges.dst))
    return NegativePairs(dst, src)


def score_links(
    context: EvaluationContext, negatives: LinkNegatives, progress: Progress = no_progress
) -> ScoredLinks:
    """Score events and their negatives by both protocols, continuing from the context's state."""
    if not (context.model.inductive and negatives.inductive.any()):
        nothing = np.empty(0, np.float32)
        return ScoredLinks(_score_ours(context, negatives, progress), LinkScores(nothing, nothing))
    logits = TwoProtocolScorer(context, negatives)(progress)
    new = logits[negatives.inductive]
    return ScoredLinks(LinkScores(logits[:, 0], logits[:, 1]), LinkScores(new[:, 2], new[:, 3]))


def score_ours(context: EvaluationContext, negatives: LinkNegatives) -> LinkScores:
    """Score events and their negatives by the protocol ``ours``, continuing from the context's state."""
    with context.progress_bar("test", len(negatives.events)) as progress:
        return _score_ours(context, negatives, progress)


def _score_ours(context: EvaluationContext, negatives: LinkNegatives, progress: Progress) -> LinkScores:
    history, replace_source = context.data.history, negatives.replace_source
    scorer = LinkScorer(
        context.model, context.state, history, context.batch_size, replace_source=replace_source
    )
    return scorer(negatives.events, pairs_of(negatives.ours, history.device), progress)


def score_test_events(context: EvaluationContext, negatives: NegativeKind = "random") -> LinkScores:
    """Score the test events and one negative each, continuing from the state after validation.

    Returns the logits as ``positive`` and ``negative``, each ``[events]``.
    """
    data = context.data
    return score_ours(context, draw_negatives(data.stream, data.split, data.split.test, negatives))
