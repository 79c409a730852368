"""Every operation: the compiled implementation computes what the reference computes, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import contig.kernels
from contig.kernels.attention import attend
from contig.kernels.dispatch import backend, disabled
from contig.kernels.forced_series import SeriesSettings
from contig.kernels.gather import LazyRows, gather_rows
from contig.kernels.gru import gru_update
from contig.kernels.linked_flow import linked_flow
from contig.kernels.lookup import latest_before
from contig.kernels.pair_flow import FlowSettings, pair_flow
from contig.kernels.placement import place
from contig.kernels.segments import Segments
from contig.kernels.time_waves import time_waves
from contig.kernels.token_pool import pool
from contig.kernels.weighted_rows import weighted_rows

NODES, EVENTS = 7, 40


class Inputs(NamedTuple):
    """Random tensors on a device; ``strided`` ones are not contiguous."""

    device: str
    dtype: torch.dtype
    strided: bool
    draw: torch.Generator

    def leaf(self, rows: int, width: int) -> Tensor:
        """Return a tensor ``[rows, width]`` that needs a gradient."""
        shape = (width, rows) if self.strided else (rows, width)
        values = torch.randn(shape, generator=self.draw, dtype=self.dtype).to(self.device)
        return (values.t() if self.strided else values).requires_grad_()

    def integers(self, high: int, *shape: int) -> Tensor:
        values = torch.randint(0, high, shape[::-1] if self.strided else shape, generator=self.draw)
        return (values.permute(*range(len(shape))[::-1]) if self.strided else values).to(self.device)


class Result(NamedTuple):
    outputs: list[Tensor]
    leaves: list[Tensor]


def attention(inputs: Inputs) -> Result:
    keys = [
        LazyRows(inputs.leaf(rows, width), inputs.integers(rows, 5, 4)) for rows, width in [(6, 7), (9, 3)]
    ]
    heads = [inputs.leaf(5, 10) for _ in range(2)]
    mask = inputs.integers(10, 5, 4) < 7
    return Result([attend(torch.stack(heads), keys, mask)], [*heads, *(key.table for key in keys)])


def gather(inputs: Inputs) -> Result:
    table = inputs.leaf(6, 3)
    return Result([gather_rows(table, inputs.integers(6, 9))], [table])


def gru(inputs: Inputs) -> Result:
    leaves = [inputs.leaf(5, width) for width in (12, 12, 4)]
    return Result([gru_update(*leaves)], leaves)


def flow(inputs: Inputs) -> Result:
    x, logits = inputs.leaf(7, 70), inputs.leaf(7, 210)
    own, partner = inputs.integers(7, 9), inputs.integers(7, 9)
    linked = inputs.integers(4, 9) > 0
    return Result(
        [pair_flow(x, torch.sigmoid(logits), own, partner, linked, FlowSettings(0.475, 1.3, 9))], [x, logits]
    )


def linked(inputs: Inputs) -> Result:
    x, logits = inputs.leaf(7, 70), inputs.leaf(7, 210)
    own, rows = inputs.integers(7, 9), inputs.integers(7, 9, 4)
    weight = torch.where(inputs.integers(3, 9, 4) > 0, inputs.leaf(9, 4).detach(), 0)
    gates = torch.sigmoid(logits)
    found = [
        linked_flow(x, gates, own, rows, weight, SeriesSettings(0.475, terms), 1.3) for terms in (2, 3, 8)
    ]
    return Result(found, [x, logits])


def sums(inputs: Inputs) -> Result:
    table, index = inputs.leaf(6, 70), inputs.integers(6, 5, 4)
    weight = torch.where(inputs.integers(3, 5, 4) > 0, inputs.leaf(5, 4).detach(), 0)
    return Result([weighted_rows(table, index, weight)], [table])


def pooled(inputs: Inputs) -> Result:
    tokens = inputs.leaf(26, 5)
    active = torch.cat([tokens, tokens[-2:]]).view(7, 4, 5)  # the last node has every token twice
    mask = inputs.integers(4, 7, 4) > 0
    mask[1], mask[2], mask[6] = False, True, True
    found = [pool(active, mask), pool(-active.abs(), mask)]  # a missing token is the maximum
    found.append(pool(active.unsqueeze(1).expand(7, 2, 4, 5), mask.unsqueeze(1)))
    return Result([*found, pool(active[:0], mask[:0])], [tokens])


def waves(inputs: Inputs) -> Result:
    log_frequency = inputs.leaf(1, 6)
    dt = 10 * inputs.leaf(5, 3).detach()
    return Result([time_waves(dt, log_frequency[0])], [log_frequency])


def placed(inputs: Inputs) -> Segments:
    """Segments that had to move, with self-loops and a node without events."""
    capacity = torch.full((NODES,), 2, device=inputs.device)
    segments = Segments.with_capacity(capacity, torch.int32, torch.int64)
    src, dst = inputs.integers(NODES - 1, EVENTS), inputs.integers(NODES - 1, EVENTS)
    event, time = (torch.arange(EVENTS, device=inputs.device) // n for n in (1, 3))
    for part in (slice(0, 1), slice(1, 9), slice(9, EVENTS)):
        place(segments, event[part], src[part], dst[part], time[part])
    return segments


def placement(inputs: Inputs) -> Result:
    """The contents of the segments; where they are in the pool is up to the implementation."""
    segments = placed(inputs)
    pieces = [
        entries[start : start + length]
        for start, length in zip(segments.start.tolist(), segments.length.tolist(), strict=True)
        for entries in (segments.entry_event, segments.entry_node, segments.entry_time)
    ]
    return Result([*pieces, segments.length, torch.tensor(segments.longest)], [])


def lookup(inputs: Inputs) -> Result:
    segments = placed(inputs)
    nodes, times = inputs.integers(NODES + 2, 33) - 1, inputs.integers(EVENTS // 3 + 3, 33)
    return Result([*latest_before(segments, nodes, times, 3)], [])


OPERATIONS: dict[str, Callable[[Inputs], Result]] = {
    "attention": attention,
    "gather": gather,
    "gru": gru,
    "linked_flow": linked,
    "lookup": lookup,
    "pair_flow": flow,
    "placement": placement,
    "time_waves": waves,
    "token_pool": pooled,
    "weighted_rows": sums,
}


def outputs_and_gradients(
    operation: str, device: str, dtype: torch.dtype, strided: bool
) -> tuple[list[Tensor], list[Tensor]]:
    draw = torch.Generator().manual_seed(11)
    outputs, leaves = OPERATIONS[operation](Inputs(device, dtype, strided, draw))
    if not leaves:
        return outputs, []
    up = [torch.linspace(-1, 2, x.numel(), device=device).to(x.dtype).view_as(x) for x in outputs]
    return outputs, list(torch.autograd.grad(outputs, leaves, up))


def check(operation: str, device: str, dtype: torch.dtype, strided: bool) -> None:
    found = outputs_and_gradients(operation, device, dtype, strided)
    with disabled():
        expected = outputs_and_gradients(operation, device, dtype, strided)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_loops_compute_what_the_reference_computes(operation: str, dtype: torch.dtype, strided: bool) -> None:
    pytest.importorskip("numba")
    assert backend(torch.device("cpu")) == "numba"
    check(operation, "cpu", dtype, strided)


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("index", [-1, 6, 2**40])
def test_an_index_out_of_range_raises_an_error(index: int) -> None:
    """Compiled loops would read any memory, or crash."""
    table, wrong = torch.ones(6, 2, requires_grad=True), torch.tensor([0, index])
    linked, settings = torch.tensor([True, False]), FlowSettings(0.475, 1.0, 5)

    def flow_of(own: Tensor, rows: Tensor) -> Tensor:
        weight = torch.ones(2, 1)
        return linked_flow(table, torch.ones(6, 6), own, rows[:, None], weight, SeriesSettings(0.475, 4), 1.0)

    uses: dict[str, Callable[[], Tensor]] = {
        "attention": lambda: attend(
            torch.ones(1, 2, 2), [LazyRows(table, wrong[:, None])], linked[:, None] | True
        ),
        "gather": lambda: gather_rows(table, wrong),
        "linked_flow": lambda: flow_of(wrong, wrong * 0),
        "linked": lambda: flow_of(wrong * 0, wrong),
        "pair_flow": lambda: pair_flow(table, torch.ones(6, 6), wrong, wrong * 0, linked, settings),
        "partner": lambda: pair_flow(table, torch.ones(6, 6), wrong * 0, wrong, linked, settings),
        "weighted_rows": lambda: weighted_rows(table, wrong[:, None], torch.ones(2, 1)),
    }
    for use in uses.values():
        with pytest.raises((IndexError, RuntimeError), match=r"out of range|outside"):
            use()


@pytest.mark.gpu
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_kernels_compute_what_the_reference_computes(operation: str, strided: bool) -> None:
    assert backend(torch.device("cuda")) == "triton"
    check(operation, "cuda", torch.float32, strided)


def test_every_compiled_module_is_an_operation_that_is_tested_here() -> None:
    root = Path(contig.kernels.__file__).parent
    compiled = {path.stem for folder in ("cpu", "gpu") for path in (root / folder).glob("*.py")}
    elsewhere = {"keyed_events", "rank_counts"}  # compared with loops in tests of their own
    assert compiled - {"__init__", "launch"} - elsewhere == set(OPERATIONS)
    assert all(find_spec(f"contig.kernels.{name}") is not None for name in OPERATIONS)
