"""Downloads arrive whole and unmixed, go on where they broke off, and are kept only if they are good."""

from __future__ import annotations

import fcntl
import hashlib
import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sites import Site, files_in, serving

from contig.data import downloads
from contig.data.downloads import Unreachable, download, reject_changed
from contig.errors import DataError

BODY = b"".join(b"%d,%d,%d\n" % (i % 3, i % 5, i * i) for i in range(20))


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        site.files["events.csv"] = BODY
        yield site


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloads, "RETRY_PAUSE", 0.0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "events.csv"


def part_of(place: Path, data: bytes) -> Path:
    """What an earlier attempt has left."""
    part = place.parent / "partial" / place.name
    part.parent.mkdir(parents=True)
    part.write_bytes(data)
    return part


def fetched(site: Site, place: Path) -> bytes:
    """What the download's reader has seen, which is also what is kept."""
    seen = download(site.url("events.csv"), place, Path.read_bytes)
    assert place.read_bytes() == seen
    return seen


# --- what is kept


def test_the_reader_gets_the_file_under_its_name_before_it_is_kept(site: Site, place: Path) -> None:
    seen: list[Path] = []

    def read(path: Path) -> int:
        seen.append(path)
        assert not place.exists()
        return len(path.read_bytes())

    assert download(site.url("events.csv"), place, read) == len(BODY)
    assert [path.name for path in seen] == ["events.csv"]
    assert place.read_bytes() == BODY
    checksum = place.with_name("events.csv.sha256").read_text()
    assert checksum == f"{hashlib.sha256(BODY).hexdigest()}  events.csv\n"
    assert files_in(place.parent) == {"events.csv", "events.csv.sha256"}
    assert "Range" not in site.requests[0]


def test_a_file_that_the_reader_rejects_is_removed(site: Site, place: Path) -> None:
    def read(path: Path) -> None:
        raise DataError("line 1 is odd")

    with pytest.raises(DataError, match="line 1 is odd"):
        download(site.url("events.csv"), place, read)
    assert files_in(place.parent) == set()


def test_a_file_that_changed_since_is_rejected(site: Site, place: Path) -> None:
    fetched(site, place)
    reject_changed(place)
    place.write_bytes(BODY.replace(b"361", b"362"))
    with pytest.raises(DataError, match=r"events\.csv has changed since it was downloaded; delete it"):
        reject_changed(place)
    place.with_name("events.csv.sha256").unlink()
    reject_changed(place)  # a file that was put there by hand


# --- going on where it broke off


def test_a_partial_file_is_resumed(site: Site, place: Path) -> None:
    part_of(place, BODY[:60])
    assert fetched(site, place) == BODY
    assert [request.get("Range") for request in site.requests] == ["bytes=60-"]
    assert files_in(place.parent) == {"events.csv", "events.csv.sha256"}


def test_an_interrupted_connection_is_resumed(site: Site, place: Path) -> None:
    site.cuts = [70, 30]
    assert fetched(site, place) == BODY
    assert [request.get("Range") for request in site.requests] == [None, "bytes=70-", "bytes=100-"]
    assert [request.get("If-Range") for request in site.requests] == [None, '"v1"', '"v1"']


def test_repeated_interruptions_fail_and_the_next_call_resumes(site: Site, place: Path) -> None:
    site.cuts = [10] * downloads.ATTEMPTS
    with pytest.raises(Unreachable, match=rf"ended after 50 of {len(BODY)} bytes; gave up after 5 attempts"):
        fetched(site, place)
    assert files_in(place.parent) == {"partial/events.csv", "partial/events.csv.version"}
    assert fetched(site, place) == BODY
    assert site.requests[-1]["Range"] == "bytes=50-"


def test_a_server_without_ranges_starts_over(site: Site, place: Path) -> None:
    site.ranges = False
    site.cuts = [80]
    assert fetched(site, place) == BODY
    assert site.requests[1]["Range"] == "bytes=80-"


def test_a_range_that_was_not_requested_is_not_appended(site: Site, place: Path) -> None:
    site.cuts = [80]
    site.shift = 6
    assert fetched(site, place) == BODY
    assert [request.get("Range") for request in site.requests] == [None, "bytes=80-", None]


def test_a_file_that_changed_between_two_attempts_is_not_mixed(site: Site, place: Path) -> None:
    part = part_of(place, BODY.replace(b"1", b"7")[:120])
    part.with_name("events.csv.version").write_text('"v0"')
    assert fetched(site, place) == BODY
    assert site.requests[0]["If-Range"] == '"v0"'


def test_a_partial_file_that_is_complete_is_accepted(site: Site, place: Path) -> None:
    part_of(place, BODY)
    assert fetched(site, place) == BODY
    assert len(site.requests) == 1


def test_a_partial_file_longer_than_the_servers_is_replaced(site: Site, place: Path) -> None:
    part_of(place, BODY + b"left over\n")
    assert fetched(site, place) == BODY
    assert ["Range" in request for request in site.requests] == [True, False]


def test_without_an_etag_the_transfer_still_resumes(site: Site, place: Path) -> None:
    site.etag = None
    site.cuts = [33]
    assert fetched(site, place) == BODY
    assert site.requests[1]["Range"] == "bytes=33-"
    assert "If-Range" not in site.requests[1]


def test_a_weak_etag_is_not_used_to_resume(site: Site, place: Path) -> None:
    site.etag = 'W/"v1"'
    site.cuts = [33]
    assert fetched(site, place) == BODY
    assert "If-Range" not in site.requests[1]


# --- servers that do not give it


def test_a_busy_server_is_retried(site: Site, place: Path) -> None:
    site.statuses = [503, 429]
    assert fetched(site, place) == BODY
    assert len(site.requests) == 3


def test_a_missing_page_is_not_retried(site: Site, place: Path) -> None:
    site.files.clear()
    with pytest.raises(Unreachable, match="the server answered 404"):
        fetched(site, place)
    assert len(site.requests) == 1
    assert files_in(place.parent) == set()


def test_a_failed_connection_is_reported(place: Path) -> None:
    # Port 9 (discard) of this machine: nothing listens there.
    with pytest.raises(Unreachable, match="no connection"):
        download("http://127.0.0.1:9/events.csv", place, Path.read_bytes)


def test_an_unwritable_folder_raises_an_oserror(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        download(site.url("events.csv"), tmp_path / "file" / "events.csv", Path.read_bytes)


# --- several processes, and what is shown


def test_only_one_process_downloads(site: Site, place: Path) -> None:
    locked = []

    def try_lock() -> None:
        with (place.parent / "partial" / "events.csv.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(True)

    site.while_serving = try_lock
    fetched(site, place)
    assert locked == [True]


def test_a_process_that_waited_uses_the_finished_download(site: Site, place: Path) -> None:
    lock = place.parent / "partial" / "events.csv.lock"
    lock.parent.mkdir(parents=True)
    seen: list[bytes] = []
    waiting = threading.Thread(target=lambda: seen.append(fetched(site, place)))
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting.start()
        place.write_bytes(b"downloaded by another process\n")
    waiting.join()
    assert seen == [b"downloaded by another process\n"]
    assert site.requests == []


def test_progress_is_shown_on_a_terminal_only(
    site: Site, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    for kind, shown in ((Terminal, True), (io.StringIO, False)):
        screen = kind()
        monkeypatch.setattr(sys, "stderr", screen)
        fetched(site, place)
        assert ("events.csv" in screen.getvalue()) is shown
        place.unlink()
