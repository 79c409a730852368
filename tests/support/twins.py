"""Models in plain Python, one node at a time, to compare the real ones with."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from contig.data.events import EventStream
from contig.history import History, TimeScale
from contig.models import DataShape, NodeState
from contig.models.bases.events import AttentionReadout
from contig.streaming.schedule import schedule
from support.problems import batch_of, tiny

NOW = 1_700_000_000  # Unix seconds: in float32 they are 128 apart
NODE_WIDTH = 5

Past = tuple[int, int, int]  # the other end of an event, its position, its time


def with_node_features(stream: EventStream, wanted: bool = True) -> DataShape:
    """The shape of a stream, with random node features if ``wanted``."""
    draw = torch.Generator().manual_seed(5)
    features = torch.randn(stream.num_nodes, NODE_WIDTH, generator=draw)
    scale = TimeScale.of(History.from_stream(stream))
    return DataShape(stream.edge_width, features if wanted else None, time_scale=scale)


def model_of(name: str, stream: EventStream, *, node_features: bool = False, **settings: Any) -> Any:
    return tiny(name, with_node_features(stream, node_features), **settings)


def waves(model: Any, x: float) -> Tensor:
    """Encode an interval, counted in units, as a model's options say; without such options, its logarithm."""
    chosen = model.opt
    if getattr(chosen, "time_encoding", "log") == "log":
        x = math.log1p(x)
    direct = getattr(chosen, "frequencies", "log") == "direct"
    frequencies = model.phi.frequency.double() if direct else model.phi.log_frequency.double().exp()
    angles = [x * w for w in frequencies.tolist()]
    scale = math.sqrt(model.phi.dim) if getattr(chosen, "scaled_time", False) else 1
    pairs = [*map(math.cos, angles), *map(math.sin, angles)]
    return torch.tensor(pairs[: model.phi.dim]) / scale


class Twin:
    """Events in a list, vectors and latest events in dictionaries.

    ``previous`` holds a node's latest event of all batches before that of its ``last``: the last one
    that its vector knows.
    """

    def __init__(self, model: Any, stream: EventStream) -> None:
        self.model, self.stream = model, stream
        self.events = list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
        self.h = {v: torch.zeros(model.dim) for v in range(stream.num_nodes)}
        self.last: dict[int, int] = {}
        self.previous: dict[int, int] = {}

    @property
    def unit(self) -> float:
        """What the model counts intervals in."""
        return float(self.model.elapsed.unit)

    # -- messages ------------------------------------------------------------------------------------

    def waves(self, dt: float) -> Tensor:
        return waves(self.model, dt / self.unit)

    def features(self, event: int) -> Tensor:
        if self.stream.edge_features is None:
            return torch.zeros(0)
        return torch.tensor(self.stream.edge_features[event])

    def node_features(self, v: int) -> Tensor:
        return torch.zeros(0) if self.model.node_features is None else self.model.node_features[v]

    def partner(self, v: int) -> int:
        src, dst, _ = self.events[self.last[v]]
        return dst if v == src else src

    def interval(self, v: int) -> int:
        if v not in self.previous:
            return 0
        return self.events[self.last[v]][2] - self.events[self.previous[v]][2]

    def message(self, v: int, other: Tensor) -> Tensor:
        parts = [self.features(self.last[v]), self.waves(self.interval(v)), self.node_features(v)]
        return torch.cat([other, *parts])

    # -- neighborhoods -------------------------------------------------------------------------------

    def past(self, v: int, t: float, k: int) -> list[Past]:
        """The last ``k`` events before ``t``, the most recent first."""
        found = [
            (dst if v == src else src, i, when)
            for i, (src, dst, when) in enumerate(self.events)
            if v in (src, dst) and when < t
        ]
        return found[::-1][:k]

    def keys(self, vectors: list[Tensor], past: list[Past], t: float) -> Tensor:
        rows = [
            torch.cat([x, self.features(i), self.waves(t - when)])
            for x, (_, i, when) in zip(vectors, past, strict=True)
        ]
        return torch.stack(rows)

    def read(
        self, readout: AttentionReadout, own: Tensor, vectors: list[Tensor], past: list[Past], t: float
    ) -> Tensor:
        """The readout of a node's vector and those of the other ends of its past events."""
        layer = readout.attention
        attended = torch.zeros(layer.inner)
        if past:
            query = torch.cat([own, self.waves(0)])
            attended = TorchAttention(layer)(query, self.keys(vectors, past, t))
        merged: Tensor = readout.merge(torch.cat([attended, own]))
        return merged

    # -- walking -------------------------------------------------------------------------------------

    def updated(self, v: int) -> Tensor:
        """The vector of a node with its latest event applied."""
        raise NotImplementedError

    def observe(self, start: int, stop: int) -> None:
        batch = self.events[start:stop]
        nodes = {v for src, dst, _ in batch for v in (src, dst)}
        self.h |= {v: self.updated(v) for v in nodes}
        self.previous |= {v: self.last[v] for v in nodes if v in self.last}
        self.last |= {v: start + i for i, event in enumerate(batch) for v in event[:2]}


class TorchAttention:
    """``torch.nn.MultiheadAttention`` for one query at a time, with another layer's weights."""

    def __init__(self, layer: Any) -> None:
        width = layer.key.weight.shape[1]
        assert layer.query.weight.shape == (layer.inner, layer.inner)  # torch's has one width for both
        self.layer = nn.MultiheadAttention(
            layer.inner, layer.heads, bias=False, kdim=width, vdim=width, batch_first=True
        )
        weights = [x.weight.detach() for x in (layer.query, layer.key, layer.value)]
        if self.layer.in_proj_weight is None:
            names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
            kept = dict(zip(names, weights, strict=True))
        else:
            kept = {"in_proj_weight": torch.cat(weights)}
        self.layer.load_state_dict({**kept, "out_proj.weight": torch.eye(layer.inner)})

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        """Attend with ``[query_dim]`` to ``[k, key_dim]``; the result is ``[inner]``."""
        attended: Tensor = self.layer(query[None, None], keys[None], keys[None], need_weights=False)[0]
        return attended[0, 0]


def walked(model: Any, twin: Twin, batch_size: int, stop: int) -> tuple[NodeState, History]:
    """Observe the first ``stop`` events with model and twin; the history has all events."""
    stream = twin.stream
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    for step in schedule(stream.t[:stop], batch_size):
        model.observe(state, history, batch_of(history, step.observe_from, step.observe_to))
        twin.observe(step.observe_from, step.observe_to)
    return state, history


def later_times(stream: EventStream, stop: int) -> Tensor:
    """A time per node: after the first ``stop`` events, and for most nodes after some more."""
    return int(stream.t[stop - 1]) + 1 + 4 * (torch.arange(stream.num_nodes) % 3)
