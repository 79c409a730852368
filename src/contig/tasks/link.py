"""Temporal link prediction: does this source meet this destination now?"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.events import EventStream
from contig.data.negatives import Kind, Negatives
from contig.data.splits import Split
from contig.errors import RunError
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.packing import count_nodes
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.metrics import Scores, link_metrics
from contig.tasks.results import LinkMetrics, LinkProtocol, LinkResult, Selections, only_known_nodes
from contig.tasks.setting import Setting

EVALUATION_SEED = 1905  # apart from every training seed
METRICS = "ap and auc: mean over batches; *_overall: over all events"

M = TypeVar("M")


class LinkScores(NamedTuple):
    """Logits of the true events and of their negatives, in stream order, each ``[events]``."""

    positive: Scores
    negative: Scores


def score_batch(
    model: Model, state: NodeState, history: History, batch: EventBatch, negative: Tensor
) -> Tensor:
    """Logits ``[events, 1 + negatives]`` of a batch, the true destination first."""
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
        """Scores of ``events`` (ascending positions) against ``negative`` ``[events, 1]``.

        The state moves past the events; weights do not change.
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
    """One negative for each event ``[events, 1]``, of all the stream's destinations.

    They depend on the stream, the split, the events and the kind alone: every model, seed and batch
    size is measured on the same ones.
    """
    sampler = Negatives(stream, kind, train=split.train, events=events, seed=EVALUATION_SEED)
    drawn = sampler.draw(torch.from_numpy(events), torch.from_numpy(stream.src[events]))
    return drawn.to(device)


def selections(
    stream: EventStream, split: Split, events: NDArray[np.int64], *, inductive: bool = True
) -> dict[str, NDArray[np.bool_]]:
    """The protocol's selections of events, each as a mask ``[events]``.

    ``transductive`` is every event under the rule ``tgn`` (the published convention) and the events
    between nodes seen in training under the rule ``paper``; ``inductive`` are the events with at
    least one new node, told apart as ``new_old`` and ``new_new``. For a model that is not ``inductive``
    the rule makes no difference: ``transductive`` leaves new nodes out.
    """
    new_src, new_dst = split.new_nodes[stream.src[events]], split.new_nodes[stream.dst[events]]
    old_old = ~new_src & ~new_dst
    known = old_old if only_known_nodes(split.holdout, inductive) else np.ones(len(events), dtype=bool)
    return {
        "transductive": known,
        "inductive": new_src | new_dst,
        "old_old": old_old,
        "new_old": new_src ^ new_dst,
        "new_new": new_src & new_dst,
    }


def check_scores(stream: EventStream, events: NDArray[np.int64], scores: Scores) -> None:
    """Refuse scores ``[events, ...]`` that are not numbers: an order by them would mean nothing."""
    lost = np.flatnonzero(~np.isfinite(scores).all(axis=tuple(range(1, scores.ndim))))
    if len(lost):
        raise RunError(
            f"{stream.origin}: the scores of {len(lost):,} events are not numbers any more (the first: event "
            f"{events[lost[0]]}); the states have grown out of bounds. Train with state_norm=true where the "
            "model has it, or with a smaller lr."
        )


def by_selection(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    metrics: Callable[[NDArray[np.bool_]], M],
    count: Callable[[int], M],
    *,
    inductive: bool = True,
) -> Selections[M]:
    """``metrics`` of the mask of every selection of the events.

    A model that is not ``inductive`` has none for events with a new node: ``count`` gets their number.
    """
    counted = () if inductive else ("inductive", "new_old", "new_new")
    found = {
        name: count(int(rows.sum())) if name in counted else metrics(rows)
        for name, rows in selections(stream, split, events, inductive=inductive).items()
    }
    return Selections(**found)


def link_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    scores: LinkScores,
    batch_size: int,
    *,
    inductive: bool = True,
) -> Selections[LinkMetrics]:
    """Measure every selection of the events."""
    check_scores(stream, events, np.stack(scores, axis=1))

    def metrics(rows: NDArray[np.bool_]) -> LinkMetrics:
        return link_metrics(scores.positive[rows], scores.negative[rows], batch_size)

    def count(number: int) -> LinkMetrics:
        return LinkMetrics(events=number)

    return by_selection(stream, split, events, metrics, count, inductive=inductive)


def link_result(
    stream: EventStream,
    split: Split,
    scores: LinkScores,
    batch_size: int,
    negatives: Kind = "random",
    *,
    inductive: bool = True,
) -> LinkResult:
    """Measure the test events, and say how."""
    report = link_report(stream, split, split.test, scores, batch_size, inductive=inductive)
    protocol = LinkProtocol.of(
        "link", split.holdout, inductive=inductive, negatives=negatives, metrics=METRICS
    )
    return LinkResult(protocol=protocol, **report.each())


def scores_of_test(setting: Setting, negatives: Kind) -> LinkScores:
    """The scores of the test events, walking on from where validation ended."""
    events = setting.split.test
    drawn = evaluation_negatives(setting.stream, setting.split, events, negatives, setting.history.device)
    scorer = LinkScorer(setting.model, setting.state, setting.history, setting.batch_size)
    with setting.bar("test", len(events)) as progress:
        return scorer(events, drawn, progress)


def measure(setting: Setting, negatives: Kind = "random") -> LinkResult:
    """AP and AUC of the test events against ``negatives``."""
    return link_result(
        setting.stream,
        setting.split,
        scores_of_test(setting, negatives),
        setting.batch_size,
        negatives,
        inductive=setting.model.inductive,
    )
