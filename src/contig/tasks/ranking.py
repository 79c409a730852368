"""Ranks of true destinations among candidates."""

from __future__ import annotations

from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.candidate_files import NO_NODE
from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import Split
from contig.errors import ConfigError, unknown
from contig.history import History
from contig.kernels.rank_counts import rank_counts
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.context import EvaluationContext
from contig.tasks.recommend import AsOf
from contig.tasks.task import EVALUATION_SEED

DRAWN_AT_ONCE = 2**22  # random numbers; bounds the memory of sampling negatives


class Ranker:
    """Walks events in order: ranks each true destination among its candidates, then observes the batch."""

    def __init__(
        self,
        model: Model,
        state: NodeState,
        history: History,
        batch_size: int,
        negatives: Negatives,
        as_of: AsOf = "event",
    ) -> None:
        if as_of not in get_args(AsOf):
            raise ConfigError(unknown("value for as_of", as_of, get_args(AsOf)))
        self.model, self.state, self.history = model, state, history
        self.batch_size, self.negatives, self.as_of = batch_size, negatives, as_of
        self._walker = Walker(model, state, history, batch_size, self._rank_among_all)
        self._sampled = self._row = torch.empty(0)

    def __call__(
        self,
        events: NDArray[np.int64],
        sampled: NDArray[np.int64] | None = None,
        progress: Progress = no_progress,
    ) -> NDArray[np.float32]:
        """Return the rank ``[events]`` of each true destination, from 1; NaN where a score is not finite.

        It is ranked among all other destinations, or the ``sampled`` ones ``[events, count]``, which may be
        filled up with -1.
        """
        if sampled is None:
            return self._walker.read_all(events, progress)
        device = self.history.device
        self._sampled = torch.from_numpy(sampled).to(device)
        self._row = torch.zeros(self.history.num_events, dtype=torch.int64, device=device)
        self._row[torch.from_numpy(events).to(device)] = torch.arange(len(events), device=device)
        # A new walker each time: a captured step would keep reading the negatives of the previous call.
        walker = Walker(self.model, self.state, self.history, self.batch_size, self._rank_among_sampled)
        return walker.read_all(events, progress)

    def _rank_among_all(self, batch: EventBatch) -> Tensor:
        candidates, true = self.negatives.candidates(batch.event)
        return ranks(
            self._logits(batch, candidates),
            torch.searchsorted(candidates, batch.dst),
            ~true,
            self.model.resolution,
        )

    def _rank_among_sampled(self, batch: EventBatch) -> Tensor:
        sampled = self._sampled[self._row[batch.event]]
        own = batch.dst.unsqueeze(1)
        exists = sampled != NO_NODE
        logits = self._logits(batch, torch.cat([own, torch.where(exists, sampled, own)], dim=1))
        negative = torch.nn.functional.pad(exists, (1, 0))
        return ranks(logits, torch.zeros_like(batch.dst), negative, self.model.resolution)

    def _logits(self, batch: EventBatch, candidates: Tensor) -> Tensor:
        first = batch.as_of
        times = batch.t if self.as_of == "event" else first
        return self.model.rank(self.state, self.history, batch.src, candidates, times, first)


def rank_test_events(
    context: EvaluationContext, sampled: NDArray[np.int64] | None, as_of: AsOf
) -> NDArray[np.float32]:
    """Rank the destinations of the test events among all others, or the ``sampled`` ones of each event."""
    data = context.data
    stream, events = data.stream, data.split.test
    negatives = Negatives(stream, events=events, device=data.history.device)
    ranker = Ranker(context.model, context.state, data.history, context.batch_size, negatives, as_of)
    with context.progress_bar("ranking", len(events)) as progress:
        return ranker(events, sampled, progress)


def ranks(logits: Tensor, true: Tensor, negative: Tensor, resolution: float = 0.0) -> Tensor:
    """Rank column ``true`` of each row of ``[n, m]`` among the columns marked as ``negative``.

    Scores within ``resolution`` of the true one are ties, relative to it where it exceeds 1.
    """
    own = logits.gather(1, true.unsqueeze(1))
    slack = resolution * own.abs().clamp(min=1)
    counts = rank_counts(logits, (own - slack).squeeze(1), (own + slack).squeeze(1), negative)
    finite = own.squeeze(1).isfinite() & (counts.infinite == 0)
    return torch.where(finite, 1 + counts.above + counts.tied / 2, torch.nan)


def best_first(scores: Tensor, resolution: float = 0.0) -> Tensor:
    """Order scores ``[n]`` from the best on; equal ones keep their order.

    Scores within ``resolution`` of the best of them are equal, relative to it where it exceeds 1.
    """
    ordered = scores.sort(descending=True, stable=True)
    if not resolution:
        return ordered.indices
    values, group = ordered.values.tolist(), 0
    groups: list[int] = []
    for value in values:
        if values[group] - value > resolution * max(1.0, abs(values[group])):
            group = len(groups)
        groups.append(group)
    place = torch.tensor(groups, dtype=torch.int64, device=scores.device) * len(values) + ordered.indices
    return ordered.indices[place.argsort()]


def sample_negatives(
    stream: EventStream, split: Split, events: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Sample ``count`` distinct negative destinations for each event ``[events, count]``, filled up with -1.

    Up to half are destinations that the source met in training, the rest any destinations; none is true at
    the event's source and time. They depend on the stream, the split and the events alone, so that every
    model and batch size is measured on the same ones.
    """
    if count < 1:
        raise ConfigError(f"candidates={count}: sample at least one.")
    negatives = Negatives(stream, events=events)
    everyone = stream.destinations
    met = np.unique(stream.src[split.train] * stream.num_nodes + stream.dst[split.train])
    rng = np.random.default_rng(EVALUATION_SEED)
    parts = []
    for rows in np.array_split(events, -(-2 * len(events) * len(everyone) // DRAWN_AT_ONCE) or 1):
        true = negatives.candidates(torch.from_numpy(rows))[1].numpy()
        known = np.isin(stream.src[rows, None] * stream.num_nodes + everyone, met)
        chosen = _choose(rng.random((len(rows), 2, len(everyone))), true, known & ~true, count)
        parts.append(np.where(np.take_along_axis(true, chosen, axis=1), NO_NODE, everyone[chosen]))
    return np.concatenate(parts)


def _choose(
    draws: NDArray[np.float64], true: NDArray[np.bool_], known: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """Choose columns ``[rows, count]`` by two random numbers for each, the true ones last.

    The first numbers choose up to half among the known columns, the second ones the rest among all others:
    with one number for both, a known column that was not chosen first would hardly ever be chosen later.
    """
    early = _smallest(np.where(known, draws[:, 0], np.inf), count // 2)
    order = np.where(true, np.inf, draws[:, 1])
    ahead = np.where(np.take_along_axis(known, early, axis=1), -1.0, np.take_along_axis(order, early, axis=1))
    np.put_along_axis(order, early, ahead, axis=1)
    return _smallest(order, count)


def _smallest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the columns of each row's ``count`` smallest values, unordered; at most all of them."""
    if count >= values.shape[1]:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, count, axis=1)[:, :count]
