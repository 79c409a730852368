"""The error of node states by the scope of ConTIG's ``A``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.histories import random_stream

from contig.benchmarks import scope_errors
from contig.benchmarks.scope_errors import measure
from contig.training.fit import fit


def test_the_error_vanishes_with_all_namers_and_enough_hops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = random_stream(np.random.default_rng(3), events=120, num_nodes=14, width=2)
    options = {"dim": 6, "time_dim": 4, "neighbors": 3, "scope": "all", "batch_size": 20, "epochs": 1}
    run = fit(stream, "contig", out=tmp_path / "run", show=False, **options)
    monkeypatch.setattr(scope_errors, "CHUNK", 5)
    exact = {"scope": "near", "namers": None, "hops": 9}
    monkeypatch.setitem(scope_errors.VARIANTS, "exact", exact)
    found = dict(measure(run, events=40))
    assert found["exact"].high < 2e-5
    assert found["exact"].mean < found["near, all namers"].mean < found["pair"].mean
    assert found["near, 64 namers"].mean == pytest.approx(
        found["near, all namers"].mean
    )  # there are 14 nodes
