"""The streams of a reproduction: the beginning of a stream is exactly that."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.reproduction import sources
from contig.reproduction.sources import Source, named_sources, open_source, watched


@pytest.mark.parametrize("bipartite", [True, False])
def test_the_beginning_of_a_stream(bipartite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(sources, "open_stream", lambda name, **o: whole if name == "x" else real(name, **o))
    source = open_source("x", 30, tmp_path)
    cut = source.stream
    assert (len(cut), cut.bipartite, source.whole) == (30, bipartite, False)
    for side in ("src", "dst"):
        before, after = (s.ids.labels[getattr(s, side)].tolist() for s in (whole, cut))
        assert after == before[:30]
    assert cut.t.tolist() == whole.t[:30].tolist()
    assert cut.label is not None
    assert whole.label is not None
    assert cut.label.tolist() == whole.label[:30].tolist()
    np.testing.assert_allclose(cut.edge_features, whole.edge_features[:30])  # type: ignore[arg-type, index]
    again = open_stream(source.file, bipartite=source.reading == ("--bipartite",))
    assert again.fingerprint() == cut.fingerprint()  # what the runs will read
    assert open_source("x", 50, tmp_path).stream is whole
    os.utime(source.file, (1, 1))
    open_source("x", 30, tmp_path)
    assert Path(source.file).stat().st_mtime == 1  # what has not changed is not written again
    Path(source.file).write_bytes(b"something else")
    assert open_source("x", 30, tmp_path).stream.fingerprint() == cut.fingerprint()


def test_a_stream_is_watched_for_longer_or_less_long(tmp_path: Path) -> None:
    """As many nodes, and as many events in a day; the middle one is the named stream."""
    middle = watched(2000, 2000, tmp_path)
    assert (middle.file, middle.reading) == ("synthetic:2000", ())
    assert middle.stream.fingerprint() == open_stream("synthetic:2000").fingerprint()
    for events in (500, 8000):
        source = watched(events, 2000, tmp_path)
        assert len(source.stream) == events
        for side in ("src", "dst"):
            nodes = [len(np.unique(getattr(s.stream, side))) for s in (source, middle)]
            assert nodes[0] == pytest.approx(nodes[1], rel=0.15)  # unpopular ones may not occur
        days = (source.stream.t[-1] - source.stream.t[0]) / 86_400
        assert days == pytest.approx(30 * events / 2000, rel=0.1)
        assert open_stream(source.file, bipartite=True).fingerprint() == source.stream.fingerprint()


def test_what_differs_from_the_papers_stream() -> None:
    stream = EventStream.from_arrays([1, 2], [3, 4], [0, 1], edge_features=np.ones((2, 5)))
    told = Source("wikipedia", stream, "wikipedia").differences()
    assert told == [
        "wikipedia: 2 events here, 157,474 in the paper.",
        "wikipedia: 4 nodes here, 9,227 in the paper.",
        "wikipedia: 5 features here, 172 in the paper.",
    ]
    assert Source("own", stream, "own.csv").differences() == ["own is none of the paper's streams."]


def test_names_with_commas_between() -> None:
    assert named_sources("mooc, own.csv,mooc") == ["mooc", "own.csv"]
    with pytest.raises(ConfigError, match="--datasets"):
        named_sources(" ,")
