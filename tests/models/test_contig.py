"""ConTIG against a plain twin, its ablations against forced weights, and the states it stores."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.problems import (
    Floats,
    batch_of,
    dense_latest,
    flow,
    query_times,
    random_stream,
    run_over,
    shape_of,
    snapshot,
    stream_of,
    tiny,
)
from torch import Tensor, nn
from torch.nn.functional import linear

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.history import History
from contig.layers.ode import FACTORS
from contig.models import DataShape, NodeState
from contig.models.contig import ConTIG
from contig.streaming.schedule import schedule

SCOPES = ["near", "pair", "batch", "all"]
NOW = 1_700_000_000


def contig(stream: EventStream, **settings: Any) -> ConTIG:
    model = tiny("contig", shape_of(stream), **settings)
    assert isinstance(model, ConTIG)
    return model


def waves(model: ConTIG, dt: float) -> Tensor:
    x = dt / float(model.elapsed.unit)
    frequency = model.phi.frequency if model.opt.frequencies == "direct" else model.phi.log_frequency.exp()
    angle = torch.tensor(math.log1p(x) if model.opt.time_encoding == "log" else x) * frequency
    found = torch.cat([angle.cos(), angle.sin()])[: model.opt.time_dim]
    return found / math.sqrt(model.opt.time_dim) if model.opt.scaled_time else found


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
        if self.model.opt.scope == "all":
            return self.moved(sorted(self.h), as_of)
        if self.model.opt.scope == "near":
            return self._along_walks(as_of)
        if self.model.opt.scope == "batch":
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


# -- ablations ----------------------------------------------------------------------------------------------


def embeddings(model: ConTIG, stream: EventStream) -> tuple[Tensor, Tensor]:
    """Embeddings of every node after the stream, and the state."""
    state, history = run_over(model, stream, 4)
    nodes = torch.arange(stream.num_nodes)
    times, as_of = query_times(history, stream.num_nodes)
    with torch.no_grad():
        return model.embed(state, history, nodes, times, as_of), state["h"]


def same(a: ConTIG, b: ConTIG, stream: EventStream) -> bool:
    pairs = zip(embeddings(a, stream), embeddings(b, stream), strict=True)
    return all(torch.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in pairs)


def force_gate(model: ConTIG, factor: int, bias: float) -> None:
    """Fix one gate at ``sigmoid(bias)`` for every node."""
    rows = slice(factor * model.opt.dim, (factor + 1) * model.opt.dim)
    assert model.ode.gates is not None
    with torch.no_grad():
        model.ode.gates.weight[rows] = 0
        model.ode.gates.bias[rows] = bias


def twins(stream: EventStream, without: str, scope: str, **settings: Any) -> tuple[ConTIG, ConTIG]:
    """The full model and the ablated one, with the same weights."""
    full, ablated = contig(stream, scope=scope, **settings), contig(stream, scope=scope, without=without)
    ablated.load_state_dict(full.state_dict(), strict=False)
    return full, ablated


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("factor", FACTORS)
def test_without_a_factor_its_gate_is_closed(factor: str, scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, factor, scope)
    assert not same(full, ablated, stream)
    force_gate(full, FACTORS.index(factor), -1e4)
    assert same(full, ablated, stream)


@pytest.mark.parametrize("scope", SCOPES)
def test_without_adaptive_every_gate_is_open(scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "adaptive", scope)
    assert not same(full, ablated, stream)
    for factor in range(3):
        force_gate(full, factor, 1e4)
    assert same(full, ablated, stream)


@pytest.mark.parametrize("scope", SCOPES)
def test_without_update_the_horizon_is_zero(scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "update", scope)
    assert not same(full, ablated, stream)
    short, _ = twins(stream, "update", scope, horizon=1e-9)
    short.load_state_dict(full.state_dict())
    assert same(short, ablated, stream)


@pytest.mark.parametrize("scope", SCOPES)
@torch.no_grad()
def test_without_transform_the_embedding_is_the_state(scope: str) -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "transform", scope)
    assert not same(full, ablated, stream)
    state, history = run_over(full, stream, 4)
    nodes, (times, as_of) = torch.tensor([4, 0, 4, 7]), query_times(history, 4)
    members = torch.unique(nodes)
    moved = full.updated(state, history, members, as_of)[torch.searchsorted(members, nodes)]
    torch.testing.assert_close(ablated.embed(state, history, nodes, times, as_of), moved)


def test_ablations_combine() -> None:
    stream = random_stream(6)
    full, ablated = twins(stream, "latest,neighbor", "pair")
    force_gate(full, 0, -1e4)
    assert not same(full, ablated, stream)
    force_gate(full, 1, -1e4)
    assert same(full, ablated, stream)


def test_an_unknown_ablation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'neighbour'\. Did you mean 'neighbor'"):
        contig(random_stream(0), without="neighbour")


# -- solvers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("solver", "atol"), [("dopri5", 1e-4), ("rk4", 1e-3)])
def test_all_solvers_agree(solver: str, atol: float, scope: str) -> None:
    stream = random_stream(7, events=20)
    series, other = contig(stream, scope=scope), contig(stream, scope=scope, solver=solver)
    for a, b in zip(embeddings(series, stream), embeddings(other, stream), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


def test_scopes_agree_if_every_node_has_one_partner() -> None:
    """Then the graphs of all scopes are the graphs of pairs."""
    stream = stream_of([(0, 1, 2), (2, 3, 3), (5, 5, 4)], 7)
    found = [embeddings(contig(stream, scope=scope, hops=9), stream) for scope in SCOPES]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [2, 3])
def test_near_links_become_the_graph_of_all_nodes(seed: int) -> None:
    """With enough hops and namers nothing is left out; with fewer hops ever more is."""
    stream = random_stream(seed, events=40, num_nodes=9, edge_width=3)
    exact = embeddings(contig(stream, scope="all"), stream)
    errors = []
    for hops in (9, 3, 2, 1):
        found = embeddings(contig(stream, hops=hops, namers=40), stream)
        errors.append(max(float((a - b).abs().max()) for a, b in zip(found, exact, strict=True)))
    assert errors[0] < 2e-5
    assert errors == sorted(errors)


# -- time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_only_time_differences_matter(scope: str) -> None:
    """The same stream at Unix seconds gives the same embeddings, bit for bit."""
    stream = random_stream(9)
    model = contig(stream, scope=scope)
    later = replace(stream, t=stream.t + NOW)
    for a, b in zip(embeddings(model, stream), embeddings(model, later), strict=True):
        assert torch.equal(a, b)


@torch.no_grad()
def test_fractions_of_a_second_matter_at_unix_times() -> None:
    def found(start: float, gap: float) -> Tensor:
        stream = stream_of([(0, 1, start), (1, 2, start + 0.5)], 4, float_times=True)
        model = contig(stream)
        state, history = run_over(model, stream, 1)
        time = torch.tensor([start + 0.5 + gap], dtype=torch.float64)
        return model.embed(state, history, torch.tensor([1]), time, time[0])

    assert torch.equal(found(0.0, 0.25), found(float(NOW), 0.25))
    assert not torch.allclose(found(float(NOW), 0.25), found(float(NOW), 0.375))


@torch.no_grad()
def test_one_second_matters_at_unix_times() -> None:
    stream = replace(random_stream(9), t=random_stream(9).t + NOW)
    model = contig(stream)
    state, history = run_over(model, stream, 4)
    (time, _), nodes = query_times(history, 1), torch.tensor([0])
    a, b = (model.embed(state, history, nodes, time + s, time[0] + s) for s in (0, 1))
    assert not torch.allclose(a, b, atol=1e-4)


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
