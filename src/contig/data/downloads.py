"""Files from the network: brought whole, one process at a time, kept with their checksum.

A download that breaks off stays in a folder ``partial`` beside its place, and the next one goes on
from there, unless the server's file has changed. It gets its place once its reader has accepted it.
"""

from __future__ import annotations

import hashlib
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
from contig.files import replacing

try:
    import fcntl
except ImportError:  # Windows: two processes that download the same file at once are on their own
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("contig")

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 5
RETRY_PAUSE = 2.0  # seconds
BLOCK = 1 << 18
PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

Content = TypeVar("Content")


class Unreachable(Exception):
    """The file cannot be had from the network now; the reason in words."""


class _Interrupted(Exception):
    """The transfer broke off; what has arrived is kept, and another attempt goes on from there."""


def download(url: str, place: Path, read: Callable[[Path], Content]) -> Content:
    """What ``read`` makes of the file at ``url``, which from then on lies at ``place``.

    ``read`` refuses a file with a DataError, and the file is removed. Where another process has just
    brought the file, that one is read. Raises Unreachable where the network does not give it, and
    OSError where it cannot be kept.
    """
    part = place.parent / "partial" / place.name  # the full name, so that the reader knows its form
    part.parent.mkdir(parents=True, exist_ok=True)
    with _alone(part.with_name(f"{part.name}.lock")):
        if place.is_file():
            return read(place)
        log.info("downloading %s to %s", url, place.parent)
        _bring(url, part)
        try:
            content = read(part)
        except DataError:
            _discard(part)
            raise
        with replacing(_record(place)) as record:
            record.write_text(f"{_sha256(part)}  {place.name}\n")
        part.replace(place)
        _discard(part)
        return content


def refuse_changed(place: Path) -> None:
    """Refuse a download that no longer fits its checksum; files without one pass."""
    record = _record(place)
    if record.is_file() and record.read_text().split()[:1] != [_sha256(place)]:
        raise DataError(
            f"{place} has changed since it was downloaded; delete it, and it is downloaded again."
        )


def _record(place: Path) -> Path:
    return place.with_name(f"{place.name}.sha256")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time: the others wait, as when all ranks of a training start together."""
    with lock.open("w") as file:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- the transfer ------------------------------------------------------------------------------------


def _bring(url: str, part: Path) -> None:
    """Bring the whole file to ``part``, going on from what is there; several attempts."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _transfer(url, part)
        except _Interrupted as error:
            if attempt == ATTEMPTS:
                raise Unreachable(
                    f"{error}; {ATTEMPTS} attempts, the next call goes on from there"
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
            raise _Interrupted(f"the server sent bytes from {begin:,} on where {have:,} were asked for")
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
    """The server's answer, or None where it says that nothing is missing."""
    headers = {"User-Agent": "contig", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if _version(part).is_file():
            headers["If-Range"] = _version(part).read_text()
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
        assert isinstance(answer, http.client.HTTPResponse)
        return answer
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and have:
                _refuse_other_length(error, part, have)
                return None
            told = f"the server answers {error.code} {error.reason}"
            raise (_Interrupted if error.code in PASSING_STATUS else Unreachable)(told) from error
    except urllib.error.URLError as error:
        raise Unreachable(f"no connection: {error.reason}") from error
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"no answer: {error!r}") from error


def _refuse_other_length(error: urllib.error.HTTPError, part: Path, have: int) -> None:
    """Where the server has no bytes after those here, they are all of its file, or not of it."""
    if error.headers.get("Content-Range", "").rpartition("/")[2] != str(have):
        _discard(part)
        raise _Interrupted("what was here does not fit the server's file and was removed") from error


def _first_byte(response: http.client.HTTPResponse) -> int:
    """Where the body begins in the file: a server that ignores ranges answers 200 and sends it all."""
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
    """Keep what names this version of the file, so that a later attempt does not mix two."""
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
    """A bar on a terminal, nothing elsewhere; the function it gives is told how much has arrived."""
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
