"""Recency against a dictionary of the times of each pair."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.heuristics import EVENTS, NODES, NOW, Expected, by_hand, rows, scores, some_times
from support.problems import Event, random_stream, shape_of, stream_of, tiny

from contig.data.events import EventStream
from contig.history import History
from contig.models import Model
from contig.tasks.link_scoring import LinkScorer, NegativePairs
from contig.tasks.metrics import link_metrics
from contig.tasks.ranking import ranks


def recency(stream: EventStream) -> Model:
    return tiny("recency", shape_of(stream))


def last_event(events: list[Event]) -> Expected:
    """``1 / age`` of the pair's last event, in this direction, before ``t``."""
    times: dict[tuple[int, int], list[float]] = {}
    for a, b, when in events:
        times.setdefault((a, b), []).append(when)

    def score(src: int, dst: int, t: float) -> float:
        past = [when for when in times.get((src, dst), []) if when < t]
        return 1 / (t - max(past)) if past else 0.0

    return score


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.booleans(), st.booleans())
def test_against_a_dictionary(events: list[Event], real_events: bool, real_queries: bool) -> None:
    stream, times = stream_of(events, NODES, float_times=real_events), some_times(real_queries)
    found = scores(recency(stream), History.from_stream(stream), times)
    assert torch.equal(found, by_hand(last_event(events), times))


def test_the_last_event_counts_strictly_after_it_happened() -> None:
    stream = stream_of([(0, 1, NOW), (0, 1, NOW), (0, 1, NOW + 3)], NODES)
    times = torch.tensor([NOW, NOW + 1, NOW + 3, NOW + 4, NOW + 12])
    found = scores(recency(stream), History.from_stream(stream), times)
    assert found[:, 0, 1].tolist() == [0.0, 1.0, 1 / 3, 1.0, 1 / 9]
    assert found[:, 1, 0].tolist() == [0.0] * 5  # the direction matters


def test_the_most_recent_pair_ranks_first_and_an_unseen_one_last() -> None:
    """One second separates two pairs even after months; events of the same time tie."""
    after = 86_400 * 90
    stream = stream_of([(0, 2, 0), (0, 1, NOW), (0, 3, NOW + 1), (0, 4, NOW + 1)], NODES)
    found = scores(recency(stream), History.from_stream(stream), torch.tensor([NOW + after]))[0, 0]
    assert found[3] == found[4] > found[1] > found[2] > found[0] == 0


def test_one_tick_separates_pairs_after_more_ticks_than_float32_counts() -> None:
    """Three pairs, one tick apart, after 2^24 ticks and more: they have distinct ranks."""
    stream = stream_of([(0, 1, NOW), (0, 2, NOW + 1), (0, 3, NOW + 2)], NODES)
    history, model = History.from_stream(stream), recency(stream)
    for age in (2**24, 2**31, 2**50):
        found = scores(model, history, torch.tensor([NOW + age]))[:, 0]
        assert found[0].argsort(descending=True)[:3].tolist() == [3, 2, 1]
        assert ranks(found, torch.tensor([2]), torch.ones_like(found, dtype=torch.bool)).item() == 2.5  # own


def test_a_link_scorer_keeps_the_differences() -> None:
    """The true pair is a tick more recent than its negative, three years ago."""
    stream = stream_of([(0, 1, NOW), (0, 2, NOW + 1), (0, 2, NOW + 100_000_000)], NODES)
    history, model = History.from_stream(stream), recency(stream)
    scorer = LinkScorer(model, model.new_state(NODES), history, 1)
    found = scorer(np.array([2]), NegativePairs(torch.tensor([[1]])))
    assert found.positive[0] > found.negative[0]
    assert link_metrics(*found, batch_size=1).auc == 1


def test_only_the_events_of_the_history_are_known() -> None:
    stream = random_stream(1, num_nodes=NODES, events=30)
    chosen = np.flatnonzero(np.arange(30) % 3 == 0)
    history, times = History.from_stream(stream).only(chosen), torch.tensor([5, 20, 1000])
    found = scores(recency(stream), history, times)
    assert torch.equal(found, by_hand(last_event([rows(stream)[i] for i in chosen]), times))
    assert not torch.equal(found, by_hand(last_event(rows(stream)), times))


def test_the_index_follows_a_growing_history_and_a_change_of_history() -> None:
    """An index that is kept between calls is never used for another history."""
    stream = random_stream(2, num_nodes=NODES, events=12)
    model, history = recency(stream), History.empty(NODES, time_dtype=torch.int64)
    times = torch.tensor([4, 200])
    for i, (src, dst, t) in enumerate(rows(stream)):
        assert torch.equal(scores(model, history, times), by_hand(last_event(rows(stream)[:i]), times))
        history.append(*(torch.tensor([x]) for x in (src, dst, t)))
    assert torch.equal(scores(model, history, times), by_hand(last_event(rows(stream)), times))
    other: list[Event] = [(2, 3, 1)] * 12  # as many events
    found = scores(model, History.from_stream(stream_of(other, NODES)), times)
    assert torch.equal(found, by_hand(last_event(other), times))
