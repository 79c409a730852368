"""Engines to test, and slow twins of what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.history import History
from contig.kernels.keyed_events import LENGTH_BITS, LENGTH_MASK
from contig.live import Engine, Events, Settings
from contig.models import EventBatch
from contig.models.registry import model_class
from contig.runs.run import Run
from contig.streaming.schedule import schedule
from contig.training.fit import fit
from support.trained import TINY, fast_training, tiny_stream

HEAD = 250  # events that a run is trained on


def head(stream: EventStream, events: int) -> EventStream:
    """The first events of a stream, with their own nodes alone."""
    names = stream.ids.labels
    part = stream[:events]
    return EventStream.from_arrays(
        names[part.src],
        names[part.dst],
        part.t,
        edge_features=part.edge_features,
        bipartite=stream.bipartite,
        origin="head",
    )


def train_for_serving(out: Path, model: str) -> Path:
    """Train a model for one epoch on the first events of ``tiny_stream``."""
    known = {field.name for field in fields(model_class(model).options)} | {"batch_size", "lr"}
    options = {name: value for name, value in TINY.items() if name in known}
    with fast_training():
        fit(head(tiny_stream(), HEAD), model, out=out, show=False, epochs=1, **options)
    return out


def rows(stream: EventStream, chosen: Sequence[int] | NDArray[Any] | slice) -> Events:
    """Some events of a stream as a client sends them."""
    names, features = stream.ids.labels, stream.edge_features
    return Events(
        names[stream.src[chosen]].tolist(),
        names[stream.dst[chosen]].tolist(),
        stream.t[chosen].tolist(),
        None if features is None else features[chosen],
    )


def open_engine(folder: Path, run: Path | None = None, **settings: Any) -> Engine:
    """An engine on the CPU that takes snapshots only when it is opened and closed."""
    return Engine.open(folder, run, Settings.of(**{"snapshot_every_seconds": 3600, **settings}), "cpu")


def state_of(engine: Engine) -> dict[str, Any]:
    """Everything an engine knows, in a form that does not depend on how it got there."""
    graph, ids = engine._graph, engine._writer.ids
    history, nodes = graph.history, graph.history.num_nodes
    segments = history.segments
    entries = {
        name: [
            getattr(segments, name)[int(s) : int(s) + int(n)].tolist()
            for s, n in zip(segments.start[:nodes], segments.length[:nodes], strict=True)
        ]
        for name in ("entry_event", "entry_node", "entry_time")
    }
    with graph.lock.reading():
        rows = {name: rows.clone() for name, rows in graph.base_rows().items()}
    return {
        "ids": list(zip(ids.labels, ids.is_dst or [None] * nodes, strict=True)),
        "columns": {name: history.events[name].tolist() for name in ("src", "dst", "t")},
        "happened": history.events.happened.tolist(),
        "late": graph.batches.late.tolist(),
        "rows": rows,
        "complete": graph.complete,
        "evidence": [_evidence(one) for one in history._evidence.values()],
        **entries,
    }


def _evidence(evidence: Any) -> dict[str, Any]:
    """What is counted, by key: the times, and the decayed counts at each of them."""
    found: dict[str, Any] = {}
    for name in ("events", "transitions"):
        keyed = getattr(evidence, name)
        for key, packed in keyed.table[keyed.table[:, 0] >= 0].tolist():
            start, length = packed >> LENGTH_BITS, packed & LENGTH_MASK
            if length:
                part = slice(start, start + length)
                found[f"{name} {key}"] = keyed.entry_time[part].tolist(), keyed.entry_decayed[part].tolist()
    return dict(sorted(found.items()))


class Offline:
    """A trained run on a longer stream, evaluated as slowly as can be.

    Nodes that the run does not know are numbered as they appear.
    """

    def __init__(self, run: Path, stream: EventStream) -> None:
        trained = Run.open(run, "cpu")
        self.model, self.batch_size = trained.model, trained.batch_size
        self.stream = _renumbered(stream, trained.stream.ids)
        self.history = History.from_stream(self.stream)
        self._states: dict[int, Any] = {}

    def state(self, before: float) -> Any:
        """The state before a time: complete batches from the first event on, then the rest as one batch."""
        end = int(np.sum(self.stream.t < before))
        if end not in self._states:
            self._states = {end: self._replayed(end)}
        return self._states[end]

    @torch.no_grad()
    def _replayed(self, end: int) -> Any:
        state = self.model.new_state(self.stream.num_nodes)
        for step in schedule(self.stream.t, self.batch_size):
            if state.position < step.observe_to <= end:
                self._observe(state, step.observe_to)
        self._observe(state, end)
        return state

    def _observe(self, state: Any, end: int) -> None:
        events = torch.arange(state.position, end)
        if len(events):
            self.model.observe(state, self.history, EventBatch.of(self.history, events))
        state.position = end

    @torch.no_grad()
    def score(self, event: int, as_of: str) -> float:
        """The score of an event before it happens."""
        batch = EventBatch.of(self.history, torch.tensor([event]))
        first = event if as_of == "event" else event // self.batch_size * self.batch_size
        time = self.history.events["t"][first]
        state = self.state(float(time))
        candidates = batch.dst.unsqueeze(1)
        return float(self.model.link(state, self.history, batch.src, candidates, batch.t, time))

    @torch.no_grad()
    def embed(self, node: int, time: float) -> NDArray[np.float32]:
        """The embedding of a node, by its number, at a time."""
        t = self.history.events["t"]
        when = torch.tensor([time], dtype=t.dtype if float(time).is_integer() else torch.float64)
        found = self.model.embed(self.state(time), self.history, torch.tensor([node]), when, when[0])
        vector: NDArray[np.float32] = found[0].numpy()
        return vector


def _renumbered(stream: EventStream, known: NodeIds) -> EventStream:
    names, sides = known.labels.tolist(), None if known.is_dst is None else known.is_dst.tolist()
    numbers = {(label, sides[i] if sides else False): i for i, label in enumerate(names)}
    ends: dict[str, list[int]] = {"src": [], "dst": []}
    labels = stream.ids.labels.tolist()
    for pair in zip(stream.src.tolist(), stream.dst.tolist(), strict=True):
        for side, node in zip(("src", "dst"), pair, strict=True):
            key = (labels[node], bool(sides) and side == "dst")
            if key not in numbers:
                numbers[key] = len(names)
                names.append(key[0])
                if sides is not None:
                    sides.append(key[1])
            ends[side].append(numbers[key])
    ids = NodeIds(np.array(names), None if sides is None else np.array(sides))
    return replace(stream, src=np.array(ends["src"]), dst=np.array(ends["dst"]), ids=ids, label=None)
