"""Events as clients send them: what is accepted, and what is refused as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.live import open_engine, state_of
from support.trained import TINY, bit_identical, fast_training

from contig.data.clock import TimeSpan
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, DataError, UnknownNodeError
from contig.live import Events, FoundNode, Settings
from contig.live.events import StreamTraits, checked
from contig.runs.run import Run
from contig.training.fit import fit

YEAR_2024 = 1_704_067_200
SECONDS = StreamTraits(True, TimeSpan(YEAR_2024, YEAR_2024 + 9000, 9000, "int64", "seconds"), 0)
MILLIS = StreamTraits(False, TimeSpan(1000 * YEAR_2024, 1001 * YEAR_2024, 1, "int64", "milliseconds"), 0)


def test_a_batch_is_sorted_by_time_and_remembers_its_rows() -> None:
    found = checked(Events([1, 2, 3], [4, 5, 6], [30, 10, 20]), SECONDS, 10)
    assert (found.src, found.dst, found.t.tolist()) == ([2, 3, 1], [5, 6, 4], [10, 20, 30])
    assert found.row.tolist() == [1, 2, 0]


def test_dates_are_converted_to_the_unit_of_the_run() -> None:
    dates = ["2024-01-01T00:00:02Z", "2024-01-01T00:00:03Z"]
    assert checked(Events([1, 1], [2, 2], dates), SECONDS, 10).t.tolist() == [YEAR_2024 + 2, YEAR_2024 + 3]
    found = checked(Events(["a"], ["b"], [datetime(2024, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)]), MILLIS, 10)
    assert found.t.tolist() == [1000 * YEAR_2024 + 2500]
    assert found.t.dtype == np.int64


def test_dates_are_also_read_in_the_format_of_the_run() -> None:
    traits = replace(SECONDS, read_as=ReadOptions(date_format="%d.%m.%Y %H:%M"))
    found = checked(Events([1, 1], [2, 2], ["01.01.2024 00:01", "01.01.2024 00:02"]), traits, 10)
    assert found.t.tolist() == [YEAR_2024 + 60, YEAR_2024 + 120]
    for date in ("2024-01-01T00:01Z", YEAR_2024 + 60):
        assert checked(Events([1], [2], [date]), traits, 10).t.tolist() == [YEAR_2024 + 60]
    with pytest.raises(DataError, match=r"row 0 .*'01/13/2024' does not match date_format='%d"):
        checked(Events([1], [2], ["01/13/2024"]), traits, 10)
    with pytest.raises(DataError, match="use a finite number or a date in ISO 8601") as refused:
        checked(Events([1], [2], ["13.01.2024 08:05"]), SECONDS, 10)
    assert "date_format" not in str(refused.value)  # which a client cannot set


def test_numbers_become_text_where_the_ids_of_the_run_are_text() -> None:
    assert checked(Events([7], ["x"], [1]), MILLIS, 10).src == ["7"]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (Events(["a"], [1], [2]), "whole numbers, but column 'src' holds text"),
        (Events([1], [2], [2.5]), "not a whole number"),
        (Events([1], [2], [float("nan")]), "not a time"),
        (Events([1], [2], [2**62]), "looks like nanoseconds"),
        (Events([1], [2], [-(2**63)]), "is the unit right"),
        (Events([1, 2], [2], [3]), "differ in length"),
        (Events([], [], []), "no events"),
        (Events([1] * 11, [2] * 11, [3] * 11), "too many for one batch"),
        (Events([None], [2], [3]), "missing"),
        (pa.table({"src": [1], "t": [2]}), "no column 'dst'"),
        ("events.csv", "Expected Events or an Arrow table"),
    ],
)
def test_invalid_events_are_refused(events: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        checked(events, SECONDS, 10)


def test_times_in_another_unit_are_refused() -> None:
    with pytest.raises(DataError, match=r"row 1 .*: 1704070000000 looks like milliseconds since 1970"):
        checked(Events([1, 1], [2, 3], [YEAR_2024 + 9001, 1_704_070_000_000]), SECONDS, 10)
    with pytest.raises(DataError, match=r"looks like seconds since 1970, .* Multiply by 1,000"):
        checked(Events(["a"], ["b"], [YEAR_2024]), MILLIS, 10)


def test_events_may_go_on_for_longer_than_the_training_in_one_go(
    live_run: Callable[[str], Path], tmp_path: Path
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        traits = engine._traits
        engine._traits = replace(traits, time=TimeSpan(0, 20_000, 20_000, "int64", None))
        engine._graph.history.events.columns["t"][-1] = 20_000
        with pytest.raises(DataError, match="Divided by 1,000 it would fit"):
            engine.observe(Events([1], [2], [20_000_001]))
        for t in (1_000_000, 15_000_000, 20_000_001):
            assert engine.observe(Events([1], [2], [t])).accepted == 1


def test_dates_are_refused_where_the_times_of_the_run_are_not_dates() -> None:
    traits = StreamTraits(True, TimeSpan(0, 100, 100, "int64", None), 0)
    with pytest.raises(DataError, match="do not look like dates"):
        checked(Events([1], [2], ["2024-01-01"]), traits, 10)


@pytest.fixture(scope="module")
def feature_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose events have two features."""
    rng = np.random.default_rng(4)
    out = tmp_path_factory.mktemp("features") / "run"
    stream = EventStream.from_arrays(
        rng.integers(0, 9, 200),
        rng.integers(20, 26, 200),
        np.sort(rng.uniform(0, 50, 200)),
        edge_features=rng.normal(size=(200, 2)),
    )
    with fast_training():
        fit(stream, out=out, show=False, epochs=1, **TINY)
    return out


