"""Recommendations of a trained model."""

from __future__ import annotations

import itertools
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, text_id_stream

from contig.data.events import EventStream
from contig.data.ids import Side
from contig.errors import ConfigError, DataError
from contig.models import NodeState
from contig.runs.answers import Recommendation, RecommendationList, mean_overlap
from contig.runs.recommending import best
from contig.runs.run import Run
from contig.streaming.walker import replay
from contig.tasks.ranking import best_first
from contig.training.fit import fit


def scored(run: Run, source: int, when: float) -> list[tuple[float, int]]:
    """Score every destination met before a time one by one; best first, ties by id."""
    state = NodeState(run.model.blank(), run.stream.num_nodes)
    past = np.flatnonzero(run.stream.t < when)
    replay(run.model, state, run.history, past, run.config.train.batch_size)
    t = torch.tensor([when], dtype=torch.float64)
    rows = []
    for other in sorted(set(run.stream.dst[past].tolist()) - {source}):
        with torch.no_grad():
            pair = torch.tensor([source]), torch.tensor([[other]])
            logit = run.model.link(state, run.history, *pair, t, t[0])
        rows.append((-logit.item(), other))
    return [(-score, other) for score, other in sorted(rows)]


@pytest.mark.parametrize("wrong", ["no", 0, "False"])
def test_a_flag_is_true_or_false(wrong: Any, text_id_run: Run) -> None:
    with pytest.raises(ConfigError, match=f"exclude_seen={wrong!r}: expected True, False or None"):
        text_id_run.recommend("n1", exclude_seen=wrong)


@pytest.mark.parametrize("when", [None, 50.0, 200])
def test_recommendations_against_pairs_scored_one_by_one(
    when: float | None, run: Run, text_id_run: Run
) -> None:
    for of, name in ((run, run.stream.ids.labels[2].item()), (text_id_run, "n12")):
        time = when if when is not None else float(of.stream.t[-1]) + (1 if of is run else 1e-9)
        expected = scored(of, of.stream.ids.find(name, "src"), time)
        got = of.recommend(name, at=time, k=5)
        assert len(got) == 5
        # Two candidates with almost equal scores may change places.
        by_name = {of.stream.ids.labels[other]: score for score, other in expected}
        assert [one.score for one in got] == pytest.approx([by_name[one.node] for one in got], rel=1e-4)
        assert [one.score for one in got] == pytest.approx([s for s, _ in expected[:5]], rel=1e-4, abs=1e-4)
        assert [one.probability for one in got] == pytest.approx([1 / (1 + exp(-one.score)) for one in got])


def test_at_most_all_destinations_are_recommended(text_id_run: Run) -> None:
    assert len(text_id_run.recommend("n3", k=999)) == len(text_id_run.stream.destinations)
    with pytest.raises(ConfigError, match="k=0"):
        text_id_run.recommend("n3", k=0)


def test_destinations_are_recommended_from_their_first_event_on(tmp_path: Path) -> None:
    src, dst = np.array([0, 1, 2] * 40), np.repeat([10, 11, 12, 13], 30)
    stream = EventStream.from_arrays(src, dst, np.arange(120), bipartite=True)
    run = fit(stream, out=tmp_path / "run", epochs=1, show=False, holdout="paper", **TINY)
    assert run.recommend(0, at=0) == []
    assert [one.node for one in run.recommend(0, at=30)] == [10]
    assert sorted(one.node for one in run.recommend(0, at=31)) == [10, 11]
    assert sorted(one.node for one in run.recommend(0)) == [10, 11, 12, 13]


