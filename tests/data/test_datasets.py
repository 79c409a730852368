"""Datasets are found in the right order and checked against what is published."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.published_files import ENRON, JODIE, SNAP
from support.sites import Site

from contig.caches import cache_folder
from contig.data.catalog import DATASETS
from contig.data.datasets import find_dataset, load_dataset, open_stream
from contig.data.synthetic import synthetic
from contig.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("own_cache")


# --- the catalog ---------------------------------------------------------------------------


def test_entries_are_consistent() -> None:
    assert set(DATASETS) == {
        *("wikipedia", "reddit", "mooc", "lastfm", "collegemsg"),
        *("email_eu", "bitcoin_otc", "enron", "tgbl-wiki", "synthetic"),
        *("shop", "shop-ring"),
    }
    entries = {name: DATASETS[name] for name in DATASETS}
    for name, entry in entries.items():
        assert entry.name == name
        assert entry.description
        assert entry.source
        if entry.url is not None:
            assert entry.filename is not None
            assert entry.url.endswith("/" + entry.filename)
        elif entry.filename is not None:
            assert entry.filename in entry.instructions
    widths = {name: entry.edge_width for name, entry in entries.items() if entry.edge_width}
    published = {"wikipedia": 172, "reddit": 172, "tgbl-wiki": 172}
    assert widths == {**published, "mooc": 4, "lastfm": 2, "bitcoin_otc": 1, "shop": 3, "shop-ring": 3}


def test_the_synthetic_entry_has_the_default_size() -> None:
    stream, nodes = load_dataset("synthetic"), DATASETS["synthetic"].nodes
    assert len(stream) == DATASETS["synthetic"].events
    assert nodes is not None
    assert abs(stream.num_nodes - nodes) < 20


# --- places ------------------------------------------------------------------------------------------


def write_parquet(path: Path, src: list[int], dst: list[int], t: list[int]) -> None:
    pq.write_table(pa.table({"src": src, "dst": dst, "t": t, "label": [0] * len(src)}), path)


def test_the_order_of_places(tmp_path: Path, own_cache: Path, tiny, site: Site, monkeypatch) -> None:
    tiny("wikipedia", JODIE, 5, 5)
    given, env = tmp_path / "given", tmp_path / "env"
    for folder in (given, env, own_cache):
        folder.mkdir()
        (folder / "wikipedia.csv").write_text(JODIE)
    monkeypatch.setenv("CONTIG_DATA", str(env))
    assert find_dataset("wikipedia", given) == given / "wikipedia.csv"
    assert find_dataset("wikipedia") == env / "wikipedia.csv"
    (env / "wikipedia.csv").unlink()
    assert find_dataset("wikipedia") == own_cache / "wikipedia.csv"
    (given / "wikipedia.csv").unlink()
    assert find_dataset("wikipedia", given) == own_cache / "wikipedia.csv"
    assert len(load_dataset("wikipedia")) == 5
    assert site.requests == []
    (own_cache / "wikipedia.csv").unlink()
    assert find_dataset("wikipedia") is None
    assert len(load_dataset("wikipedia")) == 5
    assert len(site.requests) == 1


def test_file_names(tmp_path: Path, no_data_dir: None) -> None:
    (tmp_path / "CollegeMsg.txt").write_text(SNAP)
    assert find_dataset("collegemsg", tmp_path) == tmp_path / "CollegeMsg.txt"
    (tmp_path / "CollegeMsg.txt.gz").write_bytes(gzip.compress(SNAP.encode()))
    assert find_dataset("collegemsg", tmp_path) == tmp_path / "CollegeMsg.txt.gz"
    write_parquet(tmp_path / "collegemsg.parquet", [0], [1], [0])
    assert find_dataset("collegemsg", tmp_path) == tmp_path / "collegemsg.parquet"
    (tmp_path / "wikipedia.csv.gz").write_bytes(gzip.compress(JODIE.encode()))
    assert len(load_dataset("wikipedia", data_dir=tmp_path)) == 5
    assert find_dataset("synthetic", tmp_path) is None


def test_every_format_gives_the_same_events(tmp_path: Path, no_data_dir: None) -> None:
    for folder in ("text", "packed", "table"):
        (tmp_path / folder).mkdir()
    (tmp_path / "text" / "CollegeMsg.txt").write_text(SNAP)
    (tmp_path / "packed" / "CollegeMsg.txt.gz").write_bytes(gzip.compress(SNAP.encode()))
    write_parquet(
        tmp_path / "table" / "collegemsg.parquet",
        *([0, 2, 4, 0], [1, 3, 1, 1], [1082040961, 1082155839, 1082414391, 1082414391]),
    )
    text, packed, table = (
        load_dataset("collegemsg", data_dir=tmp_path / f) for f in ("text", "packed", "table")
    )
    assert text.equals(packed)
    assert text.equals(table)


def test_another_local_file_is_used_with_a_warning(
    tmp_path: Path, no_data_dir: None, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "wikipedia.csv").write_text(JODIE)
    with caplog.at_level(logging.WARNING, "contig"):
        stream = load_dataset("wikipedia", data_dir=tmp_path)
    assert len(stream) == 5
    notices = " ".join(stream.notices)
    assert "wikipedia.csv is not wikipedia as published: 5 events, expected 157,474" in notices
    assert "5 nodes, expected 9,227" in notices
    assert "157,474" in caplog.text


def test_data_dir_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data_dir=.*nowhere.* is not a folder"):
        load_dataset("wikipedia", data_dir=tmp_path / "nowhere")


def test_a_wrong_folder_in_the_environment_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTIG_DATA", "nowhere")
    with pytest.raises(DataError, match="CONTIG_DATA='nowhere' is not a folder; set it to the folder"):
        find_dataset("wikipedia")


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("CONTIG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "contig"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "contig"


def test_enron_is_read_and_the_message_says_how_to_get_it(
    tmp_path: Path, own_cache: Path, no_data_dir: None
) -> None:
    with pytest.raises(DataError) as error:
        load_dataset("enron", data_dir=tmp_path)
    for part in ("zenodo.org/records/7213796", "enron.zip", "ml_enron.csv", str(tmp_path), str(own_cache)):
        assert part in str(error.value)
    (tmp_path / "ml_enron.csv").write_text(ENRON)
    stream = load_dataset("enron", data_dir=tmp_path)
    assert stream.ids.labels.tolist() == [115, 124, 170]
    assert stream.src.tolist() == [0, 0, 2]
    assert stream.dst.tolist() == [2, 1, 0]
    assert stream.t.tolist() == [0, 529920, 529920]
    assert stream.label is None
    assert not stream.bipartite


# --- features ----------------------------------------------------------------------------------------


def test_mooc_has_no_features_by_default(tmp_path: Path, no_data_dir: None) -> None:
    (tmp_path / "mooc.csv").write_text(JODIE)
    assert load_dataset("mooc", data_dir=tmp_path).edge_features is None
    rich = load_dataset("mooc", data_dir=tmp_path, features=True)
    assert rich.edge_features is not None
    assert rich.edge_features.shape == (5, 3)


def test_features_beside_a_parquet_file(tmp_path: Path, no_data_dir: None) -> None:
    write_parquet(tmp_path / "mooc.parquet", [0, 1, 0], [2, 3, 3], [0, 5, 9])
    with pytest.raises(DataError, match="no edge features"):
        load_dataset("mooc", data_dir=tmp_path, features=True)
    table = np.array([[1.0, -2.0], [0.25, 3.0]])
    np.savez(
        tmp_path / "mooc_edge_feat_codebook.npz", table=table, index=np.array([1, 0, 1], dtype=np.uint16)
    )
    assert load_dataset("mooc", data_dir=tmp_path).edge_features is None
    rich = load_dataset("mooc", data_dir=tmp_path, features=True)
    assert rich.edge_features is not None
    assert rich.edge_features.dtype == np.float32
    assert rich.edge_features.tolist() == [[0.25, 3.0], [1.0, -2.0], [0.25, 3.0]]

    write_parquet(tmp_path / "bitcoin_otc.parquet", [0, 1], [1, 2], [7, 8])
    np.savez(tmp_path / "bitcoin_otc_rating.npz", rating=np.array([-10, 3], dtype=np.int8))
    rated = load_dataset("bitcoin_otc", data_dir=tmp_path)
    assert rated.edge_features is not None
    assert rated.edge_features.tolist() == [[-10.0], [3.0]]
    assert load_dataset("bitcoin_otc", data_dir=tmp_path, features=False).edge_features is None


def test_features_of_another_file_are_rejected(tmp_path: Path, no_data_dir: None) -> None:
    write_parquet(tmp_path / "bitcoin_otc.parquet", [0, 1], [1, 2], [7, 8])
    np.savez(tmp_path / "bitcoin_otc_rating.npz", rating=np.array([1, 2, 3], dtype=np.int8))
    with pytest.raises(DataError, match="3 rows for 2 events"):
        load_dataset("bitcoin_otc", data_dir=tmp_path)
    (tmp_path / "bitcoin_otc_rating.npz").write_text("not an archive")
    with pytest.raises(DataError, match=r"bitcoin_otc_rating\.npz: cannot be read"):
        load_dataset("bitcoin_otc", data_dir=tmp_path)


# --- names, files and options ------------------------------------------------------------------------


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'wikipedia'\?.*read_events"):
        load_dataset("wikipeda")
    with pytest.raises(
        ConfigError, match=r"Did you mean 'wikipedia'\?.*There is no file or folder of this name"
    ):
        open_stream("wikipeda")
    with pytest.raises(ConfigError, match=r"Unknown dataset 'wikipedia:3'"):
        open_stream("wikipedia:3")


def test_an_existing_file_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data_dir: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mooc").write_text("src,dst,t\na,b,1\nb,c,4\n")
    stream = open_stream("mooc", format="csv")
    assert stream.ids.labels.tolist() == ["a", "b", "c"]
    (tmp_path / "mooc").unlink()
    (tmp_path / "mooc").mkdir()  # a folder does not hide the dataset
    (tmp_path / "mooc.csv").write_text(JODIE)
    assert len(open_stream("mooc", data_dir=tmp_path)) == 5


def test_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("who,whom,at,f1\n1,2,10,0.5\n2,3,11,1.5\n")
    for given in (path, str(path)):
        stream = open_stream(given, src="who", dst="whom", t="at")
        assert stream.t.tolist() == [10, 11]
        assert stream.edge_width == 1
    assert open_stream(path, src="who", dst="whom", t="at", features=False).edge_features is None
    assert open_stream(path, src="who", dst="whom", t="at", features=["at"]).edge_width == 1
    with pytest.raises(ConfigError, match=r"Unknown reading option 'sorce'. Did you mean 'src'"):
        open_stream(path, sorce="who")


def test_a_missing_file(tmp_path: Path) -> None:
    for given in ("events.csv", str(tmp_path / "events"), tmp_path / "events"):
        with pytest.raises(DataError, match="events"):
            open_stream(given)


def test_reading_options_are_for_files() -> None:
    with pytest.raises(ConfigError, match=r"'src' does not apply to dataset 'mooc'"):
        open_stream("mooc", src="user")
    with pytest.raises(ConfigError, match=r"features=\['f1'\]"):
        open_stream("mooc", features=["f1"])


def test_synthetic_streams_by_name() -> None:
    for stream in (load_dataset("synthetic:1500"), open_stream("synthetic:1_500")):
        assert stream.equals(synthetic(1500))
    assert open_stream("synthetic:1500", features=False).equals(synthetic(1500))
    with pytest.raises(DataError, match="synthetic:1500 has no edge features"):
        open_stream("synthetic:1500", features=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("synthetic:", "Unknown dataset 'synthetic:'. Did you mean 'synthetic'"),
        ("synthetic:many", "'many' is not a number of events"),
        ("synthetic:5_", "'5_' is not a number of events"),
        ("synthetic:0", "events=0"),
    ],
)
def test_bad_sizes_of_synthetic_streams_are_rejected(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_dataset(name)


def test_an_empty_name_is_not_the_current_folder() -> None:
    with pytest.raises(ConfigError, match="Unknown dataset ''"):
        open_stream("")
