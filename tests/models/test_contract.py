"""Every built-in model, in every variant that reads the past in its own way, keeps the contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.problems import CASES, random_stream
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History
from contig.layers.unique import distinct
from contig.models import MODELS, EventBatch, Model, NodeState
from contig.testing import CHECKS, Check
from contig.testing.contract import check_empty_history, check_new_node_takes_part, check_unseen_nodes


@pytest.fixture
def stream() -> EventStream:
    return random_stream(1, events=33)


def test_every_built_in_model_is_a_case() -> None:
    assert set(MODELS) <= set(CASES)


@pytest.mark.usefixtures("fast_training")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_the_contract(name: str, check: Check) -> None:
    check(CASES[name])


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("tgat-identity", check_empty_history),
        ("tgat-identity", check_unseen_nodes),
        ("ctdne", check_new_node_takes_part),
    ],
)
def test_a_departure_is_declared_only_where_it_is_one(name: str, check: Check) -> None:
    with pytest.raises(AssertionError):
        check(replace(CASES[name], identifies_nodes=False, frozen=False))


# -- the base class -----------------------------------------------------------------------------------------


class OnlyEmbeds(Model):
    """The least that a model must define."""

    def embed(self, state: NodeState, history: History, *queries: Tensor) -> Tensor:
        return torch.ones(len(queries[0]), 2)


def test_a_model_needs_only_embed(stream: EventStream) -> None:
    model, history = OnlyEmbeds(), History.from_stream(stream)
    state = model.new_state(stream.num_nodes)
    model.observe(state, history, EventBatch.of(history, torch.arange(4)))
    assert state.rows == {}
    a, b = torch.randn(5, 1, 3), torch.randn(5, 4, 3)
    expected = [
        [sum(x * y for x, y in zip(s[0], d, strict=True)) for d in row] for s, row in zip(a, b, strict=True)
    ]
    torch.testing.assert_close(model.score(a, b), torch.tensor(expected))


def test_distinct_is_unique() -> None:
    ids = torch.tensor([4, 1, 4, 0, 6, 1])
    found, place = distinct(ids, 8)
    expected, where = torch.unique(ids, return_inverse=True)
    assert torch.equal(found, expected)
    assert torch.equal(place, where)


def test_an_event_batch_is_read_from_the_columns(stream: EventStream) -> None:
    at = torch.tensor([4, 2, 9])
    batch = EventBatch.of(History.from_stream(stream), at)
    for column, array in ((batch.src, stream.src), (batch.dst, stream.dst), (batch.t, stream.t)):
        np.testing.assert_array_equal(column.numpy(), array[at.numpy()])
    assert torch.equal(batch.event, at)
