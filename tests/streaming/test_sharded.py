"""A state divided among ranks: threads with an exchange in memory against one state that is not divided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.thread_ranks import run_ranks

from contig.errors import ConfigError
from contig.models.state import NodeState
from contig.ranks import Ranks
from contig.streaming.sharded import ShardedState, checked_layout

BLANK = {"h": torch.full((3,), 0.5), "last": torch.tensor(-1), "flag": torch.zeros(2, 2, dtype=torch.float64)}
NODES = 11


def run_states(size: int, work: Callable[[ShardedState], Any]) -> list[Any]:
    """Let every rank work on its part of a state, and return what each returns."""
    return run_ranks(size, lambda here: work(ShardedState(BLANK, NODES, "cpu", here)))


def change(state: NodeState, seed: int) -> None:
    """Write to a state in all the ways that models use, the same on every rank."""
    draw = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(NODES, generator=draw)[:5]
    more = torch.randint(0, NODES, (9,), generator=draw)
    state["h"][nodes] = 2 * state["h"][nodes] + torch.rand(5, 3, generator=draw)
    state["last"].scatter_reduce_(0, more, torch.arange(9) + seed, "amax")
    state["last"].index_add_(0, nodes, torch.arange(5))
    state["flag"].index_put_((more,), torch.ones(9, 2, 2, dtype=torch.float64), accumulate=True)
    state.position += 9


@pytest.mark.parametrize("size", [2, 3])
def test_every_rank_reads_what_one_state_holds(size: int) -> None:
    plain = NodeState(BLANK, NODES)
    for seed in range(4):
        change(plain, seed)

    def work(state: ShardedState) -> dict[str, Any]:
        rank = state._ranks.rank
        for seed in range(4):
            change(state, seed)
            for number in range(2 * rank):  # some ranks read more often than others
                nodes = torch.randint(
                    0, NODES, (3 + number, 2), generator=torch.Generator().manual_seed(rank)
                )
                assert state["h"][nodes].shape == (3 + number, 2, 3)
            state.finish()
        assert sum(rows.shape[0] for rows in state._own.values()) <= 3 * -(-NODES // size)
        copy = state.clone()
        state.reset()
        blank = state["last"][torch.arange(NODES)].clone()
        state.restore(copy.snapshot())
        return {
            **state.snapshot(),
            "blank": blank,
            "picked": state["flag"].index_select(0, torch.tensor([7, 2])),
        }

    for found in run_states(size, work):
        assert found["position"] == plain.position
        for name, rows in plain.rows.items():
            torch.testing.assert_close(found["rows"][name], rows, rtol=0, atol=0)
        assert found["blank"].tolist() == [-1] * NODES
        assert torch.equal(found["picked"], plain["flag"][[7, 2]])


def test_growing_adds_blank_rows() -> None:
    def work(state: ShardedState) -> list[int]:
        state["last"][torch.arange(NODES)] = torch.arange(NODES)
        state.grow(NODES + 4)
        last: list[int] = state["last"][torch.arange(NODES + 4)].tolist()
        return last

    assert run_states(3, work) == [[*range(NODES), -1, -1, -1, -1]] * 3


def test_what_is_not_supported_is_named() -> None:
    state = ShardedState(BLANK, NODES, "cpu", Ranks(1, 2))
    with pytest.raises(ConfigError, match=r"'h'.*mul_ is not available.*--state replicated"):
        state["h"].mul_(2)
    with pytest.raises(ConfigError, match="Did you mean 'sharded'"):
        checked_layout("shard")