def test_a_node_is_not_recommended_to_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stream = EventStream.from_arrays(rng.integers(0, 9, 200), rng.integers(0, 9, 200), np.arange(200))
    run = fit(stream, out=tmp_path / "run", epochs=1, show=False, **TINY)
    assert sorted(one.node for one in run.recommend(4, k=99)) == [0, 1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("at", [None, 50.0])
def test_many_lists_are_those_of_single_nodes(at: float | None, text_id_run: Run) -> None:
    nodes = ["n3", "n99", "n12", "n0", "n3"]
    for options in (
        {},
        {"exclude_seen": True},
        {"candidates": ["n16", "n10", "n13"]},
        {"exclude_seen": True, "candidates": ["n16", "n10", "n13"], "k": 2},
    ):
        together = text_id_run.recommend(nodes, at, **options)
        assert [one.node for one in together] == nodes
        for many in together:
            single = text_id_run.recommend(many.node, at, **options)
            assert [one.node for one in many] == [one.node for one in single]
            assert [one.score for one in many] == pytest.approx([one.score for one in single], rel=1e-4)


def test_what_was_met_before_is_left_out(text_id_run: Run) -> None:
    stream, when = text_id_run.stream, 50.0
    labels = stream.ids.labels.tolist()
    events = zip(stream.src, stream.dst, stream.t, strict=True)
    past = [(labels[s], labels[d]) for s, d, t in events if t < when]
    for node in ("n3", "n12"):
        met = {d for s, d in past if s == node}
        everything = [one.node for one in text_id_run.recommend(node, when, 99)]
        new = [one.node for one in text_id_run.recommend(node, when, 99, exclude_seen=True)]
        assert met
        assert new == [one for one in everything if one not in met]


def test_sources_are_recommended_to_destinations(text_id_run: Run) -> None:
    found = text_id_run.recommend("n12", side="dst", k=99)
    sources = sorted({str(text_id_run.stream.ids.labels[s]) for s in text_id_run.stream.src})
    expected = dict(zip(sources, text_id_run.score(sources, "n12").score, strict=True))
    assert sorted(str(one.node) for one in found) == sources
    assert [one.score for one in found] == pytest.approx([expected[str(one.node)] for one in found], rel=1e-4)
    assert [one.score for one in found] == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-4)


def test_a_node_without_events_is_marked_as_a_cold_start(tmp_path: Path) -> None:
    """It does not matter whether it has events later."""
    src, dst = np.array([0, 1] * 30 + [2] * 60), np.array([11, 10, 11, 12, 11] * 24)
    stream = EventStream.from_arrays(src, dst, np.arange(120), bipartite=True)
    run = fit(stream, out=tmp_path / "run", epochs=1, show=False, holdout="paper", **TINY)
    for node in (2, 99):
        found = run.recommend(node, at=20, k=2)
        assert found == [(11, 12.0, None), (10, 4.0, None)]
        assert (found.node, found.at, found.last_event, found.cold_start) == (node, 20, 19, True)
        assert repr(found) == f"RecommendationList({node} at 20, cold start: 11 12, 10 4)"
    assert not run.recommend(0, at=20).cold_start
    assert "cold" not in repr(run.recommend(0, at=20))
    assert run.recommend(0, at=0).last_event is None
    assert repr(run.recommend(0, at=0)) == "RecommendationList(0 at 0, cold start: nothing)"


def test_many_lists_become_a_frame(run: Run) -> None:
    pytest.importorskip("pandas")
    found = run.recommend([3, 1], k=4)
    frame = found.to_frame()
    assert frame["node"].tolist() == [3] * 4 + [1] * 4
    assert frame["recommended"].tolist() == [one.node for of in found for one in of]


def test_candidates_are_a_list_of_known_ids(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"candidates='ab': pass a list of ids, such as \['ab'\]"):
        run.recommend(3, candidates="ab")
    with pytest.raises(ConfigError, match=r"candidates=5: pass a list"):
        run.recommend(3, candidates=5)  # type: ignore[call-overload]
    with pytest.raises(DataError, match=r"candidates \(--candidates\): Node 987654 is not in this stream"):
        run.recommend(3, candidates=[987654, 987655])
    with pytest.raises(DataError, match=r"candidates \(--candidates\): True is not a node id"):
        run.recommend(3, candidates=[7, True])
    assert run.recommend(3, candidates=[]) == []


