"""ConTIG against a plain twin, the states it stores, and what it learns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from support.contig_models import SCOPES, contig
from support.problems import (
    Floats,
    batch_of,
    dense_latest,
    flow,
    query_times,
    random_stream,
    run_over,
    snapshot,
    stream_of,
    tiny,
)
from support.twins import waves as waves_of
from torch import Tensor, nn
from torch.nn.functional import linear

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.history import History
from contig.models import DataShape, NodeState
from contig.models.contig import ConTIG
from contig.streaming.schedule import schedule


def waves(model: ConTIG, dt: float) -> Tensor:
    return waves_of(model, dt / float(model.elapsed.unit))


class Plain:
    """ConTIG in plain Python: dictionaries, one node at a time, the ODE by matrix exponential."""

    def __init__(self, model: ConTIG, stream: EventStream) -> None:
        self.model, self.stream = model, stream
        self.events = list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
        self.h = {v: torch.zeros(model.opt.dim) for v in range(stream.num_nodes)}
        self.last: dict[int, int] = {}

    def features(self, event: int | None) -> Tensor:
        if self.stream.edge_features is None or event is None:
            return torch.zeros(self.stream.edge_width)
        return torch.tensor(self.stream.edge_features[event])

    def partner(self, v: int) -> int | None:
        if v not in self.last:
            return None
        src, dst, _ = self.events[self.last[v]]
        return dst if v == src else src

    def encoded(self, v: int, as_of: int) -> Tensor:
        partner, event = self.partner(v), self.last.get(v)
        other = torch.zeros(self.model.opt.dim) if partner is None else self.h[partner]
        age = 0 if event is None else as_of - self.events[event][2]
        parts = [self.h[v], other, self.features(event), waves(self.model, age)]
        if self.model.node_features is not None:
            parts.append(self.model.node_features[v])
        return linear(torch.cat(parts), self.model.encoder.weight, self.model.encoder.bias)

    def moved(self, members: list[int], as_of: int) -> dict[int, Tensor]:
        """``H(T)`` in the graph of these nodes and their latest events."""
        place = {v: i for i, v in enumerate(members)}
        start = torch.stack([self.encoded(v, as_of) for v in members])
        known = [p if (p := self.partner(v)) in place else None for v in members]
        graph = dense_latest([None if p is None else place[p] for p in known])
        ode = self.model.ode
        end = flow(ode.gate_values(start), graph, ode.beta, start, ode.horizon).float()
        return dict(zip(members, self.model.norm(end), strict=True))

    def updated(self, nodes: list[int], as_of: int) -> dict[int, Tensor]:
        partners = {v: p for v in nodes if (p := self.partner(v)) is not None}
        if self.model.scope == "all":
            return self.moved(sorted(self.h), as_of)
        if self.model.scope == "near":
            return self._along_walks(as_of)
        if self.model.scope == "batch":
            return self.moved(sorted({*nodes, *partners.values()}), as_of)
        return {v: self._in_its_pair(v, partners.get(v), as_of) for v in nodes}

    def _along_walks(self, as_of: int) -> dict[int, Tensor]:
        """One copy of all nodes per hop, each driven by the one before: walks cannot be longer."""
        n, copies = len(self.h), self.model.opt.hops + 1
        start = torch.stack([self.encoded(v, as_of) for v in range(n)]).repeat(copies, 1)
        graph = np.zeros((copies * n, copies * n))
        for i in range(1, copies):
            graph[i * n : (i + 1) * n, (i - 1) * n : i * n] = self._near_links(as_of)
        ode = self.model.ode
        end = flow(ode.gate_values(start), graph, ode.beta, start, ode.horizon).float()
        return dict(enumerate(self.model.norm(end[-n:])))

    def _near_links(self, as_of: int) -> Floats:
        """The paper's matrix without the namers that are not found, for which the others stand."""
        partner = [self.partner(v) for v in range(len(self.h))]
        graph = dense_latest(partner)
        for v, own in enumerate(partner):
            named_by = {u for u, p in enumerate(partner) if p == v} - {v, own}
            recent = self._all_past(v, as_of)[: self.model.opt.namers]
            found = {u for u, event, _ in recent if u in named_by and self.last[u] == event}
            for u in named_by:
                graph[v, u] *= len(named_by) / len(found) if u in found else 0
        return graph

    def _in_its_pair(self, v: int, partner: int | None, as_of: int) -> Tensor:
        """Only this node's own latest event counts, whatever its partner did since."""
        start = torch.stack([self.encoded(u, as_of) for u in ([v] if partner is None else [v, partner])])
        graph = dense_latest([None] if partner is None else [1, 0])
        ode = self.model.ode
        end = flow(ode.gate_values(start), graph, ode.beta, start, ode.horizon).float()
        return self.model.norm(end)[0]

    def past(self, v: int, t: int) -> list[tuple[int, int, int]]:
        """(other end, event, time) of the last k events before ``t``, the most recent first."""
        return self._all_past(v, t)[: self.model.opt.neighbors]

    def _all_past(self, v: int, t: int) -> list[tuple[int, int, int]]:
        found = [
            (dst if v == src else src, i, when)
            for i, (src, dst, when) in enumerate(self.events)
            if v in (src, dst) and when < t
        ]
        return found[::-1]

    def embed(self, nodes: list[int], times: list[int], as_of: int) -> Tensor:
        near = [self.past(v, t) for v, t in zip(nodes, times, strict=True)]
        # padding repeats the node itself, so a shared graph has no other members
        state = self.updated(sorted({*nodes, *(u for past in near for u, _, _ in past)}), as_of)
        rows = [self.attend(state, v, t, past) for v, t, past in zip(nodes, times, near, strict=True)]
        merged = self.model.readout.merge(torch.stack(rows))
        if not self.model.opt.activity:
            return merged
        so_far = [
            sum(when < t for *ends, when in self.events for end in ends if end == v)
            for v, t in zip(nodes, times, strict=True)
        ]
        return torch.cat([merged[:, :-1], torch.tensor(so_far).float().add(1).log().unsqueeze(1)], dim=1)

    def attend(self, state: dict[int, Tensor], v: int, t: int, past: list[tuple[int, int, int]]) -> Tensor:
        layer, own = self.model.readout.attention, state[v]
        query_time = t if self.model.opt.query_time == "absolute" else 0
        q = layer.query(torch.cat([own, waves(self.model, query_time)])).view(layer.heads, -1)
        if not past:
            return torch.cat([torch.zeros(layer.inner), own])
        z = torch.stack(
            [torch.cat([state[u], self.features(i), waves(self.model, t - when)]) for u, i, when in past]
        )
        key, value = (w(z).view(len(past), layer.heads, -1) for w in (layer.key, layer.value))
        weight = torch.softmax(torch.einsum("hd,khd->hk", q, key) / math.sqrt(q.shape[1]), dim=1)
        return torch.cat([torch.einsum("hk,khd->hd", weight, value).flatten(), own])

    def observe(self, start: int, stop: int) -> None:
        events = self.events[start:stop]
        if events:
            nodes = sorted({v for src, dst, _ in events for v in (src, dst)})
            self.h |= {v: x for v, x in self.updated(nodes, events[0][2]).items() if v in nodes}
            self.last |= {v: start + i for i, event in enumerate(events) for v in event[:2]}


