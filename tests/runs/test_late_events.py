"""Older events: part of the history at their own times, and of no node state."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.commands import Answer
from support.problems import CASES
from support.trained import tiny_stream

import contig
from contig.data.events import EventStream
from contig.errors import ConfigError, DataError, RunError
from contig.live import Engine
from contig.models import NodeState
from contig.runs.run import Run
from contig.runs.trained_model import TrainedModel
from contig.training.fit import fit
from contig.training.refit import refit

FIRST, REST = 300, 360
MISSED = np.unique(np.random.default_rng(5).integers(40, 350, 23))
STATELESS = ("graphmixer", "dygformer", "recency", "popularity", "transition", "edgebank")


@pytest.fixture(scope="module")
def whole() -> EventStream:
    stream = tiny_stream(edge_features=2)
    labels, src = stream.ids.labels, stream.src.copy()
    named = labels[src].astype(np.int64)
    named[MISSED[:3]] = 9_000  # a node that only late events name
    return rows_of(stream, np.arange(len(stream)), named)


def rows_of(stream: EventStream, rows: np.ndarray, src: np.ndarray | None = None) -> EventStream:
    """Some events as a stream with nodes of its own, in this order of rows."""
    labels = stream.ids.labels
    return EventStream.from_arrays(
        (labels[stream.src] if src is None else src)[rows],
        labels[stream.dst][rows],
        stream.t[rows],
        edge_features=stream.edge_features[rows],
        bipartite=True,
        origin="rows",
    )


def without(start: int, stop: int) -> np.ndarray:
    return np.setdiff1d(np.arange(start, stop), MISSED)


def updated(run: Run, whole: EventStream) -> Run:
    """The run after the rest, in between two pieces with late events, one of which has later ones, too."""
    run.observe(rows_of(whole, np.r_[MISSED[:13], np.arange(REST, 380)]), late="accept")
    run.observe(rows_of(whole, np.arange(380, 390)))
    run.observe(rows_of(whole, MISSED[13:]), late="accept")
    run.observe(rows_of(whole, np.arange(390, 400)))
    return run


@pytest.fixture(scope="module")
def make(whole: EventStream, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    def train(model: str, **more: object) -> Run:
        settings = {**CASES[model].settings, "batch_size": 30, "epochs": 1, **more}
        out = tmp_path_factory.mktemp("late") / model
        run = fit(rows_of(whole, without(0, FIRST)), model, out=out, show=False, **settings)
        run.observe(rows_of(whole, without(FIRST, REST)))
        return run

    return train


def triples(stream: EventStream) -> list[tuple[object, ...]]:
    labels = stream.ids.labels
    columns = (labels[stream.src].tolist(), labels[stream.dst].tolist(), stream.t.tolist())
    return sorted(zip(*columns, map(tuple, stream.edge_features.tolist()), strict=True))


@pytest.mark.parametrize("model", STATELESS)
def test_without_states_they_count_as_if_known_from_the_start(
    model: str, make: Callable[..., Run], whole: EventStream
) -> None:
    run = updated(make(model), whole)
    known = run.stream
    assert triples(known) == triples(whole)
    assert (np.diff(known.t) >= 0).all()
    expected = TrainedModel(known, run.model, NodeState(run.model.blank(), known.num_nodes), run.batch_size)
    some = np.random.default_rng(1).permutation(400)[:80]
    src, dst = known.ids.labels[known.src[some]], known.ids.labels[known.dst[some][::-1]]
    for opened, times in itertools.product((run, Run.open(run.path)), (None, known.t[some] + 0.5)):
        ours, theirs = opened.score(src, dst, times), expected.score(src, dst, times)
        np.testing.assert_allclose(ours.score, theirs.score, rtol=1e-6, atol=1e-6)
        assert ours.known_events.tolist() == theirs.known_events.tolist()
    at = float(known.t[200]) + 0.5
    lists = [one.recommend(src[:9].tolist(), at, k=99, exclude_seen=True) for one in (run, expected)]
    for mine, its in zip(*lists, strict=True):
        assert {one.node for one in mine} == {one.node for one in its}
        assert (mine.last_event, mine.cold_start) == (its.last_event, its.cold_start)
    if run.model.learns:
        vectors = [one.embed(src[:9].tolist(), at, side="src") for one in (run, expected)]
        np.testing.assert_allclose(*vectors, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def pair_run(make: Callable[..., Run]) -> Run:
    """A model with states, neighbors and evidence about pairs."""
    return make("contig-pair", embedding="joined")


def copy_of(run: Run, folder: Path) -> Run:
    return Run.open(shutil.copytree(run.path, folder / "copy"))


def test_no_state_changes_and_the_run_is_saved_with_them(pair_run: Run, whole: EventStream, tmp_path) -> None:
    run, before = copy_of(pair_run, tmp_path), Run.open(pair_run.path)
    added = run.observe(rows_of(whole, MISSED), late="accept")
    assert added == len(MISSED)
    for name, rows in before.state.rows.items():
        assert run.state[name][: len(rows)].equal(rows)
    pair = whole.ids.labels[whole.src[MISSED[5]]].item(), whole.ids.labels[whole.dst[MISSED[5]]].item()
    now = [one.score(*pair).score[0] for one in (before, run, Run.open(run.path))]
    assert abs(now[0] - now[1]) > 1e-4  # the history counts
    assert now[1] == pytest.approx(now[2], abs=1e-6)
    early = whole.t[MISSED[5]].item()
    past = [one.score(*pair, early).score[0] for one in (run, Run.open(run.path))]
    assert past[0] == pytest.approx(past[1], abs=1e-6)


def test_the_pieces_do_not_matter(pair_run: Run, whole: EventStream, tmp_path: Path) -> None:
    one = copy_of(pair_run, tmp_path)
    one.observe(rows_of(whole, np.r_[MISSED, np.arange(REST, 400)]), late="accept")
    other = updated(copy_of(pair_run, tmp_path / "other"), whole)
    labels = one.stream.ids.labels
    src, dst = labels[one.stream.src[::7]], labels[one.stream.dst[::7][::-1]]
    for times in (None, one.stream.t[::7] + 0.5):
        found = [run.score(src, dst, times).score for run in (one, other, Run.open(other.path))]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], found[2], rtol=1e-6, atol=1e-6)
    assert triples(one.stream) == triples(other.stream)


def test_what_happened_later_changes_no_answer(pair_run: Run, whole: EventStream, tmp_path: Path) -> None:
    """Late events at or after a time do not count at that time, whenever they arrived."""
    at = whole.t[MISSED[11]].item()
    early = MISSED[whole.t[MISSED] < at]
    one, other = copy_of(pair_run, tmp_path), copy_of(pair_run, tmp_path / "other")
    one.observe(rows_of(whole, MISSED), late="accept")
    other.observe(rows_of(whole, early), late="accept")
    src = sorted({*whole.ids.labels[whole.src[MISSED[3:]]].tolist()})[:6]
    found = [run.recommend(src, at, k=99) for run in (one, other)]
    for mine, its in zip(*found, strict=True):
        assert {x.node: pytest.approx(x.score, abs=1e-6) for x in mine} == {x.node: x.score for x in its}
        assert mine.last_event == its.last_event < at
    np.testing.assert_allclose(*(run.embed(src, at, side="src") for run in (one, other)), atol=1e-6)


def test_everything_else_goes_on_after_late_events(pair_run: Run, whole: EventStream, tmp_path: Path) -> None:
    run = copy_of(pair_run, tmp_path)
    before = run.evaluate(show=False).result
    run.observe(rows_of(whole, MISSED), late="accept")
    assert run.evaluate(show=False).result == before
    later = rows_of(whole, np.arange(REST, 400))
    assert 0 < run.evaluate(data=later, show=False).result.transductive.ap <= 1
    refitted = refit(run, later, out=tmp_path / "refitted", show=False)
    assert triples(refitted.stream) == triples(whole)
    with Engine.open(tmp_path / "live", run.path) as engine:
        labels = run.stream.ids.labels
        src, dst = labels[run.stream.src[:40]].tolist(), labels[run.stream.dst[5:45]].tolist()
        np.testing.assert_allclose(engine.score(src, dst).score, run.score(src, dst).score, atol=1e-5)


def test_they_are_refused_by_default_and_when_they_are_known(
    pair_run: Run, whole: EventStream, tmp_path: Path
) -> None:
    run, late = copy_of(pair_run, tmp_path), rows_of(whole, MISSED[[4, 6, 5]])
    with pytest.raises(DataError, match=r"row 0 .*--late accept"):
        run.observe(late)
    assert run.observe(late, late="accept") == 3
    version = run.folder.version("observed.pt")
    known = rows_of(whole, np.r_[MISSED[7], MISSED[5]])
    for again in (late, known):
        with pytest.raises(DataError, match=r"the run already knows this event"):
            run.observe(again, late="accept")
    assert run.folder.version("observed.pt") == version
    assert run.observe(known, late="accept", repeated="accept") == 2
    with pytest.raises(ConfigError, match="value for late 'history'"):
        run.observe(late, late="history")


def test_a_run_whose_flags_do_not_fit_is_damaged(pair_run: Run, whole: EventStream, tmp_path: Path) -> None:
    run = copy_of(pair_run, tmp_path)
    run.observe(rows_of(whole, MISSED), late="accept")
    saved = run.folder.load("observed.pt")
    for late in (~saved["late"], saved["late"][1:], saved["late"].long()):
        run.folder.save("observed.pt", {**saved, "late": late})
        with pytest.raises(RunError, match=r"damaged: (t decreases|late is not a column of flags)"):
            Run.open(run.path)


def test_the_command_takes_them(pair_run: Run, tmp_path: Path) -> None:
    run, file = copy_of(pair_run, tmp_path), tmp_path / "missed.csv"
    first = run.stream.t[0].item()
    file.write_text(f"src,dst,t,f0,f1\n1,30,{first - 5},0.5,0.25\n")  # before all others
    assert "--late accept" in " ".join(Answer("update", run.path, file).refusal.split())
    assert "'sometimes'" in Answer("update", run.path, file, "--late", "sometimes").refusal
    answer = Answer("update", run.path, file, "--late", "accept")
    assert (answer.code, "observed 1 event " in answer.words) == (0, True)
    assert Run.open(run.path).stream.t[0] == first - 5


def test_a_mistyped_year_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    days = [f"2024-05-{day:02}" for day in range(1, 29)]
    log = {"src": ["a", "b"] * 14, "dst": ["x", "x", "y", "y"] * 7, "t": days}
    run = contig.fit(log, "recency", out=tmp_path / "run", show=False)
    run.observe({"src": ["a"], "dst": ["x"], "t": ["2024-04-20"]}, late="accept")
    assert not caplog.records
    run.observe({"src": ["a"], "dst": ["x"], "t": ["2014-05-03"]}, late="accept")
    (said,) = [record.getMessage() for record in caplog.records]
    assert "row 0 (counted from 0): t=2014-05-03T00:00:00Z is 9.97 years" in said
    assert "before the first event of the run, at 2024-04-20T00:00:00Z. Is the time right?" in said
