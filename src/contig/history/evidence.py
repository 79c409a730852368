"""Evidence about pairs and nodes: how often and how recently something happened before a time.

Three things are counted, exactly:

- meetings: events from ``u`` to ``v``;
- the events of a node, and separately those in which it is the destination;
- transitions: ``p`` and then, ``step`` events later, ``q`` in the sequence of partners of any node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from contig.data.index_folder import read_head
from contig.errors import ConfigError, DataError
from contig.history.stored_evidence import EVENTS_AT_ONCE, Parts, evidence_folder, stored
from contig.kernels.keyed_events import LENGTH_MASK, KeyedEvents
from contig.kernels.lookup import partners_back
from contig.kernels.segments import Segments

if TYPE_CHECKING:
    from contig.history.index import History

NODE_BITS = 29
MAX_NODES = 1 << NODE_BITS
KIND_BITS = 63 - 2 * NODE_BITS
MAX_STEP = 1 << KIND_BITS


Sequences = tuple[Segments, Tensor]  # entries by the numbers of events, and those numbers by position


class Kind(IntEnum):
    """What the key of an event counts."""

    MEETING = 0
    NODE = 1
    INCOMING = 2


class EvidenceSpec(NamedTuple):
    """What to count: always meetings, and nodes and transitions on request."""

    decay_times: tuple[float, ...] = ()  # of the decayed counts, in the stream's unit of time
    nodes: bool = False  # count the events of nodes
    steps: tuple[int, ...] = ()  # of the transitions


class Evidence:
    """What happened before any time, for the events of a history.

    ``events`` has plain and decayed counts of meetings and nodes; its keys come from ``meeting``, ``node``
    and ``incoming``. ``transitions`` has plain counts only, because decayed ones would double the memory
    and did not improve any result; its keys come from ``follows``.
    """

    def __init__(self, history: History, spec: EvidenceSpec) -> None:
        _check(history, spec)
        self.spec = spec
        in_order = "happened" not in history.events.columns
        folder = evidence_folder(history.folder, spec) if history.folder is not None and in_order else None
        if folder is not None:
            self._open(history, folder)
            return
        at = history.event_indices()
        if not in_order:
            at = at[history.events.happened[at].argsort(stable=True)]
        self.events = _indexed(event_keys(history, at, spec), spec.decay_times, history)
        keys = _transition_keys(history, at, spec, None if in_order else _sequences(history))
        self.transitions = _indexed(keys, (), history)

    def _open(self, history: History, folder: Path) -> None:
        """Open the evidence of an index, and count what was appended to its history since."""
        assert history.folder is not None
        mapped = read_head(history.folder).events
        self.events, self.transitions = _stored(history, self.spec, folder, mapped)
        if history.num_events > mapped:
            at = history.event_indices()
            self.append(history, at[at >= mapped])

    def append(self, history: History, at: Tensor) -> None:
        """Count events that were appended to the history, by position; ``check_limits`` must allow them."""
        events, transitions = event_keys(history, at, self.spec), _transition_keys(history, at, self.spec)
        self.events.append(*events)
        self.transitions.append(*transitions)

    def nbytes(self) -> int:
        """Return the size of the evidence in memory."""
        return self.events.nbytes() + self.transitions.nbytes()


def check_steps(steps: tuple[int, ...]) -> None:
    """Raise ``ConfigError`` for steps of transitions that a key cannot hold."""
    if any(not 1 <= step <= MAX_STEP for step in steps):
        raise ConfigError(f"steps={steps}: transitions span 1 to {MAX_STEP} events.")


def meeting(src: Tensor, dst: Tensor) -> Tensor:
    """Return the keys of events from ``src`` to ``dst``."""
    return _key(Kind.MEETING, src, dst)


def node(nodes: Tensor) -> Tensor:
    """Return the keys of nodes' events."""
    return _key(Kind.NODE, nodes, nodes)


def incoming(nodes: Tensor) -> Tensor:
    """Return the keys of the events in which nodes are the destination."""
    return _key(Kind.INCOMING, nodes, nodes)


def follows(first: Tensor, then: Tensor, step: int = 1) -> Tensor:
    """Return the keys of ``first`` being followed by ``then``, ``step`` events later, in any sequence."""
    return _key(step - 1, first, then)


