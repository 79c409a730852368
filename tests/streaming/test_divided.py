"""Ranks that divide nodes, as threads with an exchange in memory, against computing all rows at one place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.thread_ranks import ThreadRanks, run_ranks
from torch import Tensor

from contig.models.state import NodeState
from contig.streaming.divided import CommonRows, RequestedRows
from contig.streaming.sharded import ShardedState

NODES, DIM = 23, 3
BLANK = {"h": torch.zeros(DIM, dtype=torch.float64)}
VALUES = torch.randn(NODES, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
AS_OF = torch.tensor(0)
WANTED = (  # by rank, of unequal numbers, some of them repeated or wanted by several
    (torch.tensor([2, 4, 20]), torch.tensor([0, 4, 8, 22]), torch.tensor([6])),
    (torch.tensor([7, 1, 21, 5, 1, 2]), torch.tensor([9]), torch.tensor([1, 7, 8, 7, 20])),
)


def state_of(here: ThreadRanks, layout: str) -> NodeState:
    """Create a state with one row for each node that differs from all others."""
    state = NodeState(BLANK, NODES) if layout == "replicated" else ShardedState(BLANK, NODES, "cpu", here)
    state["h"][torch.arange(NODES)] = VALUES
    return state


class Computer:
    """Computes rows that depend on two rows of the state and on a weight; remembers for which nodes."""

    def __init__(self, state: NodeState) -> None:
        self.state, self.nodes = state, []
        self.weight = torch.full((DIM,), 1.5, dtype=torch.float64, requires_grad=True)

    def __call__(self, nodes: Tensor) -> Tensor:
        self.nodes += nodes.tolist()
        partner = self.state["h"][(nodes + 5) % NODES]
        return torch.tanh(self.weight * self.state["h"][nodes]) + partner * self.weight


def groups(nodes: Tensor) -> Tensor:
    """Arrange nodes in an order that is not that of their numbers."""
    return nodes * 3 % 7


def loss_of(rows: Tensor, rank: int) -> Tensor:
    """Weigh every row differently, so that no two could be mistaken for each other."""
    return (rows * torch.arange(1 + rank, 1 + rank + rows.numel()).view_as(rows)).sum()


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("layout", ["replicated", "sharded"])
@pytest.mark.parametrize("wanted", WANTED)
def test_requested_rows_and_their_gradients_are_those_of_one_process(
    wanted: tuple[Tensor, ...], layout: str, size: int
) -> None:
    def work(here: ThreadRanks) -> dict[str, Any]:
        state = state_of(here, layout)
        compute = Computer(state)
        rows = RequestedRows(state, here, groups).rows(wanted[here.rank], AS_OF, compute)
        state.finish()
        loss_of(rows, here.rank).backward()
        return {"rows": rows.detach(), "grad": compute.weight.grad, "nodes": compute.nodes}

    found = run_ranks(size, work)
    alone = Computer(state_of(ThreadRanks(), "replicated"))
    expected = [alone(nodes) for nodes in wanted[:size]]
    torch.stack([loss_of(rows, rank) for rank, rows in enumerate(expected)]).sum().backward()
    for rank, rows in enumerate(expected):
        torch.testing.assert_close(found[rank]["rows"], rows.detach())
    torch.testing.assert_close(sum(each["grad"] for each in found), alone.weight.grad)
    computed = [node for each in found for node in each["nodes"]]
    needed = set(torch.cat(wanted[:size]).tolist())
    assert sorted(computed) == sorted(needed)  # each once


def test_a_rank_without_nodes_to_compute_takes_part() -> None:
    def work(here: ThreadRanks) -> Tensor:
        state = state_of(here, "replicated")
        compute = Computer(state)
        rows = RequestedRows(state, here, groups).rows(torch.tensor([3]), AS_OF, compute)
        rows.sum().backward()
        assert compute.weight.grad is not None
        return compute.weight.grad

    alone = Computer(state_of(ThreadRanks(), "replicated"))
    (3 * alone(torch.tensor([3]))).sum().backward()
    found = run_ranks(3, work)  # the last of them computes the only row
    assert alone.weight.grad is not None
    torch.testing.assert_close(torch.stack(found).sum(0), alone.weight.grad)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("layout", ["replicated", "sharded"])
@pytest.mark.parametrize(
    "nodes", [torch.tensor([1, 4, 5, 9, 22]), torch.tensor([6, 3, 6, 11]), torch.tensor([8])]
)
def test_common_rows_are_bit_identical_on_all_ranks(nodes: Tensor, layout: str, size: int) -> None:
    def work(here: ThreadRanks) -> tuple[Tensor, list[int]]:
        state = state_of(here, layout)
        compute = Computer(state)
        with torch.no_grad():
            return CommonRows(state, here, groups).rows(nodes, AS_OF, compute), compute.nodes

    found = run_ranks(size, work)
    expected = Computer(state_of(ThreadRanks(), "replicated"))(nodes).detach()
    for rows, computed in found:
        torch.testing.assert_close(rows, expected)
        assert torch.equal(rows, found[0][0])
        assert len(computed) <= max(1, -(-len(nodes.unique()) // size))
