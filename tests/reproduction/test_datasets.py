"""Datasets of a study: truncated ones hold exactly the first events."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.reproduction import datasets
from contig.reproduction.datasets import (
    StudyDataset,
    available_datasets,
    fixed_nodes_dataset,
    growing_nodes_dataset,
    open_dataset,
    parse_names,
)


@pytest.mark.parametrize("bipartite", [True, False])
def test_a_truncated_dataset(bipartite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    whole = EventStream.from_arrays(
        [f"n{i}" for i in rng.integers(0, 9, 50)],
        [f"n{i}" for i in rng.integers(5, 20, 50)],
        np.sort(rng.integers(0, 70, 50)),
        label=rng.integers(0, 2, 50),
        edge_features=rng.random((50, 3)),
        bipartite=bipartite,
    )
    real = open_stream
    monkeypatch.setattr(datasets, "open_stream", lambda name, *o: whole if name == "x" else real(name, *o))
    dataset = open_dataset("x", 30, tmp_path)
    cut = dataset.stream
    assert (len(cut), cut.bipartite, dataset.truncated) == (30, bipartite, True)
    for side in ("src", "dst"):
        before, after = (s.ids.labels[getattr(s, side)].tolist() for s in (whole, cut))
        assert after == before[:30]
    assert cut.t.tolist() == whole.t[:30].tolist()
    assert cut.label is not None
    assert whole.label is not None
    assert cut.label.tolist() == whole.label[:30].tolist()
    np.testing.assert_allclose(cut.edge_features, whole.edge_features[:30])  # type: ignore[arg-type, index]
    again = open_stream(dataset.data, reading=dataset.reading)
    assert again.fingerprint() == cut.fingerprint()  # the runs read the same events
    assert dataset.describe().startswith("first 30 events, ")
    assert open_dataset("x", 50, tmp_path).stream is whole
    os.utime(dataset.data, (1, 1))
    open_dataset("x", 30, tmp_path)
    assert Path(dataset.data).stat().st_mtime == 1  # an unchanged file is not written again
    Path(dataset.data).write_bytes(b"something else")
    assert open_dataset("x", 30, tmp_path).stream.fingerprint() == cut.fingerprint()


def test_datasets_with_a_fixed_number_of_nodes_last_longer(tmp_path: Path) -> None:
    """All have as many events per day; the middle one is the named dataset itself."""
    middle = fixed_nodes_dataset(2000, 2000, tmp_path)
    named = growing_nodes_dataset(2000)
    assert (middle.data, middle.reading) == (named.data, named.reading) == ("synthetic:2000", ReadOptions())
    assert middle.stream.fingerprint() == named.stream.fingerprint()
    for events in (500, 8000):
        dataset = fixed_nodes_dataset(events, 2000, tmp_path)
        assert len(dataset.stream) == events
        for side in ("src", "dst"):
            nodes = [len(np.unique(getattr(d.stream, side))) for d in (dataset, middle)]
            assert nodes[0] == pytest.approx(nodes[1], rel=0.15)  # unpopular ones may not occur
        days = (dataset.stream.t[-1] - dataset.stream.t[0]) / 86_400
        assert days == pytest.approx(30 * events / 2000, rel=0.1)
        assert open_stream(dataset.data, bipartite=True).fingerprint() == dataset.stream.fingerprint()


def test_differences_from_the_papers_dataset() -> None:
    stream = EventStream.from_arrays([1, 2], [3, 4], [0, 1], edge_features=np.ones((2, 5)))
    assert StudyDataset("wikipedia", stream, "wikipedia").differences() == [
        "wikipedia has 2 events here and 157,474 in the paper.",
        "wikipedia has 4 nodes here and 9,227 in the paper.",
        "wikipedia has 5 features here and 172 in the paper.",
    ]
    assert StudyDataset("own", stream, "own.csv").differences() == ["own is not used in the paper."]


def test_the_papers_datasets_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk = {"mooc", "wikipedia", "enron"}
    monkeypatch.setattr(datasets, "find_dataset", lambda name: name if name in on_disk else None)
    assert available_datasets() == ["wikipedia", "mooc"]
    on_disk.clear()
    assert available_datasets() == ["collegemsg"]


def test_comma_separated_names() -> None:
    assert parse_names("mooc, own.csv,mooc") == ["mooc", "own.csv"]
    with pytest.raises(ConfigError, match="--datasets"):
        parse_names(" ,")
