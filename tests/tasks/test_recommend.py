"""Ranks against pairs scored one by one and counted by hand; rivals against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import label_ranking_average_precision_score, top_k_accuracy_score
from support.evaluation import context_of
from support.problems import (
    CASES,
    COUPLED,
    batch_of,
    case,
    random_stream,
    shape_of,
    stream_of,
    tiny,
    with_events,
)

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import HOLDOUTS, Holdout, chronological_split
from contig.errors import ConfigError, RunError
from contig.history import History
from contig.models import Model
from contig.streaming.schedule import schedule
from contig.tasks import ranking
from contig.tasks.context import EvaluationContext
from contig.tasks.metrics import rank_metrics
from contig.tasks.ranking import Ranker, best_first, ranks, sample_negatives
from contig.tasks.recommend import AsOf, RecommendOptions, RecommendResult, RecommendTask, recommend_report
from contig.tasks.results import RankMetrics
from contig.tasks.selections import selection_masks

BATCH = 6

# -- ranks and their metrics --------------------------------------------------------------------------------

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


@given(TABLES)
def test_a_rank_is_the_mean_of_the_best_and_the_worst(rows: list[tuple[list[int], list[bool], int]]) -> None:
    logits = torch.tensor([row[0] for row in rows]).float()
    rival = torch.tensor([row[1] for row in rows])
    own = torch.tensor([row[2] for row in rows])
    rival[torch.arange(len(rows)), own] = False
    found = ranks(logits, own, rival)
    for i, (scores, _, mine) in enumerate(rows):
        others = [s for j, s in enumerate(scores) if rival[i, j]]
        places = sorted([*others, scores[mine]], reverse=True)
        best = places.index(scores[mine]) + 1
        worst = len(places) - places[::-1].index(scores[mine])
        assert found[i].item() == (best + worst) / 2


def test_no_rank_depends_on_a_last_bit() -> None:
    rng = np.random.default_rng(3)
    logits = torch.tensor(rng.integers(-3, 4, (40, 9)) * 1.7, dtype=torch.float32)
    own, rival = torch.tensor(rng.integers(0, 9, 40)), torch.ones(40, 9, dtype=torch.bool)
    rival[torch.arange(40), own] = False
    exact = ranks(logits, own, rival)
    up = torch.tensor(rng.random((40, 9)) < 0.5)
    shaken = torch.where(up, torch.nextafter(logits, torch.tensor(torch.inf)), logits)
    assert not torch.equal(ranks(shaken, own, rival), exact)
    assert torch.equal(ranks(shaken, own, rival, resolution=1e-5), exact)
    for row, other in zip(logits, shaken, strict=True):
        assert torch.equal(best_first(other, 1e-5), best_first(row))
    assert best_first(torch.tensor([1.0, 2.0, 2.0, 1.5]), 0.0).tolist() == [1, 2, 3, 0]
    assert best_first(torch.tensor([1.0, 2.0, 2.1, 1.4]), 0.2).tolist() == [1, 2, 3, 0]


def test_scores_that_are_no_numbers_have_no_rank() -> None:
    logits = torch.tensor([[1.0, 2.0], [1.0, torch.nan], [torch.inf, 1.0], [1.0, torch.nan]])
    rival = torch.tensor([[False, True], [False, True], [False, True], [False, False]])
    found = ranks(logits, torch.zeros(4, dtype=torch.int64), rival)
    np.testing.assert_array_equal(found.numpy(), [2, np.nan, np.nan, 1])


def test_metrics_against_sklearn_where_nothing_is_tied() -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.permuted(np.tile(np.arange(40.0), (70, 1)), axis=1), rng.integers(0, 40, 70)
    truth = np.arange(40) == own[:, None]
    found = rank_metrics(ranks(torch.tensor(scores), torch.tensor(own), torch.tensor(~truth)).numpy())
    assert found.mrr == pytest.approx(label_ranking_average_precision_score(truth, scores))
    for k in (5, 10, 15, 20):
        expected = top_k_accuracy_score(own, scores, k=k, labels=np.arange(40))
        assert found.as_dict()[f"recall@{k}"] == pytest.approx(expected)
    assert found.events == 70


def test_metrics_by_hand() -> None:
    found = rank_metrics(np.array([1, 5, 5.5, 16, 200], np.float32))
    assert found.mrr == pytest.approx((1 + 1 / 5 + 1 / 5.5 + 1 / 16 + 1 / 200) / 5)
    assert [found.recall_at_5, found.recall_at_10, found.recall_at_15, found.recall_at_20] == pytest.approx(
        [0.4, 0.6, 0.6, 0.8]
    )
    assert rank_metrics(np.array([], np.float32)) == RankMetrics(events=0)


# -- the walk -----------------------------------------------------------------------------------------------


def ranked(
    model: Model,
    stream: EventStream,
    asked: EventStream,
    events: NDArray[np.int64],
    as_of: AsOf = "event",
    rivals: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Ranks of ``events`` in the history of ``stream``, among the candidates of ``asked``."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    return Ranker(model, state, history, BATCH, Negatives(asked), as_of)(events, rivals)


def scores_by_hand(model: Model, stream: EventStream, as_of: AsOf, *, together: bool) -> NDArray[np.float64]:
    """Each event's source with every node ``[events, nodes]``, pair after pair unless ``together``."""
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
                    for d in everyone:
                        one = model.link(state, history, s[None], d.view(1, 1), t[None], first)
                        table[step.start + i, int(d)] = one.item()
            model.observe(state, history, batch_of(history, step.observe_from, step.observe_to))
    return table


