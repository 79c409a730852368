"""DyRep against a plain twin, and the partner's neighborhood in its message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.problems import Event, batch_of, random_stream, run_over, stream_of
from support.twins import NOW, Twin, later_times, model_of, walked
from torch import Tensor

from contig.history import History


class Plain(Twin):
    """DyRep in dictionaries, with the recurrent cell written out."""

    @property
    def unit(self) -> float:
        return 1.0 if self.model.counts_events else float(self.model.elapsed.unit)

    def interval(self, v: int) -> int:
        if not self.model.counts_events:
            return super().interval(v)
        return self.last[v] - self.previous[v] if v in self.previous else 0

    def structural(self, u: int, event: int) -> Tensor:
        """The partner's part of a message: attention over its events strictly before."""
        now = self.events[event][2]
        past = self.past(u, now, self.model.opt.neighbors)
        if self.model.counts_events:
            now, past = event, [(w, i, i) for w, i, _ in past]
        return self.read(self.model.structure, self.h[u], [self.h[w] for w, _, _ in past], past, now)

    def updated(self, v: int) -> Tensor:
        if v not in self.last:
            return self.h[v]
        said = self.message(v, self.structural(self.partner(v), self.last[v]))
        cell = self.model.cell
        return torch.tanh(cell.weight_ih @ said + cell.bias_ih + cell.weight_hh @ self.h[v] + cell.bias_hh)


@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [
        (3, {}),
        (3, {"intervals": "time"}),
        (0, {"neighbors": 1}),
        (3, {"time_dim": 3, "heads": 3, "node_features": True}),
    ],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int) -> None:
    stream = random_stream(7, events=46, num_nodes=10, edge_width=edge_width, start=start)
    model = model_of("dyrep", stream, **settings)
    twin = Plain(model, stream)
    state, history = walked(model, twin, batch_size=5, stop=34)
    times = later_times(stream, 34)
    found = model.embed(state, history, torch.arange(10), times, times.min())
    torch.testing.assert_close(state["h"], torch.stack(list(twin.h.values())), rtol=0, atol=1e-5)
    expected = torch.stack([twin.updated(v) for v in range(10)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def updated_vector(model: Any, events: list[Event], last: int) -> Tensor:
    """The vector of node 0 after the event at position ``last``; the history has all events."""
    history = History.from_stream(stream_of(events, 6))
    state = model.new_state(6)
    state["h"][:] = torch.arange(6.0).unsqueeze(1) / 10  # so that neighbors differ
    model.observe(state, history, batch_of(history, last, last + 1))
    moved: Tensor = model.updated(state, history, torch.tensor([0]), torch.tensor(100))[0]
    return moved


def test_the_message_covers_the_partner_s_events_before_this_one() -> None:
    """Event 0--1 at 9: events of 1 before it enter the message, those at 9 and later do not."""
    model = model_of("dyrep", random_stream(0, edge_width=0))
    before = updated_vector(model, [(1, 2, 5), (0, 1, 9), (1, 3, 9), (1, 3, 12)], 1)
    after = updated_vector(model, [(1, 2, 5), (0, 1, 9), (1, 4, 9), (5, 1, 10)], 1)
    assert torch.equal(before, after)
    for other in ([(1, 4, 5), (0, 1, 9)], [(1, 2, 5), (3, 4, 6), (0, 1, 9)], [(0, 1, 9)]):
        assert not torch.allclose(updated_vector(model, other, len(other) - 1), before, atol=1e-5)


def test_a_slower_stream_gives_the_same_message() -> None:
    """Intervals count events, so their duration makes no difference."""
    stream = random_stream(5, events=40)
    slow = replace(stream, t=stream.t + 1_000 * stream.t**2)
    model = model_of("dyrep", stream)
    found = [run_over(model, s, 4)[0]["h"] for s in (stream, slow)]
    assert bool(found[0].any())
    assert torch.equal(*found)


def test_the_node_s_own_past_is_not_part_of_the_message() -> None:
    model = model_of("dyrep", random_stream(0, edge_width=0))
    one = updated_vector(model, [(0, 3, 4), (1, 2, 5), (0, 1, 9)], 2)
    two = updated_vector(model, [(0, 4, 2), (1, 2, 5), (0, 1, 9)], 2)
    assert torch.equal(one, two)


@torch.no_grad()
def test_the_embedding_is_the_vector_at_any_time() -> None:
    stream = random_stream(3, events=30)
    model = model_of("dyrep", stream)
    state, history = walked(model, Plain(model, stream), batch_size=4, stop=30)
    nodes = torch.arange(stream.num_nodes)
    soon, late = (int(stream.t[-1]) + torch.full_like(nodes, d) for d in (1, 10_000))
    found = model.embed(state, history, nodes, soon, soon[0])
    assert torch.equal(found, model.updated(state, history, nodes, soon[0]))
    assert torch.equal(found, model.embed(state, history, nodes, late, late[0]))
