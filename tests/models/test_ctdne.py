"""CTDNE: vectors from walks, nodes without a vector, and operators on pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.problems import random_stream, shape_of, stream_of, tiny

from contig.history import History
from contig.models import DataShape
from contig.models.bases.walks import learn_vectors, temporal_walks
from contig.models.ctdne import joined

SETTINGS: dict[str, Any] = {
    "walks": 3,
    "length": 6,
    "window": 2,
    "noise": 4,
    "noise_power": 0.5,
    "passes": 2,
    "walk_lr": 0.03,
}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("hadamard", [3.0, -10.0]),
        ("average", [2.0, -1.5]),
        ("l1", [2.0, 7.0]),
        ("l2", [4.0, 49.0]),
    ],
)
def test_the_operators_on_pairs(operator: Any, expected: list[float]) -> None:
    src, dst = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -5.0]])
    assert joined(src, dst, operator).tolist() == [expected]
    model: Any = tiny("ctdne", DataShape(0, None, 4), dim=2, operator=operator)
    w, b = model.classifier.weight[0], model.classifier.bias[0]
    torch.testing.assert_close(model.score(src, dst), (w @ torch.tensor(expected) + b).reshape(1))


def test_vectors_are_learned_from_training_walks() -> None:
    """The same draws by hand give the same vectors; the classifier does not change."""
    stream = random_stream(4, events=40, num_nodes=9)
    model: Any = tiny("ctdne", shape_of(stream), start="linear", step="linear", **SETTINGS)
    history = History.from_stream(stream).only(range(25))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    seen = {int(v) for i in range(25) for v in (stream.src[i], stream.dst[i])}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model.prepare(history)
        torch.manual_seed(7)
        walks = temporal_walks(history, 3 * len(seen), 6, "linear", "linear")
        expected = learn_vectors(
            walks, before["vectors"][:-1], window=2, negatives=4, power=0.5, passes=2, lr=0.03, at_once=64
        )
    assert torch.equal(model.vectors[:-1], expected)
    assert not torch.equal(model.vectors, before["vectors"])
    assert torch.equal(model.classifier.weight, before["classifier.weight"])
    assert model.known.tolist() == [v in seen for v in range(9)]


def test_nodes_outside_training_or_without_events_have_no_vector() -> None:
    """Nodes 0 to 2 are in training, 3 in the test, 9 is new; the first event of node 2 is at time 2."""
    stream = stream_of([(0, 1, 1), (1, 2, 2), (3, 0, 3)], 4)
    model: Any = tiny("ctdne", shape_of(stream), **SETTINGS)
    history = History.from_stream(stream)
    with torch.random.fork_rng():
        model.prepare(history.only([0, 1]))
    history.append(torch.tensor([9]), torch.tensor([1]), torch.tensor([4]))
    nodes = torch.tensor([0, 1, 2, 3, 9, 40])
    for t, with_vector in ((1, []), (2, [0, 1]), (9, [0, 1, 2])):
        times = torch.full((6,), t)
        found = model.embed(model.new_state(10), history, nodes, times, times[0])
        for v, vector in zip(nodes.tolist(), found, strict=True):
            expected = model.vectors[v] if v in with_vector else torch.zeros(6)
            assert torch.equal(vector, expected), (v, t)
        assert bool(found[with_vector].any()) or not with_vector
