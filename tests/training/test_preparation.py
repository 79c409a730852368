"""Streams that cannot be trained on are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, train_tiny

from contig.data.events import EventStream
from contig.errors import DataError, RunError
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

CPU = torch.device("cpu")


def config(model: str = "contig", **settings: Any) -> RunConfig:
    return RunConfig.of(model, {**(TINY if model == "contig" else {}), **settings})


def test_a_stream_too_short_to_split() -> None:
    with pytest.raises(RunError, match="part is empty"):
        prepare(EventStream.from_arrays([1, 2], [3, 4], [0, 0]), config(), CPU)


@pytest.mark.parametrize(
    ("times", "cure"),
    [
        (np.full(90, 7), "all 90 events have the same time.*check the column of times"),
        (np.arange(90) // 80, "90 events have only 2 different times"),
        (np.arange(2), "provide more than 2 events"),
    ],
    ids=["all-equal", "ties", "short"],
)
def test_why_a_part_is_empty(times: Any, cure: str) -> None:
    n = np.arange(len(times))
    with pytest.raises(RunError, match=cure):
        prepare(EventStream.from_arrays(n % 7, 10 + n % 5, times), config(holdout="paper"), CPU)


@pytest.mark.parametrize(("first", "last"), [(0, 2**63 - 1), (-(2**62), 5), (2**62, 2**62 + 90)])
def test_times_whose_differences_overflow(first: int, last: int) -> None:
    n = np.arange(60)
    stream = EventStream.from_arrays(n % 7, 10 + n % 5, [first, *n[1:-1] + first // 2, last])
    with pytest.raises(RunError, match="Subtract an offset"):
        prepare(stream, config(), CPU)


def test_times_just_inside_the_limit(tmp_path: Path) -> None:
    """The next time after the last event is still a time, and sees that event."""
    rng = np.random.default_rng(0)
    t = 2**62 - 1 - np.arange(200)[::-1]
    stream = EventStream.from_arrays(rng.integers(0, 7, 200), 10 + rng.integers(0, 5, 200), t)
    run = train_tiny(stream, tmp_path / "run")
    now, before = run.embed(), run.embed(at=int(t[-1]))
    assert np.isfinite(now).all()
    last = [int(stream.src[-1]), int(stream.dst[-1])]
    assert all(np.abs(now[v] - before[v]).max() > 1e-6 for v in last)


def test_a_stream_of_ever_new_nodes() -> None:
    n = np.arange(40)
    stream = EventStream.from_arrays(n, n % 2 + 100, n)
    with pytest.raises(RunError, match="use holdout=none"):
        prepare(stream, config(holdout="paper"), CPU)


def test_a_stream_without_negatives() -> None:
    """Every source meets the only destination."""
    n = np.arange(40)
    data = prepare(EventStream.from_arrays(n % 3, n * 0 + 100, n), config(), CPU)
    with pytest.raises(DataError, match="so there is no negative"):
        Session(data, config()).train_step()


@pytest.mark.parametrize(
    ("holdout", "cure"),
    [("tgn", "ctdne cannot score"), ("paper", "use holdout=none"), ("none", "ctdne cannot")],
)
def test_a_validation_part_without_known_nodes(holdout: str, cure: str) -> None:
    """A model that cannot score new nodes has no validation AP to choose its best epoch by."""
    n = np.arange(200)
    stream = EventStream.from_arrays(n // 140 * 50 + n % 7, 10 + n // 140 * 50 + n % 5, n)
    with pytest.raises(RunError, match=f"no validation event is between two nodes.*{cure}"):
        prepare(stream, config("ctdne", holdout=holdout), CPU)
