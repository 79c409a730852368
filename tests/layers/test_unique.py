"""Distinct ids against Python's sets and lists, on a CPU and in the branches for a GPU."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contig.layers.unique import distinct, mentioned, pack, packed

NODES = 20
IDS = st.lists(st.integers(0, NODES - 1), min_size=1, max_size=30)
many = settings(max_examples=80, deadline=None)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the branches for a GPU, whose operations run on a CPU just as well."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: True))


def gathered(found: Tensor, position: Tensor) -> list[int]:
    """The ids again, each looked up at its position."""
    return [found.tolist()[place] for place in position.tolist()]


@many
@given(IDS)
def test_on_a_cpu_the_distinct_ids_come_sorted(ids: list[int]) -> None:
    tensor = torch.tensor(ids)
    for fixed_shapes in (True, False):
        for found, position in (
            distinct(tensor, NODES, fixed_shapes=fixed_shapes),
            distinct(tensor, 5000, fixed_shapes=fixed_shapes),  # few of many nodes
            packed(tensor, NODES, 2, fixed_shapes=fixed_shapes),
        ):
            assert found.tolist() == sorted(set(ids))
            assert gathered(found, position) == ids
    assert mentioned(tensor, NODES).tolist() == sorted(set(ids))
    assert tensor.tolist() == ids  # nothing was written to it


def test_no_ids() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    found, position = distinct(nothing, 4)
    assert (found.tolist(), position.tolist()) == ([], [])
    assert mentioned(nothing, 4).tolist() == []


@many
@given(IDS, st.integers(0, 7))
def test_packed_ids_fill_their_room_in_turn(ids: list[int], spare: int) -> None:
    unique_ids = sorted(set(ids))
    room = len(unique_ids) + spare
    found, position = pack(torch.tensor(ids), NODES, room)
    assert found.tolist() == list(itertools.islice(itertools.cycle(unique_ids), room))
    assert position.tolist() == [unique_ids.index(node) for node in ids]


@many
@given(IDS, st.integers(0, 6))
def test_ids_that_do_not_fit_are_not_packed(ids: list[int], room: int) -> None:
    """Reading the rows of what is returned instead fails."""
    if room < len(set(ids)):
        found, _ = pack(torch.tensor(ids), NODES, room)
        assert found.tolist() == room * [NODES]


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("ids", [[4, 4, 1], [3, 0, 3, 3, 2, 4], [0], [4, 3, 2, 1, 0]])
@pytest.mark.parametrize("num_nodes", [5, 9])
def test_on_a_gpu_shapes_do_not_depend_on_the_ids(ids: list[int], num_nodes: int) -> None:
    tensor = torch.tensor(ids)
    found, position = distinct(tensor, num_nodes)
    assert found.tolist() == (list(range(num_nodes)) if num_nodes < len(ids) else ids)
    assert gathered(found, position) == ids
    assert set(mentioned(tensor, num_nodes).tolist()) == set(ids)


@pytest.mark.usefixtures("on_gpu")
def test_on_a_gpu_a_model_without_fixed_shapes_gets_the_distinct_ids() -> None:
    ids = torch.tensor([7, 2, 7, 7, 5])
    for found, position in (
        distinct(ids, 9, fixed_shapes=False),
        packed(ids, 9, 4, fixed_shapes=False),
    ):
        assert found.tolist() == [2, 5, 7]
        assert gathered(found, position) == ids.tolist()


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize(
    ("num_nodes", "room", "expected"),
    [
        (9, 5, [0, 3, 4, 0, 3]),  # less than the 6 ids and the 9 nodes
        (5, 4, [0, 3, 4, 0]),
        (9, 6, [3, 0, 3, 4, 3, 0]),  # no less than the ids: as they are
        (9, 50, [3, 0, 3, 4, 3, 0]),
        (5, 5, [0, 1, 2, 3, 4]),  # no less than the nodes: all of them
        (9, None, [3, 0, 3, 4, 3, 0]),  # nothing was promised
    ],
)
def test_on_a_gpu_ids_are_packed_where_that_saves_something(
    num_nodes: int, room: int | None, expected: list[int]
) -> None:
    ids = torch.tensor([3, 0, 3, 4, 3, 0])
    found, position = packed(ids, num_nodes, room)
    assert found.tolist() == expected
    assert gathered(found, position) == ids.tolist()
