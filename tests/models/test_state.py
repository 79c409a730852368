"""Node states: blank rows, growing, resetting, saving and copying."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
import torch
from torch import Tensor

from contig.models import NodeState
from contig.models.state import Room

BLANK = {"h": torch.tensor([1.0, 2.0, 3.0]), "last": torch.tensor(-1), "pair": torch.zeros(2, 2)}


@pytest.fixture
def state() -> NodeState:
    """Four nodes, of which 1 and 3 have changed."""
    made = NodeState(BLANK, 4)
    made["h"][1] = torch.tensor([7.0, 8.0, 9.0])
    made["last"][torch.tensor([1, 3])] = torch.tensor([5, 6])
    made.position = 7
    return made


def rows(state: NodeState) -> dict[str, Tensor]:
    return {name: x.clone() for name, x in state.rows.items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_every_node_starts_with_the_blank_row() -> None:
    state = NodeState(BLANK, 5)
    for name, blank in BLANK.items():
        assert state[name].dtype == blank.dtype
        assert torch.equal(state[name], torch.stack([blank] * 5))
    assert (state.num_nodes, state.position) == (5, 0)


def test_rows_are_not_shared_between_nodes_nor_with_the_blank(state: NodeState) -> None:
    state["h"][0, 0] = 99.0
    assert state["h"][:, 0].tolist() == [99.0, 7.0, 1.0, 1.0]
    assert state.blank["h"].tolist() == [1.0, 2.0, 3.0]


def test_growing_adds_blank_rows_and_keeps_the_others(state: NodeState) -> None:
    before = rows(state)
    state.grow(6)
    assert state.num_nodes == 6
    for name, blank in BLANK.items():
        assert torch.equal(state[name][:4], before[name])
        assert torch.equal(state[name][4:], torch.stack([blank] * 2))
    assert state.position == 7


def test_growing_node_by_node_rarely_copies_the_rows() -> None:
    """A live stream adds nodes one at a time; copying all rows for each would be quadratic."""
    state, places = NodeState(BLANK, 0), set()
    for node in range(1000):
        state.grow(node + 1)
        state["last"][node] = node
        places.add(state["h"].data_ptr())
    assert state["last"].tolist() == list(range(1000))
    assert torch.equal(state["h"], NodeState(BLANK, 1000)["h"])
    assert len(places) <= 12


def test_spare_rows_are_neither_visible_nor_saved() -> None:
    state = NodeState(BLANK, 100)
    state.grow(101)
    kept, exact = io.BytesIO(), io.BytesIO()
    torch.save(state.snapshot(), kept)
    torch.save(NodeState(BLANK, 101).snapshot(), exact)
    assert len(kept.getvalue()) == len(exact.getvalue())
    assert {len(x) for x in state.rows.values()} == {101}


@pytest.mark.parametrize("num_nodes", [0, 3, 4])
def test_growing_never_shrinks(state: NodeState, num_nodes: int) -> None:
    before = rows(state)
    state.grow(num_nodes)
    assert state.num_nodes == 4
    assert same(state.rows, before)


def test_reset_makes_rows_blank_in_place(state: NodeState) -> None:
    places = {name: x.data_ptr() for name, x in state.rows.items()}
    state.reset()
    assert same(state.rows, NodeState(BLANK, 4).rows)
    assert state.position == 0
    assert {name: x.data_ptr() for name, x in state.rows.items()} == places


def test_restoring_copies_in_place(state: NodeState) -> None:
    other = NodeState(BLANK, 4)
    places = {name: x.data_ptr() for name, x in other.rows.items()}
    other.restore(state.snapshot())
    assert same(other.rows, state.rows)
    assert other.position == 7
    assert {name: x.data_ptr() for name, x in other.rows.items()} == places


def test_restoring_a_larger_state_grows(state: NodeState) -> None:
    other = NodeState(BLANK, 2)
    other.restore(state.snapshot())
    assert other.num_nodes == 4
    assert same(other.rows, state.rows)


def test_restoring_a_smaller_state_leaves_the_rest_blank(state: NodeState) -> None:
    other = NodeState(BLANK, 6)
    other["h"][5] = 50.0
    other.restore(state.snapshot())
    state.grow(6)
    assert same(other.rows, state.rows)


def test_a_clone_is_independent(state: NodeState) -> None:
    twin, before = state.clone(), rows(state)
    assert same(twin.rows, state.rows)
    assert twin.position == 7
    twin["h"][1] = 0.0
    twin.grow(9)
    assert same(state.rows, before)


def test_a_state_survives_saving_bit_for_bit(state: NodeState) -> None:
    state["h"][2] = torch.tensor([float("inf"), 1e-45, -0.0])
    kept = io.BytesIO()
    torch.save(state.snapshot(), kept)
    kept.seek(0)
    again = NodeState(BLANK, 4)
    again.restore(torch.load(kept, weights_only=True))
    assert again.position == 7
    assert again.rows.keys() == state.rows.keys()
    for name, x in again.rows.items():
        assert x.numpy().tobytes() == state[name].numpy().tobytes()


def test_restoring_its_own_snapshot_changes_nothing(state: NodeState) -> None:
    before = rows(state)
    state.restore(state.snapshot())
    assert same(state.rows, before)


def test_a_state_without_rows() -> None:
    """A heuristic stores nothing per node, but nodes are still counted."""
    state = NodeState({}, 3)
    state.grow(5)
    assert state.num_nodes == state.clone().num_nodes == 5
    state.reset()
    assert state.rows == {}


def test_a_room_ends_with_its_block_and_is_of_one_state() -> None:
    state, other = NodeState({}, 4), NodeState({}, 4)
    with state.room_for(Room(7)):
        with state.room_for(Room(3, linked=5)):
            assert (state.room, other.room) == (Room(3, 5), Room())
        assert state.room == Room(7, None)
        with suppress(KeyError), state.room_for(Room()):
            assert state.room == Room(None, None)
            raise KeyError
        assert state.room == Room(7)
    assert state.room == Room()
