"""Transition against a loop over every node's sequence of partners."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.heuristics import EVENTS, NODES, NOW, Expected, by_hand, rows, scores, some_times
from support.problems import Event, random_stream, shape_of, stream_of, tiny

from contig.data.events import EventStream
from contig.history import History
from contig.models import Model


def transition(stream: EventStream) -> Model:
    return tiny("transition", shape_of(stream))


def what_followed(events: list[Event]) -> Expected:
    """How often the latest partner was followed by the destination, by the number of its events."""

    def sequences(t: float) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for a, b, when in events:
            if when < t:
                found.setdefault(a, []).append(b)
                if a != b:
                    found.setdefault(b, []).append(a)
        return found

    def score(src: int, dst: int, t: float) -> float:
        past = sequences(t)
        if src not in past:
            return 0.0
        partner = past[src][-1]
        pairs = [pair for nodes in past.values() for pair in pairwise(nodes)]
        return pairs.count((partner, dst)) / len(past[partner])

    return score


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.booleans(), st.booleans())
def test_against_sequences(events: list[Event], real_events: bool, real_queries: bool) -> None:
    stream, times = stream_of(events, NODES, float_times=real_events), some_times(real_queries)
    found = scores(transition(stream), History.from_stream(stream), times)
    assert torch.equal(found, by_hand(what_followed(events), times))


def test_an_order_is_recognized_without_repeated_pairs() -> None:
    """Everybody goes from 3 to 4; one who is at 3 will be at 4 next, although they never met."""
    stream = stream_of(
        [(0, 3, NOW), (0, 4, NOW + 1), (1, 3, NOW + 2), (1, 4, NOW + 3), (2, 3, NOW + 4)], NODES
    )
    found = scores(transition(stream), History.from_stream(stream), torch.tensor([NOW + 5]))[0, 2]
    assert int(found.argmax()) == 4
    assert float(found[4]) == 2 / 3


def test_it_follows_a_growing_history() -> None:
    stream = random_stream(2, num_nodes=NODES, events=12)
    model, history = transition(stream), History.empty(NODES, time_dtype=torch.int64)
    times = torch.tensor([4, 200])
    for i, (src, dst, t) in enumerate(rows(stream)):
        assert torch.equal(scores(model, history, times), by_hand(what_followed(rows(stream)[:i]), times))
        history.append(*(torch.tensor([x]) for x in (src, dst, t)))
