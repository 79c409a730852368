"""The real streams are as published."""

from __future__ import annotations

from pathlib import Path

import pytest

from contig.data.catalog import DATASETS
from contig.data.datasets import load_dataset

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("name", ["wikipedia", "mooc", "collegemsg", "enron", "bitcoin_otc"])
def test_real_streams_are_as_published(name: str, real_file) -> None:
    stream = load_dataset(name, data_dir=real_file(f"{name}.parquet").parent, download=False)
    unverified = DATASETS[name].fingerprint is None
    assert ["is unverified" in notice for notice in stream.notices] == [True] * unverified
    assert len(stream) == DATASETS[name].events
    assert stream.num_nodes == DATASETS[name].nodes
    assert stream.bipartite is DATASETS[name].bipartite
    assert (stream.label is not None) is DATASETS[name].labels


def test_real_streams_are_found_through_the_environment(real_file) -> None:
    real_file("wikipedia.parquet")
    stream = load_dataset("wikipedia", download=False)
    assert stream.label is not None
    assert stream.label.sum() == 217
    assert stream.src[:5].tolist() == [0, 1, 1, 2, 1]
    assert stream.dst[:5].tolist() == [8227, 8228, 8228, 8229, 8228]


def test_the_file_from_snap_has_the_known_fingerprint(real_file, tmp_path: Path) -> None:
    (tmp_path / "CollegeMsg.txt").write_bytes(real_file("CollegeMsg.txt").read_bytes())
    assert not load_dataset("collegemsg", data_dir=tmp_path, download=False).notices


def test_a_single_changed_event_is_detected(real_file, tmp_path: Path) -> None:
    text = real_file("CollegeMsg.txt").read_text()
    (tmp_path / "CollegeMsg.txt").write_text(text.replace("3 4 1082155839", "3 4 1082155838", 1))
    stream = load_dataset("collegemsg", data_dir=tmp_path, download=False)
    assert "another checksum" in stream.notices[-1]


def test_real_features(real_file) -> None:
    folder = real_file("mooc_edge_feat_codebook.npz").parent
    mooc = load_dataset("mooc", data_dir=folder, features=True)
    ratings = load_dataset("bitcoin_otc", data_dir=real_file("bitcoin_otc_rating.npz").parent)
    assert mooc.edge_features is not None
    assert mooc.edge_features.shape == (411_749, 4)
    assert mooc.edge_width == DATASETS["mooc"].edge_width
    assert mooc.edge_features[0] == pytest.approx([-0.31999148, -0.43570143, 0.10678378, -0.06730924])
    assert ratings.edge_features is not None
    assert ratings.edge_features[:3].tolist() == [[4.0], [2.0], [1.0]]
    assert ratings.edge_width == DATASETS["bitcoin_otc"].edge_width
