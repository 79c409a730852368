"""Measurements by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contig.benchmarks import environment, suite
from contig.benchmarks.bench import Bench
from contig.benchmarks.measurement import Measurement
from contig.cli.bench import bench as command
from contig.errors import ConfigError


def test_measurements_are_selected_by_name() -> None:
    assert suite.select("ode, contig-step") == ["contig-step", "ode"]
    assert suite.select(None) == list(suite.MEASUREMENTS)
    with pytest.raises(ConfigError, match=r"tgn-stap.*tgn-step"):
        suite.select("tgn-stap")
    with pytest.raises(ConfigError, match="names no measurement"):
        suite.select(" ,")


def test_the_help_lists_every_measurement() -> None:
    listed = " ".join((command.__doc__ or "").split()).partition("Measurements: ")[2]
    assert listed.rstrip(".").split(", ") == list(suite.MEASUREMENTS)


def test_a_missing_package_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    for name in ("tgn-step", "lookup", "ode", "read"):
        (row,) = suite.measure(bench, name)
        assert (row.name, row.what) == (name, "not measured")
        assert "pip install 'contig[bench]'" in row.note
        assert (row.ours, row.ratio) == (None, None)


def test_a_measurement_that_fails_leaves_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bench: Bench) -> Iterator[Measurement]:
        raise RuntimeError("out of memory\nby far")

    monkeypatch.setitem(suite.MEASUREMENTS, "ode", fail)
    (row,) = suite.measure(bench, "ode")
    assert (row.what, row.note, row.ratio) == ("failed", "out of memory", None)
