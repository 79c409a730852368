"""JODIE against a plain twin, its projection against the formula, and its two cells."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.problems import random_stream, run_over, stream_of
from support.twins import NOW, Twin, later_times, model_of, walked
from torch import Tensor


class Plain(Twin):
    """JODIE in dictionaries, with the recurrent cells written out."""

    @property
    def unit(self) -> float:
        return 1.0 if self.model.counts_events else float(self.model.elapsed.unit)

    def interval(self, v: int) -> int:
        if not self.model.counts_events:
            return super().interval(v)
        return self.last[v] - self.previous[v] if v in self.previous else 0

    def updated(self, v: int) -> Tensor:
        if v not in self.last:
            return self.h[v]
        was_source = self.events[self.last[v]][0] == v
        cell = self.model.source_cell if was_source else self.model.destination_cell
        said = self.message(v, self.h[self.partner(v)])
        return torch.tanh(cell.weight_ih @ said + cell.bias_ih + cell.weight_hh @ self.h[v] + cell.bias_hh)

    def embed(self, v: int, t: int) -> Tensor:
        age = t - self.events[self.last[v]][2] if v in self.last else 0
        layer = self.model.projection
        age = age / float(self.model.elapsed.unit)
        return self.updated(v) * (1 + layer.weight[:, 0] * math.log1p(age) + layer.bias)


@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [(3, {}), (3, {"intervals": "time"}), (0, {"time_dim": 5}), (3, {"node_features": True})],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int) -> None:
    stream = random_stream(7, events=46, num_nodes=10, edge_width=edge_width, start=start)
    model = model_of("jodie", stream, **settings)
    torch.nn.init.normal_(model.projection.bias, generator=torch.Generator().manual_seed(1))
    twin = Plain(model, stream)
    state, history = walked(model, twin, batch_size=5, stop=34)
    times = later_times(stream, 34)
    found = model.embed(state, history, torch.arange(10), times, times.min())
    torch.testing.assert_close(state["h"], torch.stack(list(twin.h.values())), rtol=0, atol=1e-5)
    expected = torch.stack([twin.embed(v, int(times[v])) for v in range(10)])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_an_embedding_moves_with_the_logarithm_of_time() -> None:
    """``(1 + w log(1 + dt)) * h`` for one node at many times; the only interval, 5 s, is the unit."""
    stream = stream_of([(0, 1, NOW), (2, 1, NOW + 5)], 3)
    model = model_of("jodie", stream)
    state, history = run_over(model, stream, 1)
    ages = [1, 2, 60, 3_600, 86_400, 31_536_000]
    times = NOW + 5 + torch.tensor(ages)
    found = model.embed(state, history, torch.ones(len(ages), dtype=torch.int64), times, times[0])
    h = model.updated(state, history, torch.tensor([1]), times[0])[0]
    w = model.projection.weight[:, 0]
    for row, age in zip(found, ages, strict=True):
        torch.testing.assert_close(row, (1 + w * math.log1p(age / 5)) * h, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_a_node_without_events_does_not_move() -> None:
    stream = stream_of([(0, 1, 3)], 3)
    model = model_of("jodie", stream)
    state, history = run_over(model, stream, 1)
    state["h"][2] = torch.arange(6.0)
    times = torch.tensor([4, 4_000_000])
    found = model.embed(state, history, torch.tensor([2, 2]), times, times[0])
    assert torch.equal(found, torch.arange(6.0).repeat(2, 1))


@pytest.mark.parametrize(("silent", "still"), [("source_cell", 0), ("destination_cell", 1)])
@torch.no_grad()
def test_a_node_uses_the_cell_of_its_side(silent: str, still: int) -> None:
    """With one cell silenced, only nodes of the other side change; node 2 changes sides."""
    stream = stream_of([(0, 2, 1), (2, 1, 2)], 3)
    model = model_of("jodie", stream)
    for p in getattr(model, silent).parameters():
        torch.nn.init.zeros_(p)
    state, history = run_over(model, stream[:1], 1)
    moved = model.updated(state, history, torch.arange(3), torch.tensor(2)).abs().sum(dim=1) > 0
    assert moved.tolist() == [still == 1, False, still == 0]  # 0 was a source, 2 a destination
    state, history = run_over(model, stream, 1)
    moved = model.updated(state, history, torch.arange(3), torch.tensor(3)).abs().sum(dim=1) > 0
    assert moved.tolist() == [still == 1, still == 0, still == 1]  # now 2 was a source, 1 a destination
