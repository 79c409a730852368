"""States and histories in the host's memory: the same numbers, and none of them on the GPU."""

from __future__ import annotations

import gc

import pytest
import torch
from support.problems import random_stream, stream_of
from torch import Tensor

from contig.errors import DataError
from contig.history import History
from contig.kernels.pinned_memory import pinned
from contig.models import NodeState
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

CPU = torch.device("cpu")
SETTINGS = {"dim": 8, "time_dim": 6, "neighbors": 3, "dropout": 0.0, "batch_size": 20, "compile": "off"}


def trained(place: str) -> tuple[list[float], dict[str, Tensor]]:
    """The losses of an epoch and the states after it."""
    stream = random_stream(7, events=600, num_nodes=50, edge_width=2)
    config = RunConfig.of("contig", {**SETTINGS, "graph_in": place})
    session = Session(prepare(stream, config, CPU), config)
    session.begin_epoch()
    losses = [session.train_step().item() for _ in session.steps]
    assert not session.state.on_host  # on a CPU it is at home anyway
    assert not session.data.training.on_host
    return losses, {name: rows.cpu() for name, rows in session.state.rows.items()}


def test_a_hosted_tensor_is_a_copy() -> None:
    table = torch.arange(6.0).view(2, 3)
    copy = pinned(table.expand(4, 2, 3), CPU)
    copy[0, 0] = 9.0
    assert table.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert copy[1].tolist() == table.tolist()


def test_a_hosted_history_answers_alike_and_cannot_grow() -> None:
    stream = random_stream(3, events=60, num_nodes=9, edge_width=2)
    plain = History.from_stream(stream)
    there = plain.pinned(CPU)
    nodes, times = torch.arange(9).repeat(4), torch.tensor(stream.t[[5, 20, 40, 59]]).repeat_interleave(9)
    for found, expected in zip(there.before(nodes, times, 4), plain.before(nodes, times, 4), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(there.events["features"], plain.events["features"])
    with pytest.raises(DataError, match="cannot grow"):
        there.append(nodes[:1], nodes[1:2], times[-1:] + 1, torch.zeros(1, 2))
    assert there.num_events == 60


def test_a_history_without_features_can_be_hosted() -> None:
    there = History.from_stream(stream_of([(0, 1, 2), (1, 2, 5)], 3)).pinned(CPU)
    found = there.before(torch.tensor([1]), torch.tensor([6]), 2)
    assert (found.node.tolist(), found.time.tolist()) == ([[2, 0]], [[5, 2]])


def test_hosted_states_are_their_own_and_grow() -> None:
    state = NodeState({"h": torch.tensor([1.0, 2.0])}, 1, on_host=True)
    state["h"][0] = 7.0
    state.grow(3)
    assert state["h"].tolist() == [[7.0, 7.0], [1.0, 2.0], [1.0, 2.0]]
    assert state.clone().on_host
    state.reset()
    assert state["h"].tolist() == [[1.0, 2.0]] * 3


def test_on_a_cpu_it_makes_no_difference_where_the_graph_lies() -> None:
    here, there = trained("device"), trained("host")
    assert here[0] == there[0]
    assert all(torch.equal(rows, there[1][name]) for name, rows in here[1].items())


@pytest.mark.gpu
def test_a_gpu_reads_and_writes_what_lies_in_the_hosts_memory() -> None:
    gpu, table = torch.device("cuda"), torch.arange(3 << 20).view(-1, 3)
    gc.collect()  # what other tests have left
    before = torch.cuda.memory_allocated()
    there = pinned(table, gpu)
    assert there.is_cuda
    assert torch.cuda.memory_allocated() == before  # of which it takes none
    rows = torch.tensor([5, 70_000, 5], device=gpu)
    assert there.index_select(0, rows).tolist() == table[rows.cpu()].tolist()
    there[rows] = -1
    there[:, 0].scatter_reduce_(
        0, torch.tensor([9, 9, 9], device=gpu), torch.tensor([4, 99, 7], device=gpu), "amax"
    )
    assert there[5].tolist() == [-1, -1, -1]
    assert there[9, 0].item() == 99
    assert there[8].tolist() == table[8].tolist()
