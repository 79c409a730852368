"""TGAT against a plain recursion with torch's attention, one node at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.problems import random_stream, shape_of, stream_of, tiny
from support.twins import NOW, Twin, model_of
from torch import Tensor

from contig.errors import ConfigError
from contig.history import History


class Plain(Twin):
    """TGAT as a recursion."""

    def embed(self, v: int, t: int, layers: int) -> Tensor:
        if layers == 0:
            if self.model.project is None:
                return torch.zeros(self.model.dim)
            known = self.model.node_features is not None
            own = self.node_features(v) if known else self.model.codes(torch.tensor(v))
            return self.model.project.weight @ own
        past = self.past(v, t, self.model.opt.neighbors)
        theirs = [self.embed(u, when, layers - 1) for u, _, when in past]
        readout = self.model.rounds[layers - 1]
        return self.read(readout, self.embed(v, t, layers - 1), theirs, past, t)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [
        (3, {}),
        (0, {"neighbors": 2}),
        (0, {"identity": 5}),
        (3, {"time_encoding": "raw", "frequencies": "direct"}),
        (0, {"time_encoding": "linear", "time_dim": 3, "heads": 3}),
        (
            3,
            {"time_dim": 3, "heads": 3, "node_features": True, "identity": 5},
        ),  # nodes have features, so no random ones
    ],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int, layers: int) -> None:
    """At times among the events, ties included, and for a node that appears late."""
    stream = random_stream(9, events=30, num_nodes=8, edge_width=edge_width, start=start)
    model = model_of("tgat", stream, layers=layers, **settings)
    twin, history = Plain(model, stream), History.from_stream(stream)
    nodes = torch.arange(8).repeat(3)
    times = torch.tensor(stream.t[[4, 17, 29]]).repeat_interleave(8) + torch.arange(24) % 2
    found = model.embed(model.new_state(8), history, nodes, times, times[0])
    queries = zip(nodes.tolist(), times.tolist(), strict=True)
    expected = torch.stack([twin.embed(v, t, layers) for v, t in queries])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert expected.std(dim=0).min() > 1e-3


@pytest.mark.parametrize(("layers", "seen"), [(1, False), (2, True)])
@torch.no_grad()
def test_the_second_layer_reaches_neighbors_of_neighbors(layers: int, seen: bool) -> None:
    """Event 1--2 or 1--3, then 0--1: nodes 2 and 3 have features that the first layer does not reach."""
    streams = [stream_of([(1, other, 2), (1, 0, 5)], 4) for other in (2, 3)]
    found = []
    for stream in streams:
        model, time = model_of("tgat", stream, node_features=True, layers=layers), torch.tensor([8])
        history = History.from_stream(stream)
        found.append(model.embed(model.new_state(4), history, torch.tensor([0]), time, time[0]))
    assert torch.allclose(*found, atol=1e-5) is not seen


@torch.no_grad()
def test_a_neighbor_is_embedded_at_the_time_of_the_event() -> None:
    """Events of node 1 at the time of 0--1 or later do not reach 0, although they precede the query."""
    known = stream_of([(1, 2, 2), (0, 1, 5)], 5)
    more = stream_of([(1, 2, 2), (0, 1, 5), (1, 3, 5), (1, 4, 6)], 5)
    found = []
    model, time = model_of("tgat", known, node_features=True, layers=2), torch.tensor([8])
    for stream in (known, more):
        history = History.from_stream(stream)
        found.append(model.embed(model.new_state(5), history, torch.tensor([0]), time, time[0]))
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


def test_at_least_one_layer_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"^layers=0 must be at least 1"):
        tiny("tgat", shape_of(random_stream(0)), layers=0)
