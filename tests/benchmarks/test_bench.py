"""The settings and data that all measurements share."""

from __future__ import annotations

import numpy as np
import pytest

from contig.benchmarks.bench import Bench, Settings
from contig.data.synthetic import synthetic
from contig.errors import ConfigError


def test_a_short_epoch_is_timed_in_its_second_half() -> None:
    stream = synthetic(1500, sources=60, destinations=17)
    bench = Bench.prepare(stream, Settings(dim=4, batch_size=40), "cpu")
    steps = len(bench.data.split.train) // 40
    assert (bench.settings.first, bench.settings.last) == (steps // 2, steps)
    with pytest.raises(ConfigError, match=r"steps 3:90: an epoch of synthetic:1500 has \d+ full"):
        Bench.prepare(stream, Settings(batch_size=40, first=3, last=90), "cpu")


def test_features_are_left_out() -> None:
    stream = synthetic(900, sources=30, destinations=11, edge_features=3)
    bench = Bench.prepare(stream, Settings(batch_size=30, first=2, last=5), "cpu")
    assert bench.stream.edge_features is None
    assert np.array_equal(bench.stream.src, stream.src)


def test_a_session_is_created_once(bench: Bench) -> None:
    assert bench.session("contig") is bench.session("contig")
    plain = bench.session("contig", plain=True)
    assert plain is not bench.session("contig")
    assert plain.config.train.compile == "off"
