from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from support.commands import Answer

import contig
from contig import registry
from contig.data.catalog import DATASETS, Dataset, register_dataset

pytestmark = pytest.mark.usefixtures("isolated")


def test_every_dataset_is_listed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mooc.csv").touch()
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "wikipedia.parquet").touch()
    answer = Answer("datasets", "--data-dir", tmp_path / "streams", "--json")
    found = {entry["name"]: entry for entry in answer.json}
    assert list(found) == list(DATASETS)
    for name, entry in found.items():
        known = DATASETS[name]
        assert (entry["events"], entry["nodes"], entry["url"]) == (known.events, known.nodes, known.url)
        assert entry["edge_width"] == known.edge_width
    places = {name: (entry["place"], entry["path"]) for name, entry in found.items()}
    assert places["wikipedia"] == ("folder", str(tmp_path / "streams" / "wikipedia.parquet"))
    assert places["mooc"] == ("cache", str(tmp_path / "cache" / "mooc.csv"))
    assert places["reddit"] == ("missing", None)
    assert places["synthetic"] == ("generated", None)


def test_the_listing_says_what_is_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mooc.csv").touch()
    out = Answer("datasets").out
    blocks = {block.split()[0]: " ".join(block.split()) for block in out.split("\n\n")}
    assert blocks["name"] == "name events nodes features labels"
    assert blocks["mooc"].startswith("mooc 411,749 7,144 4 yes ")
    assert blocks["enron"].startswith("enron 125,235 184 - no ")
    assert f"cached: {tmp_path / 'cache' / 'mooc.csv'} http" in blocks["mooc"]
    assert "not on this machine; downloaded when used http" in blocks["wikipedia"]
    assert "not on this machine; must be obtained manually" in blocks["enron"]
    assert "generated when used" in blocks["synthetic"]


def test_a_missing_folder_is_rejected() -> None:
    answer = Answer("datasets", "--data-dir", "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "'nowhere' is not a folder" in answer.err


def test_a_registered_dataset_is_listed_and_a_broken_one_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("broken", "no_such_package:DATASET", "contig.datasets")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "contig.datasets" else [])
    monkeypatch.setattr(DATASETS, "_registered", dict(DATASETS._registered))
    register_dataset(Dataset("visits", filename="visits.csv", description="of pages"))
    answer = Answer("datasets")
    assert "visits - - - yes of pages not on this machine; must be obtained manually" in " ".join(
        answer.out.split()
    )
    register_dataset(Dataset("bare", filename="bare.csv"))
    lines = Answer("datasets").out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("bare"))
    assert lines[start + 1].strip() == "not on this machine; must be obtained manually"
    assert not any(line.isspace() for line in lines)
    assert "note: The dataset 'broken' cannot be loaded from no_such_package:" in answer.err
    assert "(No module named 'no_such_package')" in answer.err


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_a_dataset_with_features_is_written_and_read_again(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    rng = np.random.default_rng(1)
    stream = contig.EventStream.from_arrays(
        rng.integers(0, 7, 40), rng.integers(7, 12, 40), np.arange(40), edge_features=features
    )
    monkeypatch.setattr("contig.data.datasets.load_dataset", lambda name, **options: stream)
    out = tmp_path / f"found{ending}"
    assert Answer("datasets", "mooc", "--out", out).code == 0
    again = contig.read_events(out)
    np.testing.assert_array_equal(again.edge_features, features)


def test_a_dataset_is_not_written_over_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "mooc.csv").write_text("its events")
    answer = Answer("datasets", "mooc", "--data-dir", tmp_path, "--out", tmp_path / "mooc.csv")
    assert "mooc.csv is also the input" in answer.refusal
    assert (tmp_path / "mooc.csv").read_text() == "its events"
