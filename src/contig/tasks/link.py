"""Temporal link prediction: does this source meet this destination now?"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.batches import schedule
from contig.errors import RunError
from contig.events import EventStream
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.engine import Captured, filled, room_for
from contig.models.state import NodeState
from contig.negatives import Kind, Negatives
from contig.splits import Rule, Split
from contig.tasks.metrics import Scores, link_metrics

EVALUATION_SEED = 1905  # apart from every training seed

Progress = Callable[[int], None]


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
        self.model, self.state, self.history, self.batch_size = model, state, history, batch_size
        self._negative = torch.zeros((history.num_events, 1), dtype=torch.int64, device=history.device)
        self._room = room_for(batch_size)
        self._step = Captured(
            self._score_and_observe, (batch_size, self._room), fixed_shapes=model.fixed_shapes
        )

    def __call__(
        self, events: NDArray[np.int64], negative: Tensor, progress: Progress = lambda _: None
    ) -> LinkScores:
        """Scores of ``events`` (ascending positions) against ``negative`` ``[events, 1]``.

        The state moves past the events; weights do not change.
        """
        at = torch.from_numpy(events).to(self.history.device)
        self._negative[at] = negative
        times = self.history.events["t"][at].cpu().numpy()
        self.model.eval()
        logits = []
        with torch.no_grad():
            for step in schedule(times, self.batch_size):
                seen = filled(at[step.seen : step.see], self._room)
                logits.append(self._step(at[step.start : step.stop], seen))
                progress(step.stop - step.start)
        if len(events):
            self.state.position = int(events[-1]) + 1
        both = torch.cat(logits).float().cpu().numpy() if logits else np.zeros((0, 2), np.float32)
        return LinkScores(both[:, 0], both[:, 1])

    def _score_and_observe(self, events: Tensor, seen: Tensor) -> Tensor:
        batch = EventBatch.of(self.history, events)
        scores = score_batch(self.model, self.state, self.history, batch, self._negative[events])
        self.model.observe(self.state, self.history, EventBatch.of(self.history, seen))
        return scores


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


def link_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    scores: LinkScores,
    batch_size: int,
    *,
    inductive: bool = True,
) -> dict[str, dict[str, float | int]]:
    """Metrics of all the protocol's selections of the events.

    ``transductive`` is every event under the rule ``tgn`` (the published convention) and the events
    between nodes seen in training under the rule ``paper``; ``inductive`` are the events with at
    least one new node, told apart as ``new_old`` and ``new_new``. Of a model that is not ``inductive``
    only events between nodes seen in training are measured, under either rule; the others are counted.
    """
    lost = np.flatnonzero(~np.isfinite(scores).all(axis=0))
    if len(lost):
        raise RunError(
            f"{stream.origin}: the scores of {len(lost):,} events are not numbers any more (the first: event "
            f"{events[lost[0]]}); the states have grown out of bounds. Train with state_norm=true where the "
            "model has it, or with a smaller lr."
        )
    new_src, new_dst = split.new_nodes[stream.src[events]], split.new_nodes[stream.dst[events]]
    old_old = ~new_src & ~new_dst
    selections = {
        "transductive": old_old if between_known(split.rule, inductive) else np.ones(len(events), dtype=bool),
        "inductive": new_src | new_dst,
        "old_old": old_old,
        "new_old": new_src ^ new_dst,
        "new_new": new_src & new_dst,
    }
    return {
        name: link_metrics(scores.positive[rows], scores.negative[rows], batch_size)
        if inductive or name in ("transductive", "old_old")
        else {"events": int(rows.sum())}
        for name, rows in selections.items()
    }


def between_known(rule: Rule, inductive: bool) -> bool:
    """Whether ``transductive`` leaves out the events of nodes that are not in training."""
    return rule == "paper" or not inductive
