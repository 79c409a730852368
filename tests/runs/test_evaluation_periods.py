"""Evaluation on later events: as the test period of a longer stream, and by definition for unseen nodes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.trained import tiny_stream

from contig.data.events import EventStream
from contig.errors import ContigError, DataError, RunError
from contig.runs.run import Run
from contig.training.fit import fit

BATCH = 30  # of support.trained.TINY
VALIDATION, TEST, END = (
    200,
    290,
    350,
)  # where parts begin; the validation of both runs is cut into equal batches


def distinct_times() -> EventStream:
    """The tiny stream with no two events at the same time, as plain arrays."""
    tiny = tiny_stream(edge_features=3)
    return EventStream.from_arrays(
        tiny.src, tiny.dst, np.arange(len(tiny)) * 7, edge_features=tiny.edge_features, bipartite=True
    )


def split_at(*positions: int) -> tuple[int, ...]:
    return tuple(7 * position for position in positions)


@pytest.fixture(scope="module")
def stream() -> EventStream:
    return distinct_times()


@pytest.fixture(scope="module")
def earlier(trained: Callable[..., Run], stream: EventStream) -> Run:
    """A run of the events before ``END``."""
    return trained("earlier", stream[:END], split=split_at(VALIDATION, TEST), epochs=1)


def train(stream: EventStream, model: str, out: Path, **settings: Any) -> Run:
    sizes = {"batch_size": BATCH, "dim": 8, "time_dim": 6, "lr": 0.01, "epochs": 1}
    return fit(stream, model, out=out, show=False, **sizes, **settings)


@pytest.mark.parametrize("model", ["contig", "tgn", "tgat", "contig-pair"])
def test_later_events_are_measured_as_the_test_of_a_longer_run(
    model: str, stream: EventStream, tmp_path: Path
) -> None:
    """Two with state and two without: the same weights, and the same batches up to the last event."""
    short = train(stream[:END], model, tmp_path / "short", split=split_at(VALIDATION, TEST))
    longer = train(stream, model, tmp_path / "long", split=split_at(VALIDATION, END))
    assert short.stream.num_nodes == longer.stream.num_nodes  # so that both draw the same negatives
    expected = longer.evaluate_each(show=False)
    found = short.evaluate_each(data=stream[END:], show=False)
    for selection, metrics in expected.evaluation.result.each().items():
        other = getattr(found.evaluation.result, selection)
        assert other.events == metrics.events
        for name in ("ap", "auc", "ap_overall", "auc_overall"):
            assert getattr(other, name) == pytest.approx(getattr(metrics, name), abs=1e-6, nan_ok=True)
    assert found.predictions.keys() == {"score", "probability", "negative_score"}
    for name, column in expected.predictions.items():
        np.testing.assert_allclose(found.predictions[name], column, rtol=1e-4, atol=1e-5)
    assert expected.evaluation.result.transductive == longer.metrics.transductive


def test_observed_events_come_before_later_ones(earlier: Run, stream: EventStream, tmp_path: Path) -> None:
    """Events that the run has observed, and then others: as all of them at once."""
    copy = tmp_path / "run"
    shutil.copytree(earlier.path, copy)
    run = Run.open(copy)
    middle = END + BATCH
    expected = run.evaluate_each("recommend", data=stream[END:], batch_size=BATCH, show=False)
    run.observe(stream[END:middle])
    found = run.evaluate_each("recommend", data=stream[middle:], batch_size=BATCH, show=False)
    np.testing.assert_array_equal(found.predictions["rank"], expected.predictions["rank"][BATCH:])
    assert found.evaluation.facts.data.events == len(stream) - middle


def test_the_run_does_not_change(earlier: Run, stream: EventStream) -> None:
    files = {path: path.read_bytes() for path in earlier.path.rglob("*") if path.is_file()}
    before, result = earlier.embed(), earlier.evaluate(show=False)
    earlier.evaluate(data=stream[END:], show=False)
    np.testing.assert_array_equal(earlier.embed(), before)
    assert earlier.evaluate(show=False) == result
    assert {path: path.read_bytes() for path in earlier.path.rglob("*") if path.is_file()} == files


def test_unseen_nodes_in_the_users_own_ids(tmp_path: Path) -> None:
    """EdgeBank by its definition: whether the pair occurred before, in whichever events."""
    rng = np.random.default_rng(3)
    pairs = [(f"u{rng.integers(9)}", f"i{rng.integers(5)}") for _ in range(150)]
    later = [(f"u{rng.integers(4, 14)}", f"i{rng.integers(2, 8)}") for _ in range(40)]
    run = fit(table_of(pairs, 0), "edgebank", out=tmp_path / "run", show=False)
    rows = table_of(later, 150).take([*range(39, -1, -1)])  # out of order
    measured = run.evaluate_each(data=rows, show=False)
    found = measured.table().to_pylist()
    known = {name for pair in pairs[:105] for name in pair}
    seen = set(pairs)
    for row, (src, dst), t in zip(found, later, range(150, 190), strict=True):
        assert (row["src"], row["dst"], row["t"]) == (src, dst, t)
        assert row["score"] == float((src, dst) in seen)
        assert row["new_node"] == (src not in known or dst not in known)
        seen.add((src, dst))
    facts = measured.evaluation.facts.data
    assert (facts.origin, facts.events) == ("a table in memory", 40)
    assert facts.nodes == len({name for pair in later for name in pair})
    assert measured.evaluation.result.protocol.split == "a table in memory, after the 150 events of the run"


def table_of(pairs: list[tuple[str, str]], start: int) -> Any:
    src, dst = zip(*pairs, strict=True)
    return pa.table({"src": src, "dst": dst, "t": [start + n for n in range(len(pairs))]})


def test_a_final_run_is_measured_on_later_events(stream: EventStream, tmp_path: Path) -> None:
    run = train(stream[:END], "contig", tmp_path / "run", final=True)
    with pytest.raises(RunError, match="Evaluate it on later events"):
        run.evaluate(show=False)
    found = run.evaluate(data=stream[END:], show=False).result
    assert found.transductive.events == len(stream) - END
    heuristics = run.evaluate_heuristics(data=stream[END:], names=["recency"], show=False)
    assert heuristics["recency"].result.transductive.events == len(stream) - END


def test_known_events_are_skipped_on_request(earlier: Run, stream: EventStream) -> None:
    found = earlier.evaluate_each(data=stream[END - 25 :], repeated="skip", show=False)
    expected = earlier.evaluate_each(data=stream[END:], show=False)
    assert found.table().equals(expected.table())
    with pytest.raises(DataError, match="none is new"):
        earlier.evaluate(data=stream[:END], repeated="skip", show=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stream: stream[:9], "and the other 8. To skip known events"),
        (lambda stream: stream[:0], "there are no events"),
        (lambda stream: stream[END - 9 : END], "Only events after those of the run can be evaluated"),
        (lambda stream: EventStream.from_arrays(stream.src, stream.dst, stream.t + 9999), "features"),
        (lambda stream: EventStream.from_arrays(["a"], ["b"], [9999]), "whole numbers"),
        (lambda stream: "no-such-file.csv", "no-such-file.csv"),
        (lambda stream: 7, "Cannot read events from an object of type int"),
    ],
    ids=["early", "empty", "known", "features", "ids", "file", "type"],
)
def test_bad_data(
    change: Callable[[EventStream], Any], message: str, earlier: Run, stream: EventStream
) -> None:
    with pytest.raises(ContigError) as raised:
        earlier.evaluate(data=change(stream), show=False)
    assert message in str(raised.value)
