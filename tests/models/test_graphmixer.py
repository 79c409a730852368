"""GraphMixer against a plain loop over the events of one node at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.problems import random_stream
from support.twins import NOW, Twin, model_of
from torch import Tensor

from contig.history import History

K = 3


class Plain(Twin):
    """GraphMixer for one node."""

    def cosines(self, dt: float) -> Tensor:
        width = self.model.opt.time_dim
        root = math.sqrt(width)
        return torch.tensor([math.cos(dt / self.unit * root ** (-i / root)) for i in range(width)])

    def embed(self, v: int, t: int) -> Tensor:
        past = self.past(v, t, K)
        tokens = [torch.cat([self.cosines(t - when), self.features(i)]) for _, i, when in past]
        width = self.model.project.weight.shape[1]
        tokens += [torch.zeros(width)] * (K - len(tokens))
        mixed = self.model.mixer(torch.stack([self.model.project(x) for x in tokens])[None])[0]
        embedded: Tensor = self.model.out(torch.cat([sum(mixed) / K, self.around(v, t)]))
        return embedded

    def around(self, v: int, t: int) -> Tensor:
        opt = self.model.opt
        found = [
            u for u, _, when in self.past(v, t, opt.gap_events) if opt.gap is None or t - when <= opt.gap
        ]
        vectors = [self.node_features(u) for u in found]
        return self.node_features(v) + (sum(vectors) / len(vectors) if vectors else 0)


@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [
        (3, {}),
        (0, {"layers": 1, "time_dim": 9}),
        (2, {"node_features": True, "gap": 7.0}),
        (0, {"node_features": True, "gap_events": 2}),
    ],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int) -> None:
    """At times among the events, ties included, and for nodes with few events or none."""
    stream = random_stream(9, events=30, num_nodes=8, edge_width=edge_width, start=start)
    model = model_of("graphmixer", stream, neighbors=K, **settings)
    twin, history = Plain(model, stream), History.from_stream(stream)
    nodes = torch.arange(8).repeat(3)
    times = torch.tensor(stream.t[[0, 9, 29]]).repeat_interleave(8) + torch.arange(24) % 2
    found = model.embed(model.new_state(8), history, nodes, times, times[0])
    expected = torch.stack([twin.embed(v, t) for v, t in zip(nodes.tolist(), times.tolist(), strict=True)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert expected.std(dim=0).min() > 1e-3


def test_the_time_encoding_has_no_weights() -> None:
    model = model_of("graphmixer", random_stream(1))
    assert not [name for name, _ in model.named_parameters() if "phi" in name]
