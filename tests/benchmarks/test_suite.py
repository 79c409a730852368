"""Measurements by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contig.benchmarks import environment, suite
from contig.benchmarks.bench import Bench
from contig.benchmarks.measurement import Measurement
from contig.cli.bench import MEASUREMENTS
from contig.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def test_measurements_are_selected_by_name() -> None:
    assert suite.select("ode, contig-step") == ["contig-step", "ode"]
    assert suite.select(None) == list(suite.MEASUREMENTS)
    with pytest.raises(ConfigError, match=r"tgn-stap.*tgn-step"):
        suite.select("tgn-stap")
    with pytest.raises(ConfigError, match="names no measurement"):
        suite.select(" ,")


def test_the_help_lists_every_measurement() -> None:
    assert MEASUREMENTS.split(", ") == list(suite.MEASUREMENTS)


def test_a_missing_package_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    for name in ("tgn-step", "lookup", "ode", "read"):
        (row,) = suite.measure(bench, name)
        assert (row.name, row.what) == (name, "not measured")
        assert "pip install 'contig[bench]'" in row.note
        assert (row.ours, row.ratio) == (None, None)


def test_a_measurement_that_fails_leaves_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bench: Bench) -> Iterator[Measurement]:
        yield Measurement.without_peer("ode", "first", [1.0])
        raise RuntimeError("out of memory\nby far")

    monkeypatch.setitem(suite.MEASUREMENTS, "ode", fail)
    first, failed = suite.measure(bench, "ode")
    assert (first.what, first.ours) == ("first", 1.0)
    assert (failed.what, failed.note, failed.ours) == ("failed", "out of memory", None)


def test_the_documentation_describes_every_measurement() -> None:
    text = (ROOT / "docs" / "results" / "speed.md").read_text("utf-8").partition("## On a GPU")[0]
    assert {name for name in suite.MEASUREMENTS if f"`{name}`" not in text} == set()