@pytest.mark.parametrize("as_of", ["event", "batch"])
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_those_of_pairs_scored_one_by_one(name: str, as_of: AsOf) -> None:
    """Among all destinations but the others that are true at the same source and time."""
    stream = random_stream(3, events=26, num_nodes=7)
    model = case(name, shape_of(stream))
    found = ranked(model, stream, stream, np.arange(26), as_of)
    table = scores_by_hand(model, stream, as_of, together=name in COUPLED)
    rows = list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))
    left_out = 0
    for i, (s, d, t) in enumerate(rows):
        others = {dst for src, dst, when in rows if (src, when) == (s, t)} - {d}
        rivals = [c for c in stream.destinations.tolist() if c != d and c not in others]
        left_out += len(others)
        above = table[i, rivals] - table[i, d]
        slack = 2 * model.resolution  # both ways of summing are off, and near the edge either side is right
        least = 1 + (above > slack).sum() + (abs(above) <= slack).sum() / 2 * (slack == 0)
        most = 1 + (above > -slack).sum() if slack else least
        assert least <= found[i] <= most, (i, found[i])
    assert left_out > 0
    assert len(set(found.tolist())) > 2


def test_batches_and_times_matter() -> None:
    """The cheap question is another one: what a batch brings is then unknown to all of it."""
    stream = random_stream(3, events=60, num_nodes=7)
    for name in ("contig", "tgn", "recency"):
        model = case(name, shape_of(stream))
        own, shared = (ranked(model, stream, stream, np.arange(60), as_of) for as_of in ("event", "batch"))
        assert (own != shared).any()
        np.testing.assert_array_equal(own[stream.t == stream.t[0]], shared[stream.t == stream.t[0]])


@pytest.mark.parametrize("as_of", ["event", "batch"])
@pytest.mark.parametrize("name", [n for n in CASES if n not in COUPLED])
def test_the_future_changes_no_rank(name: str, as_of: AsOf) -> None:
    """Deleting or replacing what happens from ``t`` on changes no rank of the events before ``t``."""
    stream = random_stream(8, events=45)
    model, rng = case(name, shape_of(stream)), np.random.default_rng(1)
    whole = ranked(model, stream, stream, np.arange(45), as_of)
    first = int(np.searchsorted(stream.t, stream.t[28]))
    assert first % BATCH  # in the midst of a batch
    deleted = with_events(stream, np.arange(first))
    replaced = with_events(stream, np.r_[np.arange(first), rng.integers(first, 45, 30)])
    replaced.t[first:] = np.sort(replaced.t[first:])
    for other in (deleted, replaced):
        again = ranked(model, other, stream, np.arange(first), as_of)
        np.testing.assert_array_equal(again, whole[:first])


