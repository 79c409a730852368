"""Memories: stored vectors, latest events and intervals by hand, and the flow of gradients."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from support.problems import (
    batch_of,
    query_times,
    random_stream,
    run_over,
    shape_of,
    snapshot,
    stream_of,
    tiny,
)
from support.twins import NOW, model_of
from torch import Tensor

from contig.history import History
from contig.kernels.dispatch import disabled
from contig.layers.unique import distinct, pack
from contig.models import MODELS, DataShape, NodeState, model_class
from contig.models.bases import memory
from contig.models.bases.memory import MemoryModel, PacedMemory, RecurrentMemory

MEMORIES = ["contig", "contig-pair", "tgn", "jodie", "dyrep"]
RECURRENT = ["tgn", "jodie", "dyrep"]
PACED = ["jodie", "dyrep"]

#   batch 0            batch 1                       batch 2
#   0--1 at 3          0--2 at 5, 2--0 at 9, 3--3 at 9    1--0 at 20
EVENTS = [(0, 1, 3), (0, 2, 5), (2, 0, 9), (3, 3, 9), (1, 0, 20)]
BATCHES = [(0, 1), (1, 4), (4, 5)]


def walk(model: Any, history: History, batches: int) -> NodeState:
    state: NodeState = model.new_state(5)
    for start, stop in BATCHES[:batches]:
        model.observe(state, history, batch_of(history, start, stop))
    return state


@pytest.mark.parametrize(
    ("batches", "exists", "partner", "event", "time"),
    [
        (0, [0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
        (1, [1, 1, 0, 0, 0], [1, 0, 2, 3, 4], [0, 0, 0, 0, 0], [3, 3, 0, 0, 0]),
        (2, [1, 1, 1, 1, 0], [2, 0, 0, 3, 4], [2, 0, 2, 3, 0], [9, 3, 9, 9, 0]),
        (3, [1, 1, 1, 1, 0], [1, 0, 0, 3, 4], [4, 4, 2, 3, 0], [20, 20, 9, 9, 0]),
    ],
)
@pytest.mark.parametrize("name", MEMORIES)
def test_the_latest_event_of_every_node(
    name: str, batches: int, exists: list[int], partner: list[int], event: list[int], time: list[int]
) -> None:
    stream = stream_of([(a, b, NOW + t) for a, b, t in EVENTS], 5)
    model, history = model_of(name, stream), History.from_stream(stream)
    latest = model.latest(walk(model, history, batches), history, torch.arange(5))
    assert latest.exists.tolist() == list(map(bool, exists))
    assert latest.partner.tolist() == partner
    assert latest.event.tolist() == event
    assert latest.time.tolist() == [NOW + t if known else 0 for t, known in zip(time, exists, strict=True)]


@pytest.mark.parametrize(
    ("batches", "intervals"),
    [
        (0, [0, 0, 0, 0, 0]),
        (1, [0, 0, 0, 0, 0]),
        (
            2,
            [6, 0, 0, 0, 0],
        ),  # 9 - 3: the last of two events in one batch counts; node 2 has no earlier batch
        (3, [11, 17, 0, 0, 0]),
    ],
)
def test_the_interval_since_the_last_event_in_the_vector(batches: int, intervals: list[int]) -> None:
    stream = stream_of([(a, b, NOW + t) for a, b, t in EVENTS], 5)
    model, history = model_of("tgn", stream), History.from_stream(stream)
    state, nodes = walk(model, history, batches), torch.arange(5)
    found = model.interval(state, history, nodes, model.latest(state, history, nodes))
    assert found.dtype == torch.float32
    assert float(model.elapsed.unit) == 4  # the second of 4, 4, 11 and 17
    assert found.tolist() == [interval / 4 for interval in intervals]


@pytest.mark.parametrize(("batches", "passed"), [(0, [0] * 5), (2, [2, 0, 0, 0, 0]), (3, [2, 4, 0, 0, 0])])
@pytest.mark.parametrize("name", PACED)
def test_the_events_since_the_last_one_in_the_vector(name: str, batches: int, passed: list[int]) -> None:
    stream = stream_of([(a, b, NOW + t) for a, b, t in EVENTS], 5)
    model, history = model_of(name, stream), History.from_stream(stream)
    state, nodes = walk(model, history, batches), torch.arange(5)
    found = model.interval(state, history, nodes, model.latest(state, history, nodes))
    assert found.dtype == torch.float32
    assert found.tolist() == passed


class Still(RecurrentMemory):
    """Records its calls, and adds 1 to every vector that is updated."""

    name = "still"

    def __init__(self, data: DataShape) -> None:
        super().__init__(6, 4, data)
        self.calls: list[tuple[list[int], int, list[int]]] = []

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        self.calls.append((nodes.tolist(), int(as_of), state["last"][nodes].tolist()))
        return state["h"][nodes] + 1

    def embed(self, state: NodeState, *rest: Any) -> Tensor:
        raise NotImplementedError


def test_vectors_are_updated_before_the_latest_events() -> None:
    """One call per batch, for its nodes at its first time, while ``last`` is still the old one."""
    stream = stream_of(EVENTS, 5)
    model, history = Still(DataShape(0, None)), History.from_stream(stream)
    state = walk(model, history, 3)
    assert model.calls == [
        ([0, 1], 3, [-1, -1]),
        ([0, 2, 3], 5, [0, -1, -1]),
        ([0, 1], 20, [2, 0]),
    ]
    assert state["h"][:, 0].tolist() == [3, 2, 1, 1, 0]
    assert state["last"].tolist() == [4, 4, 2, 3, -1]
    assert state["before_last"].tolist() == [2, 0, -1, -1, -1]


def test_the_message_by_hand() -> None:
    """``[other | f | Phi(interval) | x]`` of node 0 after 0--1 at 1 and 2--0 at 4, each alone (unit 3)."""
    features = np.random.default_rng(0).normal(size=(2, 3))
    stream = stream_of([(0, 1, NOW + 1), (2, 0, NOW + 4)], 3, features=features)
    model = model_of("tgn", stream, node_features=True)
    state, history = run_over(model, stream, 1)
    nodes = torch.tensor([1, 0])
    other = torch.tensor([[1.0], [2.0]]).expand(2, 6)
    found = torch.cat(model.message(state, history, nodes, model.latest(state, history, nodes), other), dim=1)
    for row, v, event, dt in ((0, 1, 0, 0.0), (1, 0, 1, 3.0)):
        said = torch.tensor(features[event]).float()
        parts = [other[row], said, model.phi(torch.tensor(dt / 3)), model.node_features[v]]
        torch.testing.assert_close(found[row], torch.cat(parts), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", MEMORIES)
def test_gradients_reach_the_weights_of_the_update(name: str) -> None:
    """The stored vectors carry none, but the latest event is applied again whenever a node is read."""
    stream = random_stream(1)
    model = model_of(name, stream)
    state, history = run_over(model, stream, 5)
    assert not state["h"].requires_grad
    nodes = torch.arange(stream.num_nodes)
    times, as_of = query_times(history, len(nodes))
    model.embed(state, history, nodes, times, as_of).square().sum().backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    scoring = ("decoder.", "evidence.", "verdict.")
    assert [n for n in silent if not n.startswith(scoring)] == []


def as_on_a_gpu(ids: Tensor, num_nodes: int, **_: bool) -> tuple[Tensor, Tensor]:
    """``distinct`` if shapes must not depend on data: the ids as they are."""
    return ids, torch.arange(len(ids))


def everyone(ids: Tensor, num_nodes: int, **_: bool) -> tuple[Tensor, Tensor]:
    """``distinct`` if there are fewer nodes than ids: all nodes."""
    return torch.arange(num_nodes), ids


def padded(ids: Tensor, num_nodes: int, **_: bool) -> tuple[Tensor, Tensor]:
    """``distinct`` with room for more nodes than there are."""
    return pack(ids, num_nodes, num_nodes + 3)


@pytest.mark.parametrize("name", MEMORIES)
def test_repeated_nodes_are_updated_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = random_stream(4)
    model = model_of(name, stream)
    nodes = torch.tensor([3, 1, 3, 8])
    results = []
    for way in (distinct, as_on_a_gpu, everyone, padded):
        for module in {memory.__name__, model_class(name).__module__}:
            monkeypatch.setattr(f"{module}.distinct", way, raising=False)
            monkeypatch.setattr(
                f"{module}.packed",
                lambda ids, num_nodes, room, way=way, **named: way(ids, num_nodes, **named),
                raising=False,
            )
        state, history = run_over(model, stream, 7)
        times, as_of = query_times(history, len(nodes))
        results.append((snapshot(state), model.embed(state, history, nodes, times, as_of)))
    (one, first), *others = results
    for two, second in others:
        for key, expected in one.items():
            torch.testing.assert_close(two[key], expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(second, first, rtol=0, atol=1e-6)


def test_every_memory_model_is_tested_here() -> None:
    assert [n for n in MODELS if issubclass(model_class(n), MemoryModel)] == MEMORIES
    assert [n for n in MODELS if issubclass(model_class(n), RecurrentMemory)] == RECURRENT
    assert [n for n in MODELS if issubclass(model_class(n), PacedMemory)] == PACED


@pytest.mark.parametrize(
    ("name", "settings"), [("contig", {"hops": 1}), ("contig", {"hops": 2}), ("tgn", {})]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_leaves_of_a_star_are_embedded_the_same_without_gradients(
    name: str, settings: dict[str, Any], compiled: bool
) -> None:
    """Without gradients, empty slots, queries without a choice and rows that nobody reads are left out."""
    leaves = [node for node in range(31) if node != 17]  # 17 is the hub, which seven of them meet twice
    events = [(17, leaves[i % 30], i) for i in range(37)]
    stream = stream_of(events, 34)
    scope = {"scope": "near", "namers": 2} if name == "contig" else {}
    with nullcontext() if compiled else disabled():
        model, history = tiny(name, shape_of(stream), **scope, **settings).eval(), History.from_stream(stream)
        state = model.new_state(34)  # with three nodes that no event names
        for start in range(0, 37, 5):
            model.observe(state, history, batch_of(history, start, min(start + 5, 37)))
        as_of = torch.tensor(50)
        for nodes in (torch.arange(0, 12), torch.arange(7, 34), torch.tensor([31, 33]), torch.tensor([17])):
            times = as_of.repeat(len(nodes))
            expected = model.embed(state, history, nodes, times, as_of).detach()
            with torch.no_grad():
                found = model.embed(state, history, nodes, times, as_of)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in MEMORIES),
        ("contig", {"scope": "pair"}),
        ("contig", {"scope": "near", "hops": 2}),
        ("contig", {"scope": "batch", "without": "update"}),
    ],
)
def test_rows_apart_do_not_depend_on_the_other_nodes_of_a_call(name: str, settings: dict[str, Any]) -> None:
    """Ranks rely on it: each computes some of the nodes."""
    stream = random_stream(5, events=47, num_nodes=13, edge_width=2)
    model = tiny(name, shape_of(stream), **settings)
    assert isinstance(model, MemoryModel)
    assert model.independent_rows
    state, history = run_over(model, stream, 6)
    _, as_of = query_times(history, 1)
    with torch.no_grad():
        together = model.updated(state, history, torch.arange(13), as_of)
        for nodes in (torch.tensor([11]), torch.tensor([2, 3, 7, 12])):
            apart = model.updated(state, history, nodes, as_of)
            torch.testing.assert_close(apart, together[nodes], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{"scope": "batch"}, {"scope": "all"}, {"solver": "dopri5"}])
def test_rows_that_are_computed_together_are_not_divided(settings: dict[str, Any]) -> None:
    model = tiny("contig", DataShape(0, None, 5), **settings)
    assert isinstance(model, MemoryModel)
    assert not model.independent_rows
