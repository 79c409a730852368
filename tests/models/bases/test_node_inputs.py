"""Input vectors of static models, and the optional package they need."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
import torch
from support.problems import random_stream, shape_of, stream_of, tiny

from contig.errors import ConfigError
from contig.history import History
from contig.models import DataShape
from contig.models.bases.node_inputs import NodeInputs, nodes_of

USERS_OF_PYG = ["gae", "vgae", "graphsage", "gat"]


def rows(inputs: NodeInputs, nodes: list[int], active: list[bool]) -> list[int]:
    found: list[int] = inputs.rows(torch.tensor(nodes), torch.tensor(active)).tolist()
    return found


def test_a_training_node_has_its_own_vector_from_its_first_event_on() -> None:
    """Nodes 0 to 3 are in the stream, 0 and 2 in training; 9 appears later."""
    inputs = NodeInputs(5, DataShape(0, None, 4))
    inputs.learn_only(torch.tensor([2, 0, 2]))
    assert rows(inputs, [0, 1, 2, 3, 9], [True] * 5) == [1, 0, 3, 0, 0]
    assert rows(inputs, [0, 1, 2, 3, 9], [False, True, True, True, True]) == [0, 0, 3, 0, 0]
    assert torch.equal(inputs(torch.tensor([3, 0])), inputs.vectors[[3, 0]])


def test_known_nodes_are_saved_with_the_weights() -> None:
    inputs, twin = (NodeInputs(5, DataShape(0, None, 4)) for _ in range(2))
    inputs.learn_only(torch.tensor([3]))
    twin.load_state_dict(inputs.state_dict())
    assert rows(twin, [0, 3], [True, True]) == [0, 4]


def test_features_are_used_before_the_first_event() -> None:
    """For nodes in and outside training; only a node that appeared later has none."""
    features = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))
    inputs = NodeInputs(5, DataShape(0, features, 3))
    inputs.learn_only(torch.tensor([1]))
    assert inputs.width == 2
    assert rows(inputs, [0, 1, 2, 3], [False, True, False, True]) == [1, 2, 3, 0]
    assert torch.equal(inputs(torch.tensor([1, 3])), features[[0, 2]])
    assert torch.equal(inputs(torch.tensor(0)), inputs.vectors[0])
    assert sum(p.numel() for p in inputs.parameters()) == 2  # the shared one


def test_the_nodes_of_a_partial_history() -> None:
    stream = stream_of([(0, 1, 1), (4, 2, 2), (3, 1, 3)], 6)
    history = History.from_stream(stream).only([0, 2])
    assert set(nodes_of(history).tolist()) == {0, 1, 3}


@pytest.mark.parametrize("name", [*USERS_OF_PYG])
def test_nodes_outside_training_differ_only_by_their_edges(name: str) -> None:
    """Nodes 7 and 8 are in the stream but not in training, 20 is new; equal events make equal vectors."""
    later = [(0, 7, 10), (0, 8, 10), (0, 20, 10), (7, 1, 11), (8, 1, 11), (20, 1, 11)]
    stream = stream_of([(0, 1, 1), (1, 2, 2), (2, 0, 3), *later], 21)
    model: Any = tiny(name, DataShape(0, None, 9))
    history = History.from_stream(stream)
    model.prepare(history.only([0, 1, 2]))
    nodes = torch.tensor([7, 8, 20, 0])
    found = model.embed(model.new_state(21), history, nodes, torch.full((4,), 12), torch.tensor(12))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])
    assert not torch.allclose(found[0], found[3])


@pytest.mark.parametrize("name", USERS_OF_PYG)
def test_a_missing_package_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(module: str, *rest: Any, **named: Any) -> Any:
        if module.startswith("torch_geometric"):
            raise ImportError(module)
        return real(module, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=rf"model='{name}' needs PyTorch Geometric.*contig\[baselines\]"):
        tiny(name, shape_of(random_stream(0)))