def _key(kind: int, a: Tensor, b: Tensor) -> Tensor:
    return (a.long() << (NODE_BITS + KIND_BITS)) | (b.long() << KIND_BITS) | kind


def event_keys(history: History, at: Tensor, spec: EvidenceSpec) -> tuple[Tensor, Tensor]:
    """Return the keys and times that these events add, in stream order; -1 adds nothing."""
    src, dst, t = history.events["src"][at], history.events["dst"][at], history.events.happened[at]
    columns = [meeting(src, dst)]
    if spec.nodes:  # an event of a node with itself is one event
        columns += [node(src), torch.where(src != dst, node(dst), -1), incoming(dst)]
    return _flattened(columns, t)


def _transition_keys(
    history: History, at: Tensor, spec: EvidenceSpec, sequences: Sequences | None = None
) -> tuple[Tensor, Tensor]:
    src, dst, t = history.events["src"][at], history.events["dst"][at], history.events.happened[at]
    segments, place = (history.segments, at) if sequences is None else (sequences[0], sequences[1][at])
    columns = []
    before_dst = partners_back(segments, src, place, spec.steps)  # in the sequence of the source
    before_src = partners_back(segments, dst, place, spec.steps)
    for step, p, q in zip(spec.steps, before_dst.unbind(1), before_src.unbind(1), strict=True):
        columns.append(torch.where(p >= 0, follows(p, dst, step), -1))
        columns.append(torch.where((q >= 0) & (src != dst), follows(q, src, step), -1))
    return _flattened(columns, t)


def _sequences(history: History) -> Sequences:
    """Return the entries by numbers that ascend in every sequence, as positions do without late events."""
    order = history.events.happened.argsort(stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)
    used = history.segments.entry_event.long().clamp(0, len(order) - 1)  # spare entries hold anything
    return replace(history.segments, entry_event=number[used]), number


def _stored(history: History, spec: EvidenceSpec, folder: Path, events: int) -> list[KeyedEvents]:
    """Open the evidence that is stored with an index, of its own events."""

    def parts(keys: Callable[[History, Tensor, EvidenceSpec], tuple[Tensor, Tensor]]) -> Parts:
        def make() -> Iterator[tuple[Tensor, Tensor]]:
            for first in range(0, events, EVENTS_AT_ONCE):
                yield keys(history, torch.arange(first, min(first + EVENTS_AT_ONCE, events)), spec)

        return make

    counted = {"events": (parts(event_keys), spec.decay_times), "transitions": (parts(_transition_keys), ())}
    return stored(folder, counted, history.events.happened.dtype)


def _flattened(columns: list[Tensor], t: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and times in stream order."""
    if not columns:
        return torch.empty(0, dtype=torch.int64, device=t.device), t[:0]
    return torch.stack(columns, dim=1).flatten(), t.repeat_interleave(len(columns))


def _indexed(keys: tuple[Tensor, Tensor], decay_times: tuple[float, ...], history: History) -> KeyedEvents:
    """Index keys where the history is stored: on its device, or in host memory that the device reads."""
    keyed = KeyedEvents.of(keys[0].cpu(), keys[1].cpu(), decay_times)
    return keyed.pinned_copy(history.device) if history.on_host else keyed.to(history.device)


def _check(history: History, spec: EvidenceSpec) -> None:
    check_limits(history.num_nodes, history.segments.longest)
    check_steps(spec.steps)


def check_limits(num_nodes: int, longest: int) -> None:
    """Raise ``DataError`` for more nodes, or more events of one node, than evidence can count."""
    if num_nodes > MAX_NODES:
        raise DataError(f"Evidence about pairs supports up to {MAX_NODES:,} nodes, not {num_nodes:,}.")
    if longest > LENGTH_MASK:
        raise DataError(
            f"Evidence about pairs supports up to {LENGTH_MASK:,} events of one node; one has {longest:,}."
        )


def longest_after(segments: Segments, src: Tensor, dst: Tensor) -> int:
    """Return how many events the busiest node has after these are appended.

    Far below the limit this is an upper bound, because counting would take longer than a small append.
    """
    if segments.longest + len(src) <= LENGTH_MASK:
        return segments.longest + len(src)
    nodes, added = torch.cat([src, dst[src != dst]]).unique(return_counts=True)
    known = nodes < len(segments.length)
    added[known] += segments.length[nodes[known]]
    return max(segments.longest, int(added.max()))
