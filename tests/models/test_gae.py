"""GAE against dense matrices."""

from __future__ import annotations

from typing import Any

import torch
from support.graphs import dense_convolution, dense_graph
from support.problems import random_stream, shape_of, tiny

from contig.history import History


def test_embeddings_are_two_convolutions_of_the_whole_graph() -> None:
    """Nodes 9 and 10 have no events: isolated nodes are part of the dense graph too."""
    stream = random_stream(3, events=14, num_nodes=11)
    model: Any = tiny("gae", shape_of(stream), refresh=1)
    history = History.from_stream(stream)
    nodes, as_of = torch.arange(11), torch.tensor(stream.t[9])
    found = model.embed(model.new_state(11), history, nodes, as_of.repeat(11), as_of)
    x, adjacency = dense_graph(model, stream, int((stream.t < stream.t[9]).sum()))
    assert 0 < int((adjacency.sum(1) == 0).sum()) < 11
    inner = torch.relu(dense_convolution(model.first, x, adjacency))
    torch.testing.assert_close(found, dense_convolution(model.second, inner, adjacency))


def test_a_link_is_an_inner_product() -> None:
    model = tiny("gae", shape_of(random_stream(0)))
    src, dst = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[4.0, -5.0, 6.0]])
    assert model.score(src, dst).tolist() == [12.0]
