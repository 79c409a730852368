"""New events: a run that observes them answers as one that knew them from the start."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.problems import CASES
from support.trained import text_id_stream, tiny_stream

from contig.data.events import EventStream
from contig.data.readers import read_pairs
from contig.errors import DataError, RunError
from contig.history import History
from contig.models import MODELS, NodeState
from contig.runs.arrivals import Arrivals
from contig.runs.folder import RunFolder
from contig.runs.observed import GrowingStream
from contig.runs.run import Run
from contig.runs.trained_model import TrainedModel
from contig.streaming.walker import replay
from contig.training.fit import fit

SMALL = {"dim": 8, "time_dim": 6}
TEXT = ("contig", "tgn", "transition")  # also with text ids and real-valued times
FIXED = ("gae", "vgae", "ctdne")  # with text ids alone: they need validation events of known nodes
STREAMS: dict[str, Callable[[], EventStream]] = {
    "ties": lambda: tiny_stream(edge_features=3),
    "text": text_id_stream,
}


def part(stream: EventStream, start: int, stop: int) -> EventStream:
    """Some events as a stream of their own, with nodes of their own."""
    cut, labels = stream[start:stop], stream.ids.labels
    return EventStream.from_arrays(
        labels[cut.src],
        labels[cut.dst],
        cut.t,
        edge_features=cut.edge_features,
        bipartite=stream.bipartite,
        origin="part",
    )


def table(stream: EventStream) -> pa.Table:
    labels = stream.ids.labels
    columns = {"src": labels[stream.src], "dst": labels[stream.dst], "t": stream.t}
    rows = {name: pa.array(column) for name, column in columns.items()}
    if stream.edge_features is not None:
        rows["features"] = pa.array(stream.edge_features.tolist())
    return pa.table(rows)


def with_late_nodes(stream: EventStream) -> EventStream:
    """The stream with a new source and a new destination in its last tenth."""
    labels, late = stream.ids.labels, len(stream) * 9 // 10
    src, dst = labels[stream.src].astype(object), labels[stream.dst].astype(object)
    new = ("n50", "n51") if labels.dtype.kind == "U" else (5000, 5001)
    src[late::3], dst[late + 1 :: 4] = new
    kind = labels.dtype if labels.dtype.kind == "i" else str
    features = stream.edge_features
    return EventStream.from_arrays(
        src.astype(kind), dst.astype(kind), stream.t, edge_features=features, bipartite=True
    )


def from_the_start(run: Run, stream: EventStream) -> TrainedModel:
    """The same weights after the whole stream, which is numbered in its own way."""
    state = NodeState(run.model.blank(), stream.num_nodes)
    replay(run.model, state, History.from_stream(stream), np.arange(len(stream)), run.batch_size)
    return TrainedModel(stream, run.model, state, run.batch_size)


def assert_same_answers(one: TrainedModel, other: TrainedModel, stream: EventStream) -> None:
    labels = stream.ids.labels
    some = np.random.default_rng(2).permutation(len(stream))[:90]
    src, dst, t = labels[stream.src[some]], labels[stream.dst[some][::-1]], stream.t[some].astype(float)
    for times in (None, t, float(stream.t[-1]) + 9.5):
        ours, theirs = one.score(src, dst, times), other.score(src, dst, times)
        np.testing.assert_allclose(ours.score, theirs.score, rtol=1e-6, atol=1e-6)
        assert ours.known_events.tolist() == theirs.known_events.tolist()
    sources = sorted(set(src.tolist()))[:12]
    for mine, its in zip(one.recommend(sources, k=99), other.recommend(sources, k=99), strict=True):
        assert {a.node: pytest.approx(a.score, abs=1e-6) for a in mine} == {b.node: b.score for b in its}
        assert [a.score for a in mine] == pytest.approx([b.score for b in its], abs=2e-5)
        assert (mine.last_event, mine.cold_start) == (its.last_event, its.cold_start)
    if one.model.learns:
        for at in (None, float(t[0])):
            vectors = one.embed(sources, at, side="src"), other.embed(sources, at, side="src")
            np.testing.assert_allclose(*vectors, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "kind"),
    [*((name, "text" if name in FIXED else "ties") for name in MODELS), *((name, "text") for name in TEXT)],
)
def test_observed_events_count_as_if_known_from_the_start(model: str, kind: str, tmp_path: Path) -> None:
    """The last fifth of the events, with new nodes, in pieces of random sizes."""
    stream = with_late_nodes(STREAMS[kind]())
    first = len(stream) * 8 // 10
    options = {**CASES[model].settings, "batch_size": 30, "epochs": 1}
    run = fit(part(stream, 0, first), model, out=tmp_path / "run", show=False, **options)
    assert run.stream.num_nodes < stream.num_nodes
    random = np.random.default_rng(len(model))
    cuts = [first, *sorted({*random.integers(first + 1, len(stream), 4).tolist()}), len(stream)]
    for start, stop in itertools.pairwise(cuts):
        piece = part(stream, start, stop)
        assert run.observe(piece if stop % 2 else table(piece)) == stop - start
        with pytest.raises(DataError, match=r"before the last event|already knows this event"):
            run.observe(piece)  # a second time
    known, labels = run.stream, stream.ids.labels
    for ours, theirs in ((known.src, stream.src), (known.dst, stream.dst)):
        assert known.ids.labels[ours].tolist() == labels[theirs].tolist()
    # Some models learn a vector per node, and need the numbers that nodes had in training.
    expected = from_the_start(run, stream if model in TEXT else known)
    assert_same_answers(run, expected, stream)
    assert_same_answers(Run.open(tmp_path / "run"), expected, stream)


@pytest.fixture
def small_run(tmp_path: Path) -> Run:
    stream = text_id_stream()
    return fit(part(stream, 0, 200), out=tmp_path / "run", show=False, epochs=1, batch_size=30, **SMALL)


def test_the_evaluation_stays_that_of_the_training(small_run: Run) -> None:
    before = small_run.evaluate(show=False).result
    small_run.observe(part(text_id_stream(), 200, 260))
    assert small_run.evaluate(show=False).result == before
    assert Run.open(small_run.path).evaluate(show=False).result == before


def test_refused_events_change_nothing(small_run: Run) -> None:
    whole = text_id_stream()
    files = {path: path.read_bytes() for path in small_run.path.rglob("*") if path.is_file()}
    last = float(small_run.stream.t[-1])
    rows = {"src": ["n1", "n2"], "dst": ["n11", "n12"], "t": [last + 1, last - 1]}
    for events, message in (
        (pa.table(rows), r"row 1 \(counted from 0\): t=.* is before the last event that the run knows"),
        (part(whole, 150, 210), "row 0 .* 50 of 60 events are known"),
        (part(whole, 199, 200), "already knows this event"),
        (
            pa.table({"src": ["n1"], "item": ["n11"]}),
            "events need three columns.*found only 'src' and 'item'",
        ),
    ):
        with pytest.raises(DataError, match=message):
            small_run.observe(events)
    assert {path: path.read_bytes() for path in small_run.path.rglob("*") if path.is_file()} == files
    assert len(small_run.stream) == 200


def test_a_failed_save_leaves_the_old_run(small_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text_id_stream()
    small_run.observe(part(whole, 200, 220))
    answer = small_run.score("n3", "n12").score

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", fail)
        with pytest.raises(KeyboardInterrupt):
            small_run.observe(part(whole, 220, 240))
    for run in (small_run, Run.open(small_run.path)):
        assert len(run.stream) == 220
        assert run.score("n3", "n12").score == pytest.approx(answer)


def test_two_writers_do_not_overwrite_each_other(small_run: Run) -> None:
    other, whole = Run.open(small_run.path), text_id_stream()
    small_run.observe(part(whole, 200, 220))
    with pytest.raises(RunError, match="updated by another process; open the run again"):
        other.observe(part(whole, 200, 230))


def test_a_state_of_old_weights_is_not_saved_with_new_ones(small_run: Run) -> None:
    """Another process trains the run further between its opening and its update."""
    folder = small_run.folder
    further = folder.load("serving.pt")
    for weight in further["weights"].values():
        weight.mul_(1.5)
    folder.save("serving.pt", further)
    with pytest.raises(RunError, match="trained further by another process; open the run again"):
        small_run.observe(part(text_id_stream(), 200, 220))
    assert not folder.has("observed.pt")
    assert Run.open(small_run.path).observe(part(text_id_stream(), 200, 220)) == 20


def test_what_was_read_is_the_version_that_is_named(small_run: Run) -> None:
    """A file that is replaced while it is read is read again."""
    folder, reads = small_run.folder, []

    def read() -> int:
        if not reads:
            folder.save("serving.pt", {**folder.load("serving.pt"), "new": 1})
        reads.append(folder.version("serving.pt"))
        return len(reads)

    assert folder.read_version("serving.pt", read) == (folder.version("serving.pt"), 2)


def test_a_run_in_training_observes_nothing(small_run: Run) -> None:
    (small_run.path / "metrics.json").unlink()
    with pytest.raises(RunError, match="was not finished"):
        small_run.observe(part(text_id_stream(), 200, 220))
    with small_run.folder.locked(), pytest.raises(RunError, match="still in training; it can observe"):
        small_run.observe(part(text_id_stream(), 200, 220))


def test_times_that_would_overflow_are_refused() -> None:
    """Training refuses them too; one event in a wrong unit would close the run to all later ones."""
    known = EventStream.from_arrays([0, 1], [2, 3], [5, 6])
    new = EventStream.from_arrays([0, 1], [2, 3], [7, 2**62])
    columns, place = read_pairs(new, None, with_features=True)
    with pytest.raises(
        DataError, match=r"t=4611686018427387904: times from .* may overflow; is the unit right"
    ):
        GrowingStream(Arrivals(known), History.from_stream(known)).check(columns, place)
    new = EventStream.from_arrays([0, 1], [2, 3], [-(2**63), 7])  # its absolute value is negative
    columns, place = read_pairs(new, None, with_features=True)
    with pytest.raises(DataError, match=r"t=-9223372036854775808: times from .* may overflow"):
        GrowingStream(Arrivals(known), History.from_stream(known)).check(columns, place, late="accept")