def test_features_reach_the_history_and_survive(feature_run: Path, tmp_path: Path) -> None:
    with open_engine(tmp_path, feature_run) as engine:
        with pytest.raises(DataError, match="have 0 features, those of the run 2"):
            engine.observe(Events([1], [21], [60.0]))
        table = pa.table(
            {"src": [1, 2], "dst": [21, 77], "t": [60.5, 61.0], "features": [[1.0, 2.0], [3.0, 4.5]]}
        )
        assert engine.observe(table).accepted == 2
        features = engine._graph.history.events["features"][-2:].tolist()
        state = state_of(engine)
    assert features == [[1.0, 2.0], [3.0, 4.5]]
    with open_engine(tmp_path) as again:
        assert again._graph.history.events["features"][-2:].tolist() == features
        assert bit_identical(state_of(again), state)


def test_feature_columns_are_encoded_as_in_training(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "user": rng.integers(0, 9, 120),
            "item": rng.integers(20, 26, 120),
            "t": np.arange(120),
            "price": rng.normal(50, 9, 120),
            "kind": rng.choice(["gift", "own"], 120),
        }
    )
    with fast_training():
        run = fit(table, out=tmp_path / "run", show=False, epochs=1, features=["price", "kind"], **TINY)
    new = pa.table(
        {"src": [1, 2], "dst": [21, 22], "t": [130, 131], "price": [40.0, 61.0], "kind": ["own", "gift"]}
    )
    offline = Run.open(run.path, "cpu")
    renamed = new.rename_columns(["user", "item", "t", "price", "kind"])
    offline.observe(renamed)
    with open_engine(tmp_path / "live", run.path) as engine:
        engine.observe(new)
        found = engine._graph.history.events["features"][-2:].numpy()
    np.testing.assert_allclose(found, offline.stream.edge_features[-2:], rtol=1e-6)


# -- ids and queries ----------------------------------------------------------------------------------------


def test_text_ids_on_both_sides_need_a_side(text_run: Path, tmp_path: Path) -> None:
    with open_engine(tmp_path, text_run) as engine:
        with pytest.raises(DataError, match="both a source and a destination"):
            engine.embed(["n12"])
        assert engine.embed(["n12"], side="dst").vectors.shape == (1, TINY["dim"])
        assert [node.id for node in engine.find("n1", 3)] == ["n1", "n10", "n10"]
        with pytest.raises(UnknownNodeError, match="'zoe' is not known"):
            engine.embed(["zoe"])
        engine.observe(Events(["zoe"], ["n12"], [200.25]))
        assert engine.find("zo") == [FoundNode("zoe", "src")]
        assert len(engine.embed(["zoe"])) == 1


def test_recommendations_are_those_of_the_run(live_run: Callable[[str], Path], tmp_path: Path) -> None:
    run = Run.open(live_run("contig"), "cpu")
    names = run.stream.ids.labels[[0, 3]].tolist()
    with open_engine(tmp_path, live_run("contig")) as engine:
        for at in (None, 70):
            for name in names:
                for options in ({}, {"exclude_seen": True}):
                    ours = engine.recommend(name, at, 4, **options)
                    theirs = run.recommend(name, at, 4, **options)
                    assert [one.node for one in ours] == [one.node for one in theirs]
                    np.testing.assert_allclose([x.score for x in ours], [x.score for x in theirs], rtol=1e-5)
                    assert (ours.at, ours.last_event) == (theirs.at, theirs.last_event)
        cold, offline = engine.recommend(4444, 70, 3), run.recommend(4444, 70, 3)
        assert cold.cold_start
        assert list(cold) == list(offline)


def test_recent_events_are_the_newest_first(live_run: Callable[[str], Path], tmp_path: Path) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        engine.observe(Events([7, 7, 8], [27, 28, 27], [900, 901, 902]))
        found = engine.recent_events(7, 2, side="src")
        assert [(event.src, event.dst, event.t) for event in found] == [(7, 28, 901), (7, 27, 900)]


def test_settings_are_checked() -> None:
    assert Settings.of(late="accept", keep_snapshots="3").keep_snapshots == 3
    with pytest.raises(ConfigError, match="late"):
        Settings.of(late="ignore")
    with pytest.raises(ConfigError, match="keep_snapshots"):
        Settings(keep_snapshots=0).checked()
