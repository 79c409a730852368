"""An index stores nodes in 32 bits; nothing that is computed from them overflows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import contig
from contig.data.events import EventStream
from contig.data.index_folder import HEAD, IndexedFile, encode, read_head
from contig.data.indexing.progress_file import FILE, read_progress
from contig.data.mapped_arrays import NodeColumn
from contig.data.negative_edges import sample_edges
from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.data.storage import load_stream, save_stream
from contig.data.summary import summarize
from contig.history import History
from contig.history.building import build_index
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

pytest.importorskip("duckdb", reason="an index needs the extra index")

NODES, EVENTS = 70_000, 80_000  # the product of two node numbers exceeds 32 bits


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[EventStream, EventStream]:
    """Return the same events, read into memory and from an index."""
    folder, rng = tmp_path_factory.mktemp("wide"), np.random.default_rng(5)
    src, dst = (
        np.append(rng.permutation(NODES), rng.integers(NODES - 9, NODES, EVENTS - NODES)) for _ in "ab"
    )
    pq.write_table(pa.table({"src": src, "dst": dst, "t": np.arange(EVENTS) // 3}), folder / "e.parquet")
    index = build_index(folder / "e.parquet", folder / "index")
    return contig.read_events(folder / "e.parquet"), contig.read_events(index)


def test_columns_are_narrow_on_disk_and_wide_in_use(streams: tuple[EventStream, EventStream]) -> None:
    memory, index = streams
    assert isinstance(index.src, NodeColumn)
    assert (index.src.dtype, index.dst.dtype) == (np.int32, np.int32)
    rows = np.array([3, 79_000, 5])
    wide = [
        (index.src[rows], memory.src[rows]),
        (index.src[7], memory.src[7]),
        (index.src * NODES + index.dst, memory.src * NODES + memory.dst),
        (index.src[5:9] * NODES, memory.src[5:9] * NODES),
        (NODES * index.src.max(), NODES * memory.src.max()),
        (np.unique(index.dst), np.unique(memory.dst)),
        (np.stack([index.src, index.dst], axis=1), np.stack([memory.src, memory.dst], axis=1)),
        (np.concatenate([index.src[:5], index.dst]), np.concatenate([memory.src[:5], memory.dst])),
        (index.src + index.dst, memory.src + memory.dst),
        (index.src == 5, memory.src == 5),
    ]
    for found, expected in wide:
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    assert index.fingerprint() == memory.fingerprint()
    assert index.equals(memory)


def test_a_part_is_saved_with_wide_columns(streams: tuple[EventStream, EventStream], tmp_path: Path) -> None:
    memory, index = streams
    save_stream(index[:500], tmp_path)
    saved = load_stream(tmp_path)
    assert (saved.src.dtype, saved.dst.dtype) == (np.int64, np.int64)
    assert saved.equals(memory[:500])


def test_everything_drawn_or_counted_is_the_same(streams: tuple[EventStream, EventStream]) -> None:
    def found(stream: EventStream) -> list[object]:
        split = chronological_split(stream, holdout="tgn")
        events, at = split.test[-500:], torch.from_numpy(split.test[-500:])
        negatives = Negatives(stream, "historical-source", train=split.train, events=events, seed=1)
        drawn = negatives.draw(at, torch.from_numpy(stream.src[events]))
        edges = sample_edges(stream, events, np.random.default_rng(2))
        facts = summarize(stream)
        return [split.train.tolist(), drawn.tolist(), edges.src.tolist(), edges.dst.tolist(), facts.repeats]

    memory, index = streams
    assert found(index) == found(memory)


@pytest.mark.parametrize("model", ["contig-pair", "jodie", "tgat", "tgn"])
def test_training_is_the_same(model: str, streams: tuple[EventStream, EventStream]) -> None:
    def losses(stream: EventStream) -> list[float]:
        small = {"dim": 8, "time_dim": 6, "neighbors": 3} if model != "jodie" else {"dim": 8}
        config = RunConfig.of(model, {**small, "batch_size": 100, "holdout": "paper"}).for_stream(stream)
        session = Session(prepare(stream, config, torch.device("cpu")), config)
        session.begin_epoch()
        session.progress.step = len(session.steps) - 4
        return [session.train_step().item() for _ in range(3)]

    memory, index = streams
    assert losses(index) == losses(memory)


def test_an_index_with_wide_columns_is_still_read(
    streams: tuple[EventStream, EventStream], tmp_path: Path
) -> None:
    memory, index = streams
    folder = Path(str(index.src.filename)).parent  # type: ignore[attr-defined]
    old = tmp_path / "old"
    old.mkdir()
    for path in folder.glob("*.npy"):
        array = np.load(path)
        np.save(old / path.name, array.astype(np.int64) if path.stem in ("src", "dst") else array)
    head = read_head(folder)
    files = {name: IndexedFile.of(old / name) for name in head.files}
    (old / HEAD).write_text(json.dumps({"schema": 1, **encode(replace(head, files=files))}), "utf-8")
    found = contig.read_events(old)
    assert found.src.dtype == np.int64
    assert found.equals(memory)
    assert torch.equal(History.from_stream(found).events["src"], torch.from_numpy(memory.src.copy()))


def test_an_unfinished_build_of_an_older_version_starts_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        json.dumps({"schema": 1, "request": {"files": [], "reading": "{}"}}), "utf-8"
    )
    assert read_progress(tmp_path) is None
    (tmp_path / FILE).write_text(
        json.dumps({"schema": 2, "request": {"files": [], "reading": "{}"}}), "utf-8"
    )
    assert read_progress(tmp_path) is not None
