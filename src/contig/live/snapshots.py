"""Snapshots of an engine: files that are complete or not there, with checksums in their names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from contig.files import is_leftover, replacing, sha256
from contig.runs.writer import save_tensors

log = logging.getLogger("contig")

FOLDER = "snapshots"
SCHEMA = 1
DIGITS = 16  # of the checksum in a name


@dataclass(frozen=True)
class SnapshotFile:
    """A snapshot on disk: the number of batches of the log that it contains, and its checksum."""

    path: Path
    batches: int
    checksum: str

    @classmethod
    def of(cls, path: Path) -> SnapshotFile | None:
        """Read the name of a file; None if it is not that of a snapshot."""
        parts = path.stem.split("-")
        if path.suffix != ".pt" or len(parts) != 2 or not parts[0].isdigit() or len(parts[1]) != DIGITS:
            return None
        return cls(path, int(parts[0]), parts[1])


class SnapshotFolder:
    """The snapshots of one live folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER

    def files(self) -> list[SnapshotFile]:
        """Return the snapshots, newest first."""
        found = [SnapshotFile.of(path) for path in self.path.glob("*.pt")]
        return sorted((one for one in found if one is not None), key=lambda one: one.batches, reverse=True)

    def save(self, batches: int, content: dict[str, Any]) -> None:
        """Write a snapshot, completely or not at all; it is on disk when this returns."""
        draft = self.path / "draft.pt"
        with replacing(draft, durable=True) as part:
            save_tensors({"schema": SCHEMA, **content}, part)
            checksum = sha256(part)
        target = self.path / f"{batches:012}-{checksum[:DIGITS]}.pt"
        with replacing(target, durable=True) as part:
            draft.replace(part)

    def load_good(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the snapshots that are as they were written, newest first; warn about others."""
        for one in self.files():
            content = self._read(one)
            if content is not None:
                yield one.batches, content

    def _is_intact(self, file: SnapshotFile) -> bool:
        try:
            return sha256(file.path).startswith(file.checksum)
        except OSError:
            return False

    def _read(self, file: SnapshotFile) -> dict[str, Any] | None:
        try:
            if not sha256(file.path).startswith(file.checksum):
                problem = "it does not match its checksum"
            else:
                content: dict[str, Any] = torch.load(file.path, map_location="cpu", weights_only=True)
                if content.pop("schema", None) == SCHEMA:
                    return content
                problem = "it was written by another version"
        except Exception as error:  # unpickling a damaged file can raise anything
            problem = str(error) or type(error).__name__
        log.warning(f"Skipping the snapshot {file.path}: {problem}. An older one is used instead.")
        return None

    def prune(self, keep: int) -> list[SnapshotFile]:
        """Remove all but the newest snapshots and what killed processes left; return the good ones kept.

        A damaged snapshot does not count: the log must have what the good ones do not contain.
        """
        for path in self.path.glob(".*"):
            if is_leftover(path):
                path.unlink(missing_ok=True)
        (self.path / "draft.pt").unlink(missing_ok=True)
        kept: list[SnapshotFile] = []
        for one in self.files():
            if len(kept) == keep:
                one.path.unlink(missing_ok=True)
            elif self._is_intact(one):
                kept.append(one)
        return kept