@pytest.mark.parametrize(
    "settings",
    [
        *({"scope": scope} for scope in SCOPES),
        {"hops": 2, "namers": 2},
        {"hops": 3, "namers": 30, "state_norm": False},
        {"state_norm": False, "horizon": 0.6},
        {"query_time": "absolute"},
        {"scaled_time": True, "beta": 0.5},
        {"time_encoding": "raw", "frequencies": "direct"},
        {"time_dim": 5, "heads": 3, "neighbors": 2},
        {"activity": True, "neighbors": 2},
    ],
    ids=str,
)
@torch.no_grad()
def test_the_model_against_a_plain_twin(settings: dict[str, Any]) -> None:
    stream = random_stream(4, events=18, num_nodes=8, edge_width=3)
    model = contig(stream, **settings)
    plain = Plain(model, stream)
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    for step in schedule(stream.t, 4):
        batch = batch_of(history, step.start, step.stop)
        found = model.embed(state, history, batch.src, batch.t, batch.t[0])
        expected = plain.embed(batch.src.tolist(), batch.t.tolist(), int(batch.t[0]))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
        model.observe(state, history, batch_of(history, step.observe_from, step.observe_to))
        plain.observe(step.observe_from, step.observe_to)
    torch.testing.assert_close(state["h"], torch.stack([plain.h[v] for v in range(8)]), rtol=1e-4, atol=2e-5)
    assert state["last"].tolist() == [plain.last.get(v, -1) for v in range(8)]


def test_activity_needs_two_coordinates() -> None:
    with pytest.raises(ConfigError, match=r"dim=1: activity=true .* dim=2"):
        contig(random_stream(4), activity=True, dim=1)


@torch.no_grad()
def test_the_graph_of_a_batch_ends_at_the_partners() -> None:
    """In a chain of events, partners of partners stay outside."""
    stream = stream_of([(i, i + 1, 10 * i) for i in range(6)], 7)
    model = contig(stream, scope="batch", neighbors=1)
    plain, (state, history) = Plain(model, stream), run_over(model, stream, 1)
    for i in range(6):
        plain.observe(i, i + 1)
    time = torch.tensor([99])
    for v in range(7):
        found = model.embed(state, history, torch.tensor([v]), time, time[0])
        torch.testing.assert_close(found, plain.embed([v], [99], 99), rtol=1e-4, atol=2e-5)


