"""Downloads that resume, run in one process at a time and are kept with their checksum.

An interrupted download stays in a folder ``partial`` next to its destination, and the next attempt
resumes it, unless the server's file has changed. A file is moved to its destination once its reader has
accepted it.
"""

from __future__ import annotations

import http.client
import logging
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from contig.errors import DataError
from contig.file_locks import system_lock
from contig.files import replacing, sha256

log = logging.getLogger("contig")

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 5
RETRY_PAUSE = 2.0  # seconds
BLOCK = 1 << 18
RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

Content = TypeVar("Content")


class Unreachable(Exception):
    """The file cannot be downloaded now; the message says why."""


class _Interrupted(Exception):
    """The transfer was interrupted; what has arrived is kept, and another attempt resumes it."""


def download(url: str, place: Path, read: Callable[[Path], Content]) -> Content:
    """Download ``url`` to ``place`` and return what ``read`` makes of it.

    If ``read`` raises a DataError, the file is removed. If another process has just downloaded the
    file, that one is read. Raises Unreachable if the download fails, and OSError if the file cannot be
    kept.
    """
    part = place.parent / "partial" / place.name  # the full name, so that its format can be detected
    part.parent.mkdir(parents=True, exist_ok=True)
    with _one_process(part.with_name(f"{part.name}.lock")):
        if place.is_file():
            return read(place)
        log.info("downloading %s to %s", url, place.parent)
        _fetch(url, part)
        try:
            content = read(part)
        except DataError:
            _discard(part)
            raise
        with replacing(_record(place)) as record:
            record.write_text(f"{sha256(part)}  {place.name}\n")
        part.replace(place)
        _discard(part)
        return content


def reject_changed(place: Path) -> None:
    """Reject a download that does not match its checksum any more; files without one pass."""
    record = _record(place)
    if record.is_file() and record.read_text().split()[:1] != [sha256(place)]:
        raise DataError(f"{place} has changed since it was downloaded; delete it to download it again.")


def _record(place: Path) -> Path:
    return place.with_name(f"{place.name}.sha256")


@contextmanager
def _one_process(lock: Path) -> Iterator[None]:
    """Let one process at a time through; when all ranks of a training start together, the others wait."""
    with lock.open("w") as file:
        with suppress(OSError):  # a file system without locks
            system_lock().acquire(file, wait=True)
        yield


# --- the transfer ------------------------------------------------------------------------------------


def _fetch(url: str, part: Path) -> None:
    """Download the whole file to ``part``, resuming what is there, in several attempts."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _transfer(url, part)
        except _Interrupted as error:
            if attempt == ATTEMPTS:
                raise Unreachable(
                    f"{error}; gave up after {ATTEMPTS} attempts, the next call resumes"
                ) from error
            log.info("%s: %s; trying again", url, error)
            time.sleep(RETRY_PAUSE)


def _transfer(url: str, part: Path) -> None:
    have = part.stat().st_size if part.is_file() else 0
    response = _request(url, part, have)
    if response is None:
        return
    with response:
        begin = _first_byte(response)
        if begin not in (0, have):
            _discard(part)
            raise _Interrupted(f"the server sent bytes from {begin:,} on, but {have:,} were requested")
        length = response.headers.get("Content-Length")
        total = begin + int(length) if length and length.isdigit() else None
        _remember_version(response, part)
        with part.open("ab" if begin else "wb") as file, _progress(part.name, begin, total) as advance:
            while block := _receive(response):
                file.write(block)
                advance(len(block))
    arrived = part.stat().st_size
    if total is not None and arrived < total:
        raise _Interrupted(f"the connection ended after {arrived:,} of {total:,} bytes")


def _request(url: str, part: Path, have: int) -> http.client.HTTPResponse | None:
    """Return the server's response, or None if nothing is missing."""
    headers = {"User-Agent": "contig", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if _version(part).is_file():
            headers["If-Range"] = _version(part).read_text()
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
        assert isinstance(response, http.client.HTTPResponse)
        return response
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:
                _reject_other_length(error, part, have)
                return None
            reason = f"the server answered {error.code} {error.reason}"
            raise (_Interrupted if error.code in RETRY_STATUS else Unreachable)(reason) from error
    except urllib.error.URLError as error:
        raise Unreachable(f"no connection: {error.reason}") from error
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"no response: {error!r}") from error


def _reject_other_length(error: urllib.error.HTTPError, part: Path, have: int) -> None:
    """Discard a partial file whose length is not that of the server's file."""
    if error.headers.get("Content-Range", "").rpartition("/")[2] != str(have):
        _discard(part)
        raise _Interrupted("the partial file did not match the server's and was removed") from error


def _first_byte(response: http.client.HTTPResponse) -> int:
    """Return where the body begins in the file; a server that ignores ranges sends all of it with 200."""
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if response.status == 206 and found else 0


def _receive(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(BLOCK)
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"the connection broke: {error!r}") from error


def _version(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _remember_version(response: http.client.HTTPResponse, part: Path) -> None:
    """Keep the identifier of this version of the file, so that a later attempt does not mix two."""
    tag = response.headers.get("ETag") or ""
    strong = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
    if not strong:
        _version(part).unlink(missing_ok=True)
        return
    with replacing(_version(part)) as version:
        version.write_text(strong)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _version(part).unlink(missing_ok=True)


@contextmanager
def _progress(name: str, begin: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, nothing elsewhere; the function advances it by a number of bytes."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total, completed=begin)
        yield lambda size: bar.advance(task, size)
