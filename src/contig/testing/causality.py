"""Nothing that happens at or after ``t`` may change an answer for ``t``.

A stream is walked as training and evaluation walk it: a batch is scored, then everything strictly before the
next batch is observed. Then the events from some ``t`` on are changed, the walk is repeated, and every answer
for a time up to ``t`` must be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History
from contig.models import Model, NodeState
from contig.streaming.schedule import schedule
from contig.testing.cases import ATOL, RTOL, ModelCase, batch_of, embeds, require
from contig.testing.streams import random_stream, with_events

# Changes the events of a stream from position ``first`` on.
Tampering = Callable[[EventStream, int, np.random.Generator], EventStream]


def delete_all(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """End the stream."""
    return with_events(stream, np.arange(first))


def delete_some(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Drop about half of the events."""
    later = np.arange(first, len(stream))
    return with_events(stream, np.r_[np.arange(first), later[rng.random(len(later)) < 0.5]])


def permute(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Keep the times, but let the pairs meet in another order."""
    order = np.r_[np.arange(first), first + rng.permutation(len(stream) - first)]
    return replace(with_events(stream, order), t=stream.t)


def alter(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Replace the nodes, the features and the times."""
    later = len(stream) - first
    src, dst, t = stream.src.copy(), stream.dst.copy(), stream.t.copy()
    src[first:], dst[first:] = rng.integers(0, stream.num_nodes, (2, later))
    t[first:] = t[first] + np.sort(rng.integers(0, 3, later))
    features = None
    if stream.edge_features is not None:
        features = stream.edge_features.copy()
        features[first:] = 1000 * rng.normal(size=features[first:].shape)
    return replace(stream, src=src, dst=dst, t=t, edge_features=features)


def insert(stream: EventStream, first: int, rng: np.random.Generator) -> EventStream:
    """Insert many events at the time of the first one, before it."""
    order = np.r_[np.arange(first), rng.integers(first, len(stream), 11), np.arange(first, len(stream))]
    longer = with_events(stream, order)
    times = longer.t.copy()
    times[first : first + 11] = stream.t[first]
    return replace(longer, t=times)


TAMPERINGS: dict[str, Tampering] = {
    tamper.__name__: tamper for tamper in (delete_all, delete_some, permute, alter, insert)
}


@dataclass(frozen=True)
class Queries:
    """Sources and their candidates, in the order of their times, to be scored in batches."""

    src: Tensor  # [queries]
    dst: Tensor  # [queries, candidates]
    t: Tensor  # [queries]
    batch_size: int

    @classmethod
    def of(cls, stream: EventStream, batch_size: int, seed: int) -> Queries:
        """Query every event of a stream, with two other candidates each."""
        rng = np.random.default_rng(seed)
        others = rng.integers(0, stream.num_nodes, (len(stream), 2))
        candidates = np.concatenate([stream.dst[:, None], others], axis=1)
        src, dst, t = (torch.tensor(column) for column in (stream.src, candidates, stream.t))
        return cls(src, dst, t, batch_size)


@torch.no_grad()
def walk(model: Model, stream: EventStream, queries: Queries, until: float = np.inf) -> dict[int, Tensor]:
    """Answer the queries about times up to ``until``, by query, while observing the stream."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    answers: dict[int, Tensor] = {}
    for start, stop, observe_from, observe_to in schedule(queries.t.numpy(), queries.batch_size):
        rows = torch.arange(start, stop)
        rows = rows[queries.t[rows] <= until]
        if not len(rows):
            break
        query = queries.src[rows], queries.dst[rows], queries.t[rows], queries.t[start]
        answers |= dict(zip(rows.tolist(), _answers(model, state, history, *query), strict=True))
        # a changed stream may be shorter; what is observed after the last batch of interest does not matter
        model.observe(state, history, batch_of(history, observe_from, min(observe_to, len(stream))))
    return answers


def _answers(
    model: Model, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
) -> Tensor:
    """Return what the model says about each query: the embeddings of its nodes, or the scores of its pairs.

    Scores are left out where they are a function of the embeddings alone, which takes half the time.
    """
    found = []
    if type(model).link is not Model.link:
        found.append(model.link(state, history, src, dst, times, as_of))
    if embeds(model):
        nodes = torch.cat([src.unsqueeze(1), dst], dim=1)
        when = times.repeat_interleave(nodes.shape[1])
        embedded = model.embed(state, history, nodes.flatten(), when, as_of)
        found.append(embedded.reshape(len(src), -1))
    return torch.cat(found, dim=1)


def leaks(model: Model, stream: EventStream, *, joint_queries: bool = False, seed: int = 0) -> list[str]:
    """List every way found in which the model's answers depend on the future.

    Later queries are left out of the second walk and must not be missed, unless queries influence each
    other by design (``joint_queries``).
    """
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for part, batch_size in ((stream[: len(stream) // 2], 1), (stream, 5)):
        queries = Queries.of(part, batch_size, seed)
        whole = walk(model, part, queries)
        for name, tamper in TAMPERINGS.items():
            t = rng.choice(np.unique(part.t)[1:])
            expected = walk(model, part, queries, until=t) if joint_queries else whole
            changed = tamper(part, int(np.searchsorted(part.t, t, side="left")), rng)
            answers = walk(model, changed, queries, until=t)
            found += [
                f"batch size {batch_size}, {name} from t={t}: query at t={queries.t[query]}"
                for query, answer in answers.items()
                if not torch.allclose(answer, expected[query], rtol=RTOL, atol=ATOL)
            ]
    return found


def check_future_changes_nothing(case: ModelCase) -> None:
    """Check that answers for a time depend only on events strictly before it."""
    for seed, edge_width in ((1, 3), (2, 0)):
        stream = random_stream(seed, edge_width=edge_width)
        found = leaks(case.prepared(stream), stream, joint_queries=case.joint_queries, seed=seed)
        require(
            not found,
            f"{len(found)} answers changed when events at or after the query's time changed, for instance: "
            + "; ".join(found[:3]),
        )
