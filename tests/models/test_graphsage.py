"""GraphSAGE against a plain loop over nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.graphs import own_input, past_events
from support.problems import random_stream, shape_of, tiny
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History


def by_hand(model: Any, stream: EventStream, v: int, t: int, layers: int = 2) -> Tensor:
    if layers == 0:
        return own_input(model, stream, v, t)
    conv = model.layers[layers - 1]
    met = [by_hand(model, stream, u, t, layers - 1) for u, _ in past_events(stream, v, t, model.neighbors)]
    own = by_hand(model, stream, v, t, layers - 1)
    mean = torch.stack(met).mean(dim=0) if met else torch.zeros_like(own)
    found: Tensor = conv.lin_l.weight @ mean + conv.lin_l.bias + conv.lin_r.weight @ own
    if model.opt.normalize:
        found = found / found.norm()
    return torch.relu(found) if layers == 1 else found


@pytest.mark.parametrize("normalize", [False, True])
def test_embeddings_against_a_loop(normalize: bool) -> None:
    stream = random_stream(2, events=30, num_nodes=12)
    model: Any = tiny("graphsage", shape_of(stream), normalize=normalize)
    nodes = torch.arange(12).repeat(2)
    times = torch.tensor([int(stream.t[7]), int(stream.t[-1]) + 1]).repeat_interleave(12)
    history = History.from_stream(stream)
    found = model.embed(model.new_state(12), history, nodes, times, times[0])
    expected = [by_hand(model, stream, int(v), int(t)) for v, t in zip(nodes, times, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))