@pytest.mark.parametrize(("side", "kind"), [("src", "destination"), ("dst", "source")])
def test_unknown_candidates_are_left_out_with_a_warning(
    side: Side, kind: str, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    own, other = (run.stream.src, run.stream.dst) if side == "src" else (run.stream.dst, run.stream.src)
    node, names = run.stream.ids.labels[own[0]].item(), run.stream.ids.labels[np.unique(other)[:3]].tolist()
    expected = run.recommend(node, candidates=names, side=side)
    assert not caplog.messages
    mixed = [names[0], 987654, *names[1:], 987655]
    assert run.recommend(node, candidates=mixed, side=side) == expected
    warning = f"left out 2 of 5 that no event has as a {kind}, such as 987654."
    assert caplog.messages == [f"candidates (--candidates): {warning}"]


def test_a_list_becomes_a_frame(run: Run) -> None:
    pytest.importorskip("pandas")
    found = run.recommend(3, k=5)
    frame = found.to_frame()
    columns = [frame[name].tolist() for name in ("recommended", "score", "probability")]
    assert list(zip(*columns, strict=True)) == [tuple(one) for one in found]
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5]
    assert (frame[["node", "at", "last_event", "cold_start"]].iloc[4]).tolist() == [
        *(3, found.at, found.last_event, False)
    ]
    first = ", ".join(f"{one.node} {one.score:.4g}" for one in found[:3])
    assert repr(found) == f"RecommendationList(3 at {found.at}: {first}, ... 2 more)"


@pytest.mark.parametrize("resolution", [0.0, 1e-5, 0.3])
def test_the_best_are_the_first_of_all_in_order(resolution: float) -> None:
    scores = torch.from_numpy(np.random.default_rng(1).integers(-9, 9, 200) / 3)
    for k in (1, 7, 199, 200, 999):
        places, values = best(scores, k, resolution)
        assert places.tolist() == best_first(scores, resolution)[:k].tolist()
        assert torch.equal(values, scores[places])


def test_a_heuristic_recommends_by_its_score(tmp_path: Path) -> None:
    stream = text_id_stream()
    run = fit(stream, "edgebank", out=tmp_path / "run", show=False)
    when = stream.t[90].item()
    labels = stream.ids.labels
    me = stream.ids.find("n4", "src")
    met = {
        str(labels[d])
        for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True)
        if s == me and t < when
    }
    got = run.recommend("n4", at=when, k=99)
    assert 0 < len(met) < len(got)
    assert {one.node for one in got if one.score == 1} == met
    assert {one.probability for one in got} == {None}
    assert [one.node for one in got] == sorted(met) + sorted(
        {str(x) for x in labels[stream[:90].destinations]} - met
    )
    with pytest.raises(ConfigError, match="no embeddings"):
        run.embed()


def test_an_empty_list_of_a_heuristic_has_the_scores_of_a_heuristic(tmp_path: Path) -> None:
    table = {"user": ["a", "b"] * 20, "item": ["x", "x", "y", "y"] * 10, "t": list(range(40))}
    run = fit(table, "popularity", out=tmp_path / "run", show=False)
    (found,) = run.recommend(["a"], exclude_seen=True)
    assert (list(found), found.cold_start, found.score_kind) == ([], False, "heuristic")


def test_the_mean_overlap_counts_every_two_lists() -> None:
    nodes = [[4, 1, 7], [7, 4], [], [9, 1, 4]]
    lists = [
        RecommendationList(
            [Recommendation(node, 0.5, None) for node in one],
            node=0,
            at=3,
            last_event=2,
            cold_start=False,
            learns=False,
        )
        for one in nodes
    ]
    pairs = [len(set(a) & set(b)) for a, b in itertools.combinations(nodes, 2)]
    assert mean_overlap(lists) == pytest.approx(sum(pairs) / len(pairs))
    assert mean_overlap(lists[:1]) == 0.0
