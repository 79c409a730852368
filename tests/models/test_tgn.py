"""TGN's memory against PyTorch Geometric's, its embedding against a plain twin with torch's attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.problems import batch_of, random_stream
from support.twins import NOW, Twin, later_times, model_of, walked
from torch import Tensor, nn

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.history import History
from contig.models.tgn import TGN

NODES, EDGE_WIDTH, BATCH = 7, 3, 6


class Plain(Twin):
    """TGN in dictionaries."""

    def updated(self, v: int) -> Tensor:
        if v not in self.last:
            return self.h[v]
        both = torch.cat([self.h[v], self.h[self.partner(v)]])
        moved: Tensor = nn.GRUCell.forward(self.model.cell, self.message(v, both)[None], self.h[v][None])[0]
        return moved

    def embed(self, v: int, t: int) -> Tensor:
        past = self.past(v, t, self.model.opt.neighbors)
        return self.read(self.model.readout, self.updated(v), [self.updated(u) for u, _, _ in past], past, t)


@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [
        (3, {}),
        (0, {"neighbors": 1}),
        (3, {"time_encoding": "raw", "frequencies": "direct"}),
        (0, {"time_encoding": "linear", "time_dim": 3, "heads": 3}),
        (3, {"time_dim": 3, "heads": 3, "node_features": True}),
    ],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int) -> None:
    stream = random_stream(7, events=46, edge_width=edge_width, start=start)
    model = model_of("tgn", stream, **settings)
    twin = Plain(model, stream)
    state, history = walked(model, twin, batch_size=5, stop=34)
    times = later_times(stream, 34)
    found = model.embed(state, history, torch.arange(stream.num_nodes), times, times.min())
    torch.testing.assert_close(state["h"], torch.stack(list(twin.h.values())), rtol=0, atol=1e-5)
    expected = torch.stack([twin.embed(v, int(times[v])) for v in range(stream.num_nodes)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert expected.std(dim=0).min() > 1e-3  # the nodes differ


@torch.no_grad()
def test_a_node_without_events_reads_only_its_blank_memory() -> None:
    stream = random_stream(7, events=20, num_nodes=6)
    model = model_of("tgn", stream)
    twin = Plain(model, stream)
    state, history = walked(model, twin, batch_size=4, stop=20)
    state.grow(9)
    found = model.embed(state, history, torch.tensor([8]), torch.tensor([900]), torch.tensor(900))[0]
    nothing = torch.zeros(model.readout.attention.inner + model.dim)
    torch.testing.assert_close(found, model.readout.merge(nothing), rtol=0, atol=1e-6)


# -- against PyTorch Geometric ----------------------------------------------------------------------------


class OurWaves(nn.Module):
    """Our time encoding in place of theirs, which is the cosine of a linear layer."""

    def __init__(self, model: TGN) -> None:
        super().__init__()
        self.phi, self.unit = model.phi, float(model.elapsed.unit)
        self.lin = nn.Linear(1, 1)  # its device is read there

    def forward(self, t: Tensor) -> Tensor:
        encoded: Tensor = self.phi(t / self.unit)
        return encoded


class TheirMemory:
    """``TGNMemory`` with a model's weights and our conventions for the first batch of a node.

    At a node's first appearance they pass zeros through the cell, where ours stays blank; and they
    count the first interval from time 0, where ours is 0: both are set after the batch.
    """

    def __init__(self, model: TGN, num_nodes: int) -> None:
        tgn = pytest.importorskip("torch_geometric.nn.models.tgn")
        dim, time_dim = model.opt.dim, model.opt.time_dim
        message = tgn.IdentityMessage(EDGE_WIDTH, dim, time_dim)
        self.memory = tgn.TGNMemory(num_nodes, EDGE_WIDTH, dim, time_dim, message, tgn.LastAggregator())
        self.memory.gru.load_state_dict(model.cell.state_dict())
        self.memory.time_enc = OurWaves(model)
        self.seen: set[int] = set()

    def observe(self, stream: EventStream, start: int, stop: int) -> None:
        src, dst, t = (torch.tensor(x[start:stop]) for x in (stream.src, stream.dst, stream.t))
        assert stream.edge_features is not None
        self.memory.update_state(src, dst, t, torch.tensor(stream.edge_features[start:stop]))
        ends = set(torch.cat([src, dst]).tolist())
        for v in ends - self.seen:
            self.memory.memory[v] = 0
            self.memory.last_update[v] = t[(src == v) | (dst == v)].max()
        self.seen |= ends

    def updated(self) -> Tensor:
        moved: Tensor = self.memory(torch.tensor(sorted(self.seen)))[0]
        return moved


def dense_stream(seed: int) -> EventStream:
    """Many events per node and batch, all at different times; some nodes appear late.

    Theirs takes any of several latest events of one time, and one of a node with itself twice.
    """
    rng = np.random.default_rng(seed)
    events = 8 * BATCH
    src = rng.integers(0, np.where(np.arange(events) < 3 * BATCH, NODES - 2, NODES))
    dst = (src + rng.integers(1, NODES - 2, events)) % np.where(src < NODES - 2, NODES - 2, NODES)
    dst = np.where(dst == src, (src + 1) % (NODES - 2), dst)
    return EventStream(
        src=src,
        dst=dst,
        t=NOW + np.cumsum(rng.integers(1, 40, events)),
        ids=NodeIds(np.arange(NODES)),
        edge_features=rng.normal(size=(events, EDGE_WIDTH)).astype(np.float32),
    )


@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_the_memory_agrees_with_pytorch_geometric(seed: int) -> None:
    stream = dense_stream(seed)
    assert np.all(stream.src != stream.dst)
    assert set(stream.src) | set(stream.dst) == set(range(NODES))
    model = model_of("tgn", stream)
    theirs = TheirMemory(model, NODES)
    history, state = History.from_stream(stream), model.new_state(NODES)
    for start in range(0, len(stream), BATCH):
        model.observe(state, history, batch_of(history, start, start + BATCH))
        theirs.observe(stream, start, start + BATCH)
        torch.testing.assert_close(state["h"], theirs.memory.memory, rtol=0, atol=1e-6)
        nodes = torch.tensor(sorted(theirs.seen))
        moved = model.updated(state, history, nodes, history.events["t"][start])
        torch.testing.assert_close(moved, theirs.updated(), rtol=0, atol=1e-6)
    assert state["h"].abs().min() > 0
