"""Ranks against pairs scored one by one; sampled negatives against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.problems import (
    CASES,
    COUPLED,
    batch_of,
    case,
    random_stream,
    shape_of,
    stream_of,
    with_events,
)

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.history import History
from contig.models import Model
from contig.streaming.schedule import schedule
from contig.tasks import ranking
from contig.tasks.ranking import Ranker, best_first, ranks, sample_negatives
from contig.tasks.recommend import AsOf

BATCH = 6


TABLES = st.integers(1, 6).flatmap(
    lambda m: st.lists(
        st.tuples(
            st.lists(st.integers(-2, 2), min_size=m, max_size=m),
            st.lists(st.booleans(), min_size=m, max_size=m),
            st.integers(0, m - 1),
        ),
        min_size=1,
        max_size=4,
    )
)


@settings(deadline=None)  # the first example compiles
@given(TABLES)
def test_a_rank_is_the_mean_of_the_best_and_the_worst(rows: list[tuple[list[int], list[bool], int]]) -> None:
    logits = torch.tensor([row[0] for row in rows]).float()
    negative = torch.tensor([row[1] for row in rows])
    own = torch.tensor([row[2] for row in rows])
    negative[torch.arange(len(rows)), own] = False
    found = ranks(logits, own, negative)
    for i, (scores, _, own_column) in enumerate(rows):
        others = [s for j, s in enumerate(scores) if negative[i, j]]
        places = sorted([*others, scores[own_column]], reverse=True)
        best = places.index(scores[own_column]) + 1
        worst = len(places) - places[::-1].index(scores[own_column])
        assert found[i].item() == (best + worst) / 2


def test_ranks_do_not_depend_on_the_last_bit() -> None:
    rng = np.random.default_rng(3)
    logits = torch.tensor(rng.integers(-3, 4, (40, 9)) * 1.7, dtype=torch.float32)
    own, negative = torch.tensor(rng.integers(0, 9, 40)), torch.ones(40, 9, dtype=torch.bool)
    negative[torch.arange(40), own] = False
    exact = ranks(logits, own, negative)
    up = torch.tensor(rng.random((40, 9)) < 0.5)
    perturbed = torch.where(up, torch.nextafter(logits, torch.tensor(torch.inf)), logits)
    assert not torch.equal(ranks(perturbed, own, negative), exact)
    assert torch.equal(ranks(perturbed, own, negative, resolution=1e-5), exact)
    for row, other in zip(logits, perturbed, strict=True):
        assert torch.equal(best_first(other, 1e-5), best_first(row))
    assert best_first(torch.tensor([1.0, 2.0, 2.0, 1.5]), 0.0).tolist() == [1, 2, 3, 0]
    assert best_first(torch.tensor([1.0, 2.0, 2.1, 1.4]), 0.2).tolist() == [1, 2, 3, 0]


def test_scores_that_are_not_finite_have_no_rank() -> None:
    logits = torch.tensor([[1.0, 2.0], [1.0, torch.nan], [torch.inf, 1.0], [1.0, torch.nan]])
    negative = torch.tensor([[False, True], [False, True], [False, True], [False, False]])
    found = ranks(logits, torch.zeros(4, dtype=torch.int64), negative)
    np.testing.assert_array_equal(found.numpy(), [2, np.nan, np.nan, 1])


def ranked(
    model: Model,
    stream: EventStream,
    original: EventStream,
    events: NDArray[np.int64],
    as_of: AsOf = "event",
    negatives: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Ranks of ``events`` in the history of ``stream``, among the candidates of ``original``."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    return Ranker(model, state, history, BATCH, Negatives(original), as_of)(events, negatives)


def scores_by_event(model: Model, stream: EventStream, as_of: AsOf, *, together: bool) -> NDArray[np.float64]:
    """Scores ``[events, nodes]`` of each event's source with every node: per event, or ``together``."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    everyone = torch.from_numpy(stream.destinations)
    table = np.full((len(stream), stream.num_nodes), np.nan)
    with torch.no_grad():
        for step in schedule(stream.t, BATCH):
            batch = batch_of(history, step.start, step.stop)
            first = batch.t[0]
            times = batch.t if as_of == "event" else first.expand(len(batch.t))
            if together:
                candidates = everyone.expand(len(batch.src), -1)
                found = model.link(state, history, batch.src, candidates, times, first)
                table[step.start : step.stop, stream.destinations] = found.numpy()
            else:
                for i, (s, t) in enumerate(zip(batch.src, times, strict=True)):
                    found = model.link(state, history, s[None], everyone[None], t[None], first)
                    table[step.start + i, stream.destinations] = found[0].numpy()
            model.observe(state, history, batch_of(history, step.observe_from, step.observe_to))
    return table


@pytest.mark.parametrize("as_of", ["event", "batch"])
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_those_of_events_scored_one_by_one(name: str, as_of: AsOf) -> None:
    """Among all destinations except the other true ones of that source and time."""
    stream = random_stream(3, events=26, num_nodes=7)
    model = case(name, shape_of(stream))
    found = ranked(model, stream, stream, np.arange(26), as_of)
    table = scores_by_event(model, stream, as_of, together=name in COUPLED)
    rows = list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
    left_out = 0
    for i, (s, d, t) in enumerate(rows):
        others = {dst for src, dst, when in rows if (src, when) == (s, t)} - {d}
        negatives = [c for c in stream.destinations.tolist() if c != d and c not in others]
        left_out += len(others)
        above = table[i, negatives] - table[i, d]
        slack = 2 * model.resolution  # both ways of summing have errors, and near the limit either is right
        least = 1 + (above > slack).sum() + (abs(above) <= slack).sum() / 2 * (slack == 0)
        most = 1 + (above > -slack).sum() if slack else least
        assert least <= found[i] <= most, (i, found[i])
    assert left_out > 0
    assert len(set(found.tolist())) > 2


