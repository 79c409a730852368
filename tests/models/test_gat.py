"""GAT against a plain loop over nodes and heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.graphs import own_input, past_events
from support.problems import random_stream, shape_of, tiny
from torch import Tensor
from torch.nn.functional import elu, leaky_relu

from contig.data.events import EventStream
from contig.history import History


def by_hand(model: Any, stream: EventStream, v: int, t: int, layers: int = 2) -> Tensor:
    if layers == 0:
        return own_input(model, stream, v, t)
    conv, width = model.layers[layers - 1], stream.edge_width
    met = past_events(stream, v, t, model.neighbors)
    own = by_hand(model, stream, v, t, layers - 1)
    vectors = [*(by_hand(model, stream, u, t, layers - 1) for u, _ in met), own]
    features = [*(torch.tensor(stream.edge_features[i]) for _, i in met), torch.zeros(width)] if width else []
    heads = []
    for h in range(conv.heads):
        part = slice(h * conv.out_channels, (h + 1) * conv.out_channels)
        weight = conv.lin.weight[part]
        logits = [
            conv.att_dst[0, h] @ weight @ own
            + conv.att_src[0, h] @ weight @ x
            + (conv.att_edge[0, h] @ conv.lin_edge.weight[part] @ features[j] if width else 0)
            for j, x in enumerate(vectors)
        ]
        share = torch.softmax(leaky_relu(torch.stack(logits), 0.2), dim=0)
        heads.append(sum((a * (weight @ x) for a, x in zip(share, vectors, strict=True)), torch.zeros(1)))
    if layers == 1:
        return elu(torch.cat(heads) + conv.res.weight @ own + conv.bias)
    return torch.stack(heads).mean(dim=0) + conv.res.weight @ own + conv.bias


@pytest.mark.parametrize("edge_width", [0, 3])
@pytest.mark.parametrize("heads", [2, 4])  # four heads do not divide a width of six
def test_embeddings_against_a_loop(edge_width: int, heads: int) -> None:
    stream = random_stream(3, events=30, num_nodes=12, edge_width=edge_width)
    model: Any = tiny("gat", shape_of(stream), heads=heads)
    nodes = torch.arange(12).repeat(2)
    times = torch.tensor([int(stream.t[7]), int(stream.t[-1]) + 1]).repeat_interleave(12)
    history = History.from_stream(stream)
    found = model.embed(model.new_state(12), history, nodes, times, times[0])
    expected = [by_hand(model, stream, int(v), int(t)) for v, t in zip(nodes, times, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))