@torch.no_grad()
def test_node_features_enter_the_encoder() -> None:
    stream = random_stream(5, events=12, num_nodes=7, edge_width=0)
    features = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    model = tiny("contig", DataShape(0, features))
    assert isinstance(model, ConTIG)
    plain, (state, history) = Plain(model, stream), run_over(model, stream, 3)
    for step in schedule(stream.t, 3):
        plain.observe(step.observe_from, step.observe_to)
    nodes, (times, as_of) = torch.arange(7), query_times(history, 7)
    expected = plain.embed(nodes.tolist(), times.tolist(), int(as_of))
    found = model.embed(state, history, nodes, times, as_of)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)


@torch.no_grad()
def test_new_nodes_have_zero_features() -> None:
    stream = random_stream(5, events=12, num_nodes=7, edge_width=0)
    known = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    few, all_of_them = (
        tiny("contig", DataShape(0, f)) for f in (known, torch.cat([known, torch.zeros(3, 2)]))
    )
    found = []
    for model in (few, all_of_them):
        state, history = run_over(model, stream, 3)
        state.grow(10)
        nodes, (times, as_of) = torch.arange(10), query_times(history, 10)
        found.append(model.embed(state, history, nodes, times, as_of))
    assert torch.equal(*found)


# -- observing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@torch.no_grad()
def test_observing_updates_only_the_nodes_of_the_batch(scope: str) -> None:
    """Nodes 1 and 3 occur twice, node 5 has a self-loop; 0, 4, 6 and 7 do not occur."""
    known = [(0, 1, 1), (4, 3, 2), (5, 6, 2), (2, 7, 4)]
    stream = stream_of([*known, (1, 3, 9), (2, 1, 9), (5, 5, 10), (3, 2, 12)], 8)
    model = contig(stream, scope=scope)
    history, state = History.from_stream(stream), model.new_state(8)
    model.observe(state, history, batch_of(history, 0, 4))
    before = snapshot(state)
    nodes = torch.tensor([1, 2, 3, 5])
    expected = model.updated(state, history, nodes, torch.tensor(9))  # the batch's first time

    model.observe(state, history, batch_of(history, 4, 8))
    others = torch.tensor([0, 4, 6, 7])
    torch.testing.assert_close(state["h"][nodes], expected, rtol=0, atol=0)
    assert torch.equal(state["h"][others], before["h"][others])
    assert bool((state["h"][nodes] != before["h"][nodes]).any(dim=1).all())
    assert state["last"].tolist() == [0, 5, 7, 7, 1, 6, 2, 3]


def test_the_norm_keeps_states_bounded() -> None:
    """With large weights, as training may produce; a LayerNorm of width 6 cannot exceed sqrt(5)."""
    stream = random_stream(3, events=120, num_nodes=7, edge_width=0)
    largest = {}
    for norm in (True, False):
        model = contig(stream, state_norm=norm)
        with torch.no_grad():
            model.encoder.weight.mul_(4)
        largest[norm] = float(run_over(model, stream, 5)[0]["h"].abs().max())
    assert largest[True] <= 5**0.5
    assert largest[False] > 1000


# -- learning -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_gradients_reach_every_weight_and_no_state(scope: str) -> None:
    stream = random_stream(4)
    model = contig(stream, scope=scope).train()
    state, history = run_over(model, stream, 4)
    nodes, (times, as_of) = torch.arange(9), query_times(history, 9)
    logits = model.link(state, history, nodes, nodes.flip(0).unsqueeze(1), times, as_of)
    nn.functional.softplus(logits).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert bool(torch.isfinite(weight.grad).all()), name
        assert bool((weight.grad != 0).any()), name
    assert not state["h"].requires_grad


def test_gradients_by_finite_differences() -> None:
    """For the score of a link, through decoder, attention, ODE and encoder: a step along the gradient."""
    stream = random_stream(4)
    model = contig(stream)
    state, history = run_over(model, stream, 4)
    nodes, (times, as_of) = torch.tensor([1, 2, 3]), query_times(history, 3)

    def score() -> Tensor:
        return model.link(state, history, nodes, nodes.flip(0).unsqueeze(1), times, as_of).sum()

    for name, weight in model.named_parameters():
        if name == "phi.log_frequency":
            continue  # the effect of the slow frequencies is below the resolution of float32
        model.zero_grad()
        score().backward()
        assert weight.grad is not None
        size = float(weight.grad.norm())
        if size < 1e-4:
            continue
        step = 2e-3 * weight.grad / size
        with torch.no_grad():
            weight += step
            up = float(score())
            weight -= 2 * step
            down = float(score())
            weight += step
        assert (up - down) / 4e-3 == pytest.approx(size, rel=0.05), name


def test_stored_states_need_no_gradient() -> None:
    stream = random_stream(4)
    model = contig(stream).train()
    state: NodeState = model.new_state(stream.num_nodes)
    history = History.from_stream(stream)
    model.observe(state, history, batch_of(history, 0, 9))
    assert state["h"].grad_fn is None
    assert np.isfinite(state["h"].numpy()).all()
