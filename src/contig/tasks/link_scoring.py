"""Scores of true events and of their negatives, for link prediction."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.events import EventStream
from contig.data.negatives import Kind, Negatives
from contig.data.splits import Split
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.packing import count_nodes
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.context import EvaluationContext
from contig.tasks.metrics import LinkScores
from contig.tasks.task import EVALUATION_SEED


def score_batch(
    model: Model, state: NodeState, history: History, batch: EventBatch, negative: Tensor
) -> Tensor:
    """Return logits ``[events, 1 + negatives]`` of a batch, the true destination first."""
    candidates = torch.cat([batch.dst.unsqueeze(1), negative], dim=1)
    return model.link(state, history, batch.src, candidates, batch.t, batch.t[0])


class LinkScorer:
    """Walks events in order: scores each batch against its negatives, then observes it."""

    def __init__(self, model: Model, state: NodeState, history: History, batch_size: int) -> None:
        self.model, self.state, self.history = model, state, history
        self._negative = torch.zeros((history.num_events, 1), dtype=torch.int64, device=history.device)
        self.walker = Walker(model, state, history, batch_size, self._score)

    def __call__(
        self, events: NDArray[np.int64], negative: Tensor, progress: Progress = no_progress
    ) -> LinkScores:
        """Score ``events`` (ascending positions) against ``negative`` ``[events, 1]``.

        The state advances past the events; weights do not change.
        """
        at = torch.from_numpy(events).to(self.history.device)
        self._negative[at] = negative
        size = self.walker.schedule.batch_size
        counts = count_nodes(self.model, self.history, at, negative, size)
        both = self.walker.read_all(events, progress, counts, shape=(2,))
        return LinkScores(both[:, 0], both[:, 1])

    def _score(self, batch: EventBatch) -> Tensor:
        return score_batch(self.model, self.state, self.history, batch, self._negative[batch.event])


def evaluation_negatives(
    stream: EventStream, split: Split, events: NDArray[np.int64], kind: Kind, device: str | torch.device
) -> Tensor:
    """Sample one negative for each event ``[events, 1]`` from all destinations of the stream.

    They depend on the stream, the split, the events and the kind alone, so that every model, seed and batch
    size is measured on the same ones.
    """
    sampler = Negatives(stream, kind, train=split.train, events=events, seed=EVALUATION_SEED)
    drawn = sampler.draw(torch.from_numpy(events), torch.from_numpy(stream.src[events]))
    return drawn.to(device)


def score_test_events(context: EvaluationContext, negatives: Kind = "random") -> LinkScores:
    """Score the test events and one negative each, continuing from the state after validation.

    Returns the logits as ``positive`` and ``negative``, each ``[events]``.
    """
    data = context.data
    events = data.split.test
    drawn = evaluation_negatives(data.stream, data.split, events, negatives, data.history.device)
    scorer = LinkScorer(context.model, context.state, data.history, context.batch_size)
    with context.progress_bar("test", len(events)) as progress:
        return scorer(events, drawn, progress)