def test_ranking_by_batch_is_another_protocol() -> None:
    """No query sees the events of its own batch."""
    stream = random_stream(3, events=60, num_nodes=7)
    for name in ("contig", "tgn", "recency"):
        model = case(name, shape_of(stream))
        own, shared = (ranked(model, stream, stream, np.arange(60), as_of) for as_of in ("event", "batch"))
        assert (own != shared).any()
        np.testing.assert_array_equal(own[stream.t == stream.t[0]], shared[stream.t == stream.t[0]])


@pytest.mark.parametrize("as_of", ["event", "batch"])
@pytest.mark.parametrize("name", [n for n in CASES if n not in COUPLED])
def test_the_future_changes_no_rank(name: str, as_of: AsOf) -> None:
    """Deleting or replacing events from ``t`` on changes no rank before ``t``."""
    stream = random_stream(8, events=45)
    model, rng = case(name, shape_of(stream)), np.random.default_rng(1)
    whole = ranked(model, stream, stream, np.arange(45), as_of)
    first = int(np.searchsorted(stream.t, stream.t[28]))
    assert first % BATCH  # inside a batch
    deleted = with_events(stream, np.arange(first))
    replaced = with_events(stream, np.r_[np.arange(first), rng.integers(first, 45, 30)])
    replaced.t[first:] = np.sort(replaced.t[first:])
    for other in (deleted, replaced):
        again = ranked(model, other, stream, np.arange(first), as_of)
        np.testing.assert_array_equal(again, whole[:first])


@pytest.mark.parametrize("count", [1, 4, 5, 8, 30])
def test_sampled_negatives_against_brute_force(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = random_stream(5, events=160, num_nodes=14)
    split = chronological_split(stream, seed=1)
    drawn = sample_negatives(stream, split, split.test, count)
    assert drawn.shape == (len(split.test), min(count, len(stream.destinations)))
    trained: dict[int, set[int]] = {}
    for i in split.train:
        trained.setdefault(int(stream.src[i]), set()).add(int(stream.dst[i]))
    for event, row in zip(split.test, drawn.tolist(), strict=True):
        same = (stream.src == stream.src[event]) & (stream.t == stream.t[event])
        free = set(stream.destinations.tolist()) - set(stream.dst[same].tolist())
        chosen = [c for c in row if c >= 0]
        assert len(set(chosen)) == len(chosen) == min(count, len(free))
        assert set(chosen) <= free
        known = trained.get(int(stream.src[event]), set()) & free
        assert len(known & set(chosen)) >= min(count // 2, len(known))
    monkeypatch.setattr(ranking, "DRAWN_AT_ONCE", 3 * len(stream.destinations))
    np.testing.assert_array_equal(sample_negatives(stream, split, split.test, count), drawn)


def test_negatives_are_sampled_uniformly() -> None:
    """For a source without events in training, ten destinations are equally likely."""
    events: list[tuple[int, int, float]] = [(0, 1 + i % 10, i) for i in range(1000)]
    events += [(11 + i, 1, 1000 + i) for i in range(2000)]
    stream = stream_of(events, 3011)
    split = chronological_split(stream, holdout="paper")
    test = split.test
    assert len(test) == 450
    drawn = sample_negatives(stream, split, test, 3)
    times = np.bincount(drawn.ravel(), minlength=11)[2:11]
    assert times.sum() == 3 * 450
    # 150 expected each, with a deviation of 10
    assert times.min() > 105
    assert times.max() < 195


def test_at_most_half_are_sampled_among_the_met() -> None:
    """A source met six of sixty: two of four negatives are among them, the others by chance only."""
    events: list[tuple[int, int, float]] = [(0, 2 + i % 6, i) for i in range(700)]
    events += [(1, 2 + i % 60, 700 + i) for i in range(150)]
    events += [(0, 2, 850 + i) for i in range(150)]
    stream = stream_of(events, 62)
    split = chronological_split(stream, holdout="paper")
    drawn = sample_negatives(stream, split, split.test, 4)
    known = ((drawn >= 3) & (drawn <= 7)).sum(axis=1)  # the sixth is the truth
    assert known.min() == 2
    assert 2 < known.mean() < 2.3  # 2 + 2 * 3 / 57


@pytest.mark.parametrize("as_of", ["event", "batch"])
@pytest.mark.parametrize("name", ["contig", "jodie", "recency"])
def test_ranks_among_sampled_negatives(name: str, as_of: AsOf) -> None:
    stream = random_stream(6, events=60, num_nodes=11)
    model, events = case(name, shape_of(stream)), np.arange(60)
    split = chronological_split(stream)
    whole = ranked(model, stream, stream, events, as_of)
    everyone = sample_negatives(stream, split, events, 30)
    # A pair whose scores differ by just the resolution is a tie or not, by rounding: half a rank.
    off = np.abs(ranked(model, stream, stream, events, as_of, everyone) - whole)
    assert off.max() <= 0.5
    assert np.count_nonzero(off) <= 2
    few = sample_negatives(stream, split, events, 3)
    found = ranked(model, stream, stream, events, as_of, few)
    assert found.max() <= 4
    assert (found <= whole + 0.5).all()
    assert (found < whole).any()
