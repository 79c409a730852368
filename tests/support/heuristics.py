"""Scores of every pair at several times, by a model and by hand: shared by the tests of heuristics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History
from contig.models import Model
from support.problems import Event

NODES = 5
NOW = 1_700_000_000  # Unix seconds: in float32 they are 128 apart
EVENTS = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(0, 9)), max_size=25
).map(lambda events: sorted(events, key=lambda e: e[2]))
WINDOWS = st.sampled_from([None, 0.5, 1.0, 2.5, 4.0])

Expected = Callable[[int, int, float], float]  # the score of a source and a destination at a time


def rows(stream: EventStream) -> list[Event]:
    """List the events of a stream."""
    return list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))


def some_times(real: bool) -> Tensor:
    """Times among and after those of ``EVENTS``; real-valued ones are between them too."""
    times = torch.tensor([0, 3, 4, 9, 12], dtype=torch.float64 if real else torch.int64)
    return torch.cat([times, times + 0.5]) if real else times


def scores(model: Model, history: History, times: Tensor) -> Tensor:
    """Score every pair at each of the times, ``[times, nodes, nodes]``."""
    src = torch.arange(NODES).repeat(len(times))
    dst = torch.arange(NODES).repeat(len(src), 1)
    when = times.repeat_interleave(NODES)
    found = model.link(model.new_state(NODES), history, src, dst, when, when[0])
    return found.view(len(times), NODES, NODES)


def by_hand(score: Expected, times: Tensor) -> Tensor:
    """Compute what ``scores`` must return, pair by pair."""
    return torch.tensor(
        [[[score(a, b, t) for b in range(NODES)] for a in range(NODES)] for t in times.tolist()],
        dtype=torch.float64,
    )
