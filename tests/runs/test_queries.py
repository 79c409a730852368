"""Ids, times and other arguments of queries."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trained import TINY

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError
from contig.live import Engine
from contig.runs.run import Run
from contig.training.fit import fit

MAY = 1_714_521_600  # midnight before 1 May 2024, UTC


def test_nodes_are_named_by_the_user_s_ids(text_id_run: Run) -> None:
    """Rows have the order of the query; an id on both sides is two nodes."""
    everything = text_id_run.embed()
    labels, is_dst = text_id_run.stream.ids.labels, text_id_run.stream.ids.is_dst
    assert is_dst is not None
    row = {(str(name), bool(d)): i for i, (name, d) in enumerate(zip(labels, is_dst, strict=True))}
    assert ("n12", False) in row
    assert ("n12", True) in row
    picked = text_id_run.embed(["n16", "n2", "n16"])
    expected = everything[[row["n16", True], row["n2", False], row["n16", True]]]
    np.testing.assert_allclose(picked, expected, rtol=1e-5, atol=1e-6)
    for side, dst in (("src", False), ("dst", True)):
        one = text_id_run.embed(["n12"], side=side)  # type: ignore[arg-type]
        np.testing.assert_allclose(one[0], everything[row["n12", dst]], rtol=1e-5, atol=1e-6)
    with pytest.raises(DataError, match=r"'n12' is both.*side='src'"):
        text_id_run.embed(["n12"])


def test_unknown_ids_come_with_examples(text_id_run: Run, run: Run) -> None:
    with pytest.raises(DataError, match="'n99' is not in this stream; its ids look like 'n0'"):
        text_id_run.embed(["n99"])
    with pytest.raises(DataError, match="'n16' is a destination in this stream; expected a source"):
        text_id_run.recommend("n16")
    with pytest.raises(DataError, match="ids look like 0, 1, 2"):
        run.trajectory(12345, [1.0])


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e30])
def test_times_must_be_finite(at: float, run: Run) -> None:
    with pytest.raises(DataError, match="finite time"):
        run.embed(at=at)


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on ten days of May 2024, in seconds."""
    rng = np.random.default_rng(3)
    t = np.sort(rng.integers(MAY, MAY + 10 * 86_400, 200))
    stream = EventStream.from_arrays(rng.integers(0, 9, 200), rng.integers(9, 15, 200), t, origin="dated")
    return fit(stream, out=tmp_path_factory.mktemp("runs") / "dated", epochs=1, show=False, **TINY)


def test_times_can_be_dates(dated: Run) -> None:
    seconds = MAY + 3 * 86_400 + 6 * 3600
    embedded, best = dated.embed(at=seconds), dated.recommend(2, at=seconds)
    for date in ("2024-05-04T06:00", datetime(2024, 5, 4, 6), np.datetime64("2024-05-04T06:00:00")):
        assert np.array_equal(dated.embed(at=date), embedded)
        assert dated.recommend(2, at=date) == best
    numbers = [MAY + 86_400, seconds]
    path = dated.trajectory(2, numbers)
    for dates in (
        ["2024-05-02", "2024-05-04T06:00Z"],
        [datetime(2024, 5, 2), "2024-05-04 06:00"],
        np.array(["2024-05-02T00", "2024-05-04T06"], dtype="datetime64[h]"),
    ):
        found = dated.trajectory(2, dates)
        assert found.times.tolist() == numbers
        assert np.array_equal(found.embeddings, path.embeddings)
    for ask in (dated.embed, dated.recommend):
        with pytest.raises(DataError, match="at='noon': not a time"):
            ask(*([2] if ask == dated.recommend else []), at="noon")
    with pytest.raises(DataError, match="times: 'noon': not a time"):
        dated.trajectory(2, ["2024-05-02", "noon"])


def test_times_in_another_unit_are_refused(dated: Run, tmp_path: Path) -> None:
    wrong = (MAY + 86_400) * 1000
    problem = f"={wrong} looks like milliseconds since 1970, but the times of the run are seconds. Divide by"
    with pytest.raises(DataError, match=f"^at{problem}"):
        dated.embed(at=wrong)
    with pytest.raises(DataError, match=f"^at{problem}"):
        dated.recommend(2, at=str(wrong))
    with pytest.raises(DataError, match=rf"^times\[1\]{problem}"):
        dated.trajectory(2, [MAY, wrong])
    with pytest.raises(DataError, match=f"row 1 .*: t{problem}"):
        dated.score([2, 3], [10, 10], [MAY + 86_400, wrong])
    with (
        Engine.open(tmp_path / "live", dated.path) as engine,
        pytest.raises(DataError, match=f"^at{problem}"),
    ):
        engine.embed([2], at=wrong)
    for late in ("2034-05-01", MAY + 50 * 365 * 86_400):  # a long silence is not another unit
        assert np.isfinite(dated.embed([2], at=late)).all()


@pytest.mark.parametrize("times", [[], [[1.0], [2.0]], "2024-05-01"])
def test_a_trajectory_needs_a_sequence_of_times(times: Any, text_id_run: Run) -> None:
    with pytest.raises(DataError, match=re.escape(f"times={times!r}: pass a sequence of at least one time")):
        text_id_run.trajectory("n3", times)


def test_times_must_ascend(text_id_run: Run) -> None:
    with pytest.raises(DataError, match=r"times\[2\]=2.0 is earlier than the one before it; sort them"):
        text_id_run.trajectory("n3", [1.0, 3.0, 2.0, 1.0])


def test_ambiguous_arguments_are_refused(run: Run) -> None:
    node = run.stream.ids.labels[0].item()
    for nodes in (node, str(node)):
        with pytest.raises(ConfigError, match=r"pass a list of ids, such as \["):
            run.embed(nodes)  # type: ignore[arg-type]
    for k in (0, 1.5):
        with pytest.raises(ConfigError, match=f"k={k}"):
            run.recommend(node, k=k)  # type: ignore[arg-type]
    for size in (0, -1):
        with pytest.raises(ConfigError, match=f"batch_size={size}"):
            run.evaluate(batch_size=size)


def test_embed_honors_the_side(text_id_run: Run) -> None:
    run, is_dst = text_id_run, text_id_run.stream.ids.is_dst
    assert is_dst is not None
    everything = run.embed()
    np.testing.assert_allclose(run.embed(side="dst"), everything[is_dst], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(run.embed(side="src"), everything[~is_dst], rtol=1e-4, atol=1e-6)
    with pytest.raises(ConfigError, match="Unknown side 'left'"):
        run.embed(side="left")  # type: ignore[arg-type]