# -- drawn rivals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 5, 8, 30])
def test_rivals_are_what_they_are_said_to_be(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_rivals_beyond_those_met_are_drawn_evenly() -> None:
    """A source that met nobody: each of ten destinations is as likely as any other."""
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


def test_no_more_than_half_are_chosen_for_having_been_met() -> None:
    """A source that met six of sixty: of four rivals two are among them, and the others only by chance."""
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
def test_ranks_among_rivals_are_ranks_among_those_alone(name: str, as_of: AsOf) -> None:
    stream = random_stream(6, events=60, num_nodes=11)
    model, events = case(name, shape_of(stream)), np.arange(60)
    split = chronological_split(stream)
    whole = ranked(model, stream, stream, events, as_of)
    everyone = sample_negatives(stream, split, events, 30)
    np.testing.assert_array_equal(ranked(model, stream, stream, events, as_of, everyone), whole)
    few = sample_negatives(stream, split, events, 3)
    found = ranked(model, stream, stream, events, as_of, few)
    assert found.max() <= 4
    assert (found <= whole).all()
    assert (found < whole).any()


# -- the task -----------------------------------------------------------------------------------------------


def measure(given: EvaluationContext, **options: Any) -> RecommendResult:
    return RecommendTask.of(**options).measure(given)


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_the_report_holds_every_selection(holdout: Holdout) -> None:
    stream = random_stream(5, events=160, num_nodes=300)
    asked = context_of(case("popularity", shape_of(stream)), stream, BATCH, holdout)
    found = measure(asked)
    each = ranked(asked.model, stream, stream, asked.data.split.test)
    for name, rows in selection_masks(stream, asked.data.split, asked.data.split.test).each().items():
        assert found.each()[name] == rank_metrics(each[rows])
    assert found.inductive.events > 0
    assert found.protocol.ties == "mean of the best and the worst rank"
    assert f"all {len(stream.destinations)} destinations" in found.protocol.candidates


def test_options_and_their_limits() -> None:
    stream = random_stream(5, events=80)
    model = case("recency", shape_of(stream))
    drawn = measure(context_of(model, stream, BATCH), candidates=2)
    assert drawn.protocol.candidates.startswith("2 sampled for each event")
    assert drawn.transductive.recall_at_5 == 1
    everyone = measure(context_of(model, stream, BATCH))
    assert measure(context_of(model, stream, BATCH), candidates=8) == everyone  # all there are
    with pytest.raises(ConfigError, match="Did you mean 'event'"):
        RecommendTask.of(as_of="evnt")
    with pytest.raises(ConfigError, match="Did you mean 'event'"):
        RecommendTask(RecommendOptions(as_of="evnt")).measure(context_of(model, stream, BATCH))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="candidates=0"):
        RecommendTask.of(candidates=0)
    with pytest.raises(ConfigError, match="candidates=0"):
        sample_negatives(stream, chronological_split(stream), np.arange(3), 0)


def test_lost_states_are_told() -> None:
    stream = random_stream(5, events=80)
    model = tiny("contig", shape_of(stream))
    with torch.no_grad():
        model.decoder.out.bias.fill_(torch.nan)
    with pytest.raises(RunError, match="are NaN or infinite"):
        measure(context_of(model, stream, BATCH))
    split = chronological_split(stream)
    broken = np.ones(len(split.test), np.float32)
    broken[2] = np.nan
    with pytest.raises(RunError, match=rf"scores of 1 events.*event {split.test[2]}\b"):
        recommend_report(stream, split, split.test, broken)
