"""Sketches of walks against an enumeration of all walks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from support.problems import batch_of, random_stream, shape_of, stream_of
from torch import Tensor, nn

from contig.data.events import EventStream
from contig.history import History
from contig.layers import Elapsed
from contig.models import EventBatch, NodeState
from contig.models.bases.sketches import Sketches, WalkSketches, products

HOPS, NODES, DECAY = 3, 6, 0.07


class Identity(nn.Module):
    """A projection that loses nothing: the sketch of a row is the row."""

    def forward(self, nodes: Tensor) -> Tensor:
        return math.sqrt(NODES) * nn.functional.one_hot(nodes, NODES).float()


def sketched(stream: EventStream, batch: int, width: int = NODES) -> tuple[WalkSketches, NodeState, History]:
    """Observe a stream in batches; with the width of the nodes, the projection is the identity."""
    sketches = WalkSketches(width, HOPS, DECAY, Elapsed(shape_of(stream).time_scale))
    if width == NODES:
        sketches.projection = Identity()
    history, state = History.from_stream(stream), NodeState(sketches.blank(), NODES)
    for start in range(0, len(stream), batch):
        sketches.observe(state, history, batch_of(history, start, min(start + batch, len(stream))))
    return sketches, state, history


def walks(
    stream: EventStream, node: int, length: int, limit: int, batch: int
) -> Iterator[tuple[int, list[int]]]:
    """Where each walk of ``length`` events before ``limit`` ends, and the times of its events."""
    if not length:
        yield node, []
        return
    for event in range(limit):
        ends = (int(stream.src[event]), int(stream.dst[event]))
        if node in ends:
            other = ends[1] if node == ends[0] else ends[0]
            for end, times in walks(stream, other, length - 1, event // batch * batch, batch):
                yield end, [int(stream.t[event]), *times]


def matrices(stream: EventStream, unit: float, t: int, batch: int) -> Tensor:
    """The rows of all walk matrices by enumeration, ``[nodes, 1 + hops, nodes]``."""
    found = torch.zeros(NODES, 1 + HOPS, NODES)
    for node in range(NODES):
        for length in range(1 + HOPS):
            for end, times in walks(stream, node, length, len(stream), batch):
                found[node, length, end] += math.exp(-DECAY * sum(t - when for when in times) / unit)
    return found


@pytest.fixture
def stream() -> EventStream:
    """Events with ties and a self-loop."""
    some = random_stream(5, events=13, num_nodes=NODES)
    events = list(zip(some.src.tolist(), some.dst.tolist(), some.t.tolist(), strict=True))
    return stream_of([*events[:6], (2, 2, events[6][2]), *events[6:]], NODES)


def everything(sketches: WalkSketches, state: NodeState, history: History, t: int) -> Sketches:
    return sketches.read(state, history, torch.arange(NODES), torch.full((NODES,), t))


@pytest.mark.parametrize("batch", [1, 4])
def test_without_projection_they_are_the_walk_matrices(stream: EventStream, batch: int) -> None:
    sketches, state, history = sketched(stream, batch)
    t = int(stream.t[-1]) + 3
    found = everything(sketches, state, history, t)
    expected = matrices(stream, float(sketches.elapsed.unit), t, batch)
    assert expected[:, HOPS].sum() > 5
    torch.testing.assert_close(found.rows * found.decay.unsqueeze(2), expected, rtol=1e-5, atol=1e-6)


def test_products_of_sketches_are_those_of_rows_on_average(stream: EventStream) -> None:
    """Within five standard deviations of a projection by random signs."""
    torch.manual_seed(0)
    width, t = 5000, int(stream.t[-1]) + 3
    sketches, state, history = sketched(stream, 4, width)
    found = everything(sketches, state, history, t)
    estimate = products(found, found, "u,v->uv").expm1().view(NODES, NODES, 1 + HOPS, 1 + HOPS)
    exact = matrices(stream, float(sketches.elapsed.unit), t, 4)
    norms = exact.norm(dim=2)
    expected = torch.einsum("uix,vjx->uvij", exact, exact)
    spread = torch.einsum("ui,vj->uvij", norms, norms) * math.sqrt(2 / width)
    assert bool(((estimate - expected).abs() <= 5 * spread + 1e-5).all())
    assert expected.max() > 5 * spread.max()


def test_padding_counts_once(stream: EventStream) -> None:
    sketches, state, history = sketched(stream, 4)
    _, again, _ = sketched(stream[:12], 4)
    padded = torch.tensor([12, 13, 13, 13])
    sketches.observe(again, history, EventBatch.of(history, padded))
    torch.testing.assert_close(again["walks"], state["walks"])


def test_products_of_many_pairs_are_those_of_single_ones() -> None:
    draw = torch.Generator().manual_seed(2)
    a = Sketches(torch.randn(2, 5, 4, 7, generator=draw), torch.rand(2, 5, 4, generator=draw))
    b = Sketches(torch.randn(2, 3, 4, 7, generator=draw), torch.rand(2, 3, 4, generator=draw))
    found = products(a, b, "qk,qc->qck")
    for q, c, k, i, j in [(0, 0, 0, 0, 0), (1, 2, 4, 3, 1), (0, 1, 3, 2, 2), (1, 0, 2, 0, 3)]:
        inner = float(a.rows[q, k, i] @ b.rows[q, c, j] * a.decay[q, k, i] * b.decay[q, c, j])
        assert float(found[q, c, k, 4 * i + j]) == pytest.approx(math.log1p(max(inner, 0.0)), abs=1e-5)
