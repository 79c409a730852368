"""The causality checker finds models that know the future, each of its own kind, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contig.history import History
from contig.models import DataShape, EventBatch, Model, NodeState
from contig.streaming.schedule import schedule
from contig.testing import ModelCase
from contig.testing.cases import batch_of
from contig.testing.causality import TAMPERINGS, Queries, check_future_changes_nothing, leaks, walk
from contig.testing.streams import random_stream, stream_of


@dataclass(frozen=True)
class NoOptions:
    """Nothing to choose."""


class Honest(Model):
    """Embeds a node as the ages of its last events and their number; its subclasses cheat."""

    name = "honest"
    options = NoOptions
    learns = False

    def __init__(self, options: NoOptions, data: DataShape) -> None:
        super().__init__()

    def blank(self) -> Mapping[str, Tensor]:
        return {"count": torch.zeros(1)}

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, self.when(times), 3)
        age = torch.where(near.mask, times.unsqueeze(1) - near.time + 1, 0).float()
        return torch.cat([age, state["count"][nodes]], dim=1)

    def when(self, times: Tensor) -> Tensor:
        return times

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        ends = torch.cat([batch.src, batch.dst])
        state["count"].index_add_(0, ends, torch.ones(len(ends), 1))


class ReadsTheQueryTime(Honest):
    """Takes events of the query's own time for past ones."""

    def when(self, times: Tensor) -> Tensor:
        return times + 1


class ReadsAhead(Honest):
    """Reads events that happen soon."""

    def when(self, times: Tensor) -> Tensor:
        return times + 3


class KnowsTheStream(Honest):
    """Normalizes by a statistic of all events, later ones included."""

    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        return super().embed(state, history, *rest) / history.events["t"].double().mean()


class ObservesTooMuch(Honest):
    """Observes the event after the batch as well."""

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        if len(batch.event):
            stop = min(int(batch.event[-1]) + 2, history.num_events)
            super().observe(state, history, batch_of(history, int(batch.event[0]), stop))


class MixesQueries(Honest):
    """Lets embeddings depend on the other queries of the call, of which later ones know more."""

    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        found = super().embed(state, history, *rest)
        return found - found.mean(dim=0)


def test_an_honest_model_passes() -> None:
    check_future_changes_nothing(ModelCase(Honest))


@pytest.mark.parametrize(
    "cheat", [ReadsTheQueryTime, ReadsAhead, KnowsTheStream, ObservesTooMuch, MixesQueries]
)
def test_a_leaking_model_is_caught(cheat: type[Honest]) -> None:
    stream = random_stream(3)
    assert leaks(ModelCase(cheat).prepared(stream), stream) != []
    with pytest.raises(AssertionError, match="answers changed when events at or after the query's time"):
        check_future_changes_nothing(ModelCase(cheat))


def test_queries_that_influence_each_other_can_be_allowed() -> None:
    stream = random_stream(3)
    model = ModelCase(MixesQueries).prepared(stream)
    assert leaks(model, stream, joint_queries=True) == []
    assert leaks(ModelCase(ReadsAhead).prepared(stream), stream, joint_queries=True) != []


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_walk_answers_every_query_up_to_a_time(batch_size: int) -> None:
    stream = random_stream(3)
    model, queries = ModelCase(Honest).prepared(stream), Queries.of(stream, batch_size, seed=0)
    for t in (0, int(stream.t[17]), np.inf):
        assert sorted(walk(model, stream, queries, until=t)) == np.flatnonzero(stream.t <= t).tolist()


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_tampering_changes_the_future_only(tamper: Any) -> None:
    stream = random_stream(3)
    first = int(np.searchsorted(stream.t, stream.t[17]))
    changed = tamper(stream, first, np.random.default_rng(0))
    for column in ("src", "dst", "t", "edge_features"):
        ours, theirs = getattr(stream, column), getattr(changed, column)
        np.testing.assert_array_equal(theirs[:first], ours[:first])
    assert np.all(changed.t[first:] >= stream.t[first])
    assert np.all(np.diff(changed.t) >= 0)
    assert changed.fingerprint() != stream.fingerprint()


def test_a_walk_that_observes_ties_too_early_would_be_seen() -> None:
    """Without the deferral of ties, an honest model knows an event of its query's own time."""
    stream = stream_of([(0, 1, 5), (0, 1, 5), (0, 1, 5)], 2)
    history, model = History.from_stream(stream), ModelCase(Honest).prepared(stream)
    eager, deferred = model.new_state(2), model.new_state(2)
    known = []
    for start, stop, observe_from, observe_to in schedule(stream.t, 1):
        known.append((float(eager["count"][0]), float(deferred["count"][0])))
        model.observe(eager, history, batch_of(history, start, stop))
        model.observe(deferred, history, batch_of(history, observe_from, observe_to))
    assert known == [(0, 0), (1, 0), (2, 0)]
