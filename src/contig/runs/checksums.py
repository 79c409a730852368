"""The checksums of a run's files, in ``checksums.json``: damage is noticed when a file is opened.

The checksum of a new version of a file is added before the file itself is replaced, and that of the version
before stays: whenever a process is killed, every file matches one of its checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contig.errors import RunError
from contig.files import disk_error, replacing, sha256, write_json
from contig.schema import Json, Record, decode, encode, read_versioned

FILE = "checksums.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ChecksumFile(Record):
    """The content of ``checksums.json``: SHA-256 of the versions of each file, the latest first."""

    files: dict[str, tuple[str, ...]]


class Checksums:
    """The checksums of the files of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """Yield a temporary path that replaces the file ``name`` and its checksum."""
        with replacing(self.folder / name, durable=True) as part:
            yield part
            self.record({name: sha256(part)})

    def record(self, found: dict[str, str]) -> None:
        """Add the checksums of files that are about to get these names."""
        known = self._read()
        for name, checksum in found.items():
            before = self._present(name, known.get(name, ()))
            known[name] = (checksum, *(one for one in before if one != checksum))
        self._write(known)

    def _present(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """Return the checksum that the file has now: a replacement may have failed since one was added."""
        if len(known) < 2 or not (self.folder / name).exists():
            return known[:1]
        return tuple(one for one in known if one == self._checksum(name)) or known[:1]

    def forget(self, names: Iterable[str]) -> None:
        """Drop files that are removed."""
        gone = set(names)
        known = self._read()
        if gone & known.keys():
            self._write({name: checksums for name, checksums in known.items() if name not in gone})

    @property
    def exist(self) -> bool:
        """Whether the run has checksums; those of older versions do not."""
        return (self.folder / FILE).exists()

    def is_missing(self, name: str) -> bool:
        """Return whether a file is listed, but gone; or was never finished, if a process was killed."""
        return not (self.folder / name).exists() and name in self._read()

    def names(self, prefix: str) -> list[str]:
        """Return the files whose names start with a prefix."""
        return [name for name in self._read() if name.startswith(prefix)]

    def verify(self, name: str) -> None:
        """Raise ``RunError`` if a file is missing or not as it was written."""
        for _ in range(3):  # a training that goes on may replace both files in between
            known = self._read().get(name)
            if known is None:
                raise RunError(f"{self.folder / name} is not a file of this run: {FILE} does not list it.")
            if self._checksum(name) in known:
                return
        raise RunError(
            f"{self.folder / name} is damaged: it does not match its checksum in {FILE}. Restore the file "
            "from a copy of the run, or train again."
        )

    def _checksum(self, name: str) -> str:
        path = self.folder / name
        try:
            return sha256(path)
        except FileNotFoundError:
            raise RunError(
                f"{path} is missing; the run is damaged. Restore the file from a copy, or train again."
            ) from None
        except OSError as error:
            raise disk_error(error, path) from error

    def _read(self) -> dict[str, tuple[str, ...]]:
        path = self.folder / FILE
        if not path.exists():
            return {}
        return dict(decode(ChecksumFile, read_versioned(path, SCHEMA, lambda content: content), path).files)

    def _write(self, files: dict[str, tuple[str, ...]]) -> None:
        content: Json = {"schema": SCHEMA, **encode(ChecksumFile(files=files))}
        write_json(self.folder / FILE, content, durable=True)
