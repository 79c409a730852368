"""Inserting events that are older than others of their nodes.

Entries of a node are in the order of time and, at equal times, of arrival. A late event changes what is
counted about its own pair and nodes, and the transitions that now lead across it in the sequences of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from contig.history.evidence import Evidence, event_keys, follows
from contig.kernels.keyed_edits import insert, remove
from contig.kernels.placement import place
from contig.kernels.segments import ENTRIES, Segments

if TYPE_CHECKING:
    from contig.history.index import History


def insert_event(history: History, event: int, evidence: list[Evidence]) -> None:
    """Put an event of the columns, by its position, to its place in the sequences of its nodes."""
    columns, position = history.events, torch.tensor([event], device=history.device)
    src, dst, time = (columns["src"][event], columns["dst"][event], columns.happened[event])
    place(history.segments, position, src.reshape(1), dst.reshape(1), time.reshape(1))
    for node in {int(src), int(dst)}:
        at = _move_last(history.segments, node)
        for one in evidence:
            _repair_transitions(one, history.segments, node, at)
    for one in evidence:
        keys, times = event_keys(history, position, one.spec)
        for key, when in zip(keys.tolist(), times, strict=True):
            if key >= 0:
                insert(one.events, key, when)


def _move_last(segments: Segments, node: int) -> int:
    """Move the last entry of a node to its place, which is returned, by time and then by arrival."""
    start, length = int(segments.start[node]), int(segments.length[node])
    event, time = segments.entry_event[start : start + length], segments.entry_time[start : start + length]
    later = (time > time[-1]) | ((time == time[-1]) & (event > event[-1]))
    at = length - 1 - int(later.sum())
    for name in ENTRIES:
        entries = getattr(segments, name)[start : start + length]
        entries[at:] = entries[at:].roll(1)
    return at


def _repair_transitions(evidence: Evidence, segments: Segments, node: int, at: int) -> None:
    """Count the transitions of a sequence with a new entry at a place instead of those without it."""
    start, length = int(segments.start[node]), int(segments.length[node])
    partner = segments.entry_node[start : start + length].long()
    time = segments.entry_time[start : start + length]
    for step in evidence.spec.steps:
        for later in range(at, min(at + step, length - 1) + 1):
            before = later - 1 - step  # where the transition to a later entry began without the new one
            if later > at and before >= 0:
                remove(evidence.transitions, _key(partner, before, later, step), time[later])
            if later >= step:
                insert(evidence.transitions, _key(partner, later - step, later, step), time[later])


def _key(partner: Tensor, first: int, then: int, step: int) -> int:
    return int(follows(partner[first], partner[then], step))
