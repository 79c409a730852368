"""Tensors in pinned host memory: the same numbers, and no memory of the GPU."""

from __future__ import annotations

import gc

import pytest
import torch
from support.problems import random_stream
from torch import Tensor

from contig.kernels.pinned_memory import pinned_copy
from contig.models import NodeState
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

CPU = torch.device("cpu")
SETTINGS = {"dim": 8, "time_dim": 6, "neighbors": 3, "dropout": 0.0, "batch_size": 20, "compile": "off"}


def trained(place: str) -> tuple[list[float], dict[str, Tensor]]:
    """Return the losses of an epoch and the states after it."""
    stream = random_stream(7, events=600, num_nodes=50, edge_width=2)
    config = RunConfig.of("contig", {**SETTINGS, "graph_in": place})
    session = Session(prepare(stream, config, CPU), config)
    session.begin_epoch()
    losses = [session.train_step().item() for _ in session.steps]
    assert not session.state.on_host  # a CPU works in host memory anyway
    assert not session.data.training.on_host
    return losses, {name: rows.cpu() for name, rows in session.state.rows.items()}


def test_a_pinned_copy_is_independent_of_the_original() -> None:
    table = torch.arange(6.0).view(2, 3)
    copy = pinned_copy(table.expand(4, 2, 3), CPU)
    copy[0, 0] = 9.0
    assert table.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert copy[1].tolist() == table.tolist()


def test_pinned_node_states_are_independent_and_grow() -> None:
    state = NodeState({"h": torch.tensor([1.0, 2.0])}, 1, on_host=True)
    state["h"][0] = 7.0
    state.grow(3)
    assert state["h"].tolist() == [[7.0, 7.0], [1.0, 2.0], [1.0, 2.0]]
    assert state.clone().on_host
    state.reset()
    assert state["h"].tolist() == [[1.0, 2.0]] * 3


def test_on_a_cpu_the_location_of_the_graph_makes_no_difference() -> None:
    here, there = trained("device"), trained("host")
    assert here[0] == there[0]
    assert all(torch.equal(rows, there[1][name]) for name, rows in here[1].items())


@pytest.mark.gpu
def test_a_gpu_reads_and_writes_pinned_memory() -> None:
    gpu, table = torch.device("cuda"), torch.arange(3 << 20).view(-1, 3)
    gc.collect()  # of what other tests allocated
    before = torch.cuda.memory_allocated()
    there = pinned_copy(table, gpu)
    assert there.is_cuda
    assert torch.cuda.memory_allocated() == before
    rows = torch.tensor([5, 70_000, 5], device=gpu)
    assert there.index_select(0, rows).tolist() == table[rows.cpu()].tolist()
    there[rows] = -1
    there[:, 0].scatter_reduce_(
        0, torch.tensor([9, 9, 9], device=gpu), torch.tensor([4, 99, 7], device=gpu), "amax"
    )
    assert there[5].tolist() == [-1, -1, -1]
    assert there[9, 0].item() == 99
    assert there[8].tolist() == table[8].tolist()
