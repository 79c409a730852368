"""Evidence about the events of an index, in files next to it: built once, in bounded memory, then mapped."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contig.caches import is_writable
from contig.data.index_folder import IndexedFile, read_head
from contig.data.mapped_arrays import create_array, map_growing, map_private
from contig.errors import ContigError, DataError
from contig.files import sync, write_json
from contig.kernels.keyed_events import LAYOUT, KeyedEvents
from contig.locks import is_abandoned, locked
from contig.schema import decode, encode

log = logging.getLogger("contig")

HEAD = "evidence.json"
WORK = ".evidence-"  # how the names of folders begin in which a process is building
ARRAYS = ("table", "entry_time", "entry_decayed")
FORMAT = 2  # of the files, next to the layout of arrays; to be raised when keys are packed in another way
EVENTS_AT_ONCE = 1 << 18
Parts = Callable[[], Iterator[tuple[Tensor, Tensor]]]  # keys and times, in stream order


def evidence_folder(index: Path, spec: object) -> Path | None:
    """Return where the evidence of an index is stored, or would be; None if nothing can be written there."""
    head = read_head(index)
    home = Path(head.home) if head.home and Path(head.home).is_dir() else index
    events = [head.files[f"{name}.npy"].sha256 for name in ("src", "dst", "t")]
    content = json.dumps([FORMAT, LAYOUT, repr(spec), events])
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    folder = home / f"evidence-{digest}"
    return folder if folder.is_dir() or is_writable(home) else None


def stored(
    folder: Path, parts: dict[str, tuple[Parts, tuple[float, ...]]], time: torch.dtype
) -> list[KeyedEvents]:
    """Map the structures of a folder, which are built first where they are not there yet."""
    if not (folder / HEAD).is_file():
        _build(folder, parts, time)
    try:
        head = json.loads((folder / HEAD).read_text("utf-8"))
        for name in parts:
            _verify(folder, name, head[name])
        return [_mapped(folder, name, head[name]) for name in parts]
    except (OSError, ValueError, KeyError, TypeError, ContigError) as error:
        raise DataError(f"{folder} is damaged ({error}); remove it, and it is built again.") from error


def _build(folder: Path, parts: dict[str, tuple[Parts, tuple[float, ...]]], time: torch.dtype) -> None:
    """Build everything in a folder of its own, which then gets its name."""
    _remove_abandoned(folder.parent)
    log.info(f"counting the events of pairs, once for this index, in {folder}")
    with _work_folder(folder.parent) as work:
        head: dict[str, Any] = {}
        for name, (make, decay_times) in parts.items():
            files = _Files(work, name)
            keyed = KeyedEvents.of_parts(make, decay_times, time, files.zeros)
            files.finish(keyed)
            head[name] = {
                "keys": keyed.num_keys,
                "used": keyed.used,
                "decay_times": list(decay_times),
                "files": {array: encode(IndexedFile.of(_path(work, name, array))) for array in ARRAYS},
            }
        write_json(work / HEAD, head, durable=True)
        if not (folder / HEAD).is_file():  # else another process was faster
            shutil.rmtree(folder, ignore_errors=True)
            work.chmod(0o755)
            _rename(work, folder)


@contextmanager
def _work_folder(home: Path) -> Iterator[Path]:
    """Create a folder to build in, which is removed at the end.

    It is in another one, whose lock says that this process is alive: a locked folder cannot get another name
    everywhere, and its lock must not get into the evidence.
    """
    outer = Path(tempfile.mkdtemp(dir=home, prefix=WORK))
    try:
        with locked(outer, wait=True):  # another process may be checking whether it is abandoned
            work = outer / "building"
            work.mkdir()
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _remove_abandoned(home: Path) -> None:
    """Remove what processes that were killed while they built have left."""
    for work in home.glob(f"{WORK}*"):
        if is_abandoned(work):
            log.info(f"removing {work}, left by a process that was killed while it counted")
            shutil.rmtree(work, ignore_errors=True)


def _rename(work: Path, folder: Path) -> None:
    try:
        work.rename(folder)
    except OSError:  # another process may have been faster by a moment
        if not (folder / HEAD).is_file():
            raise


class _Files:
    """The arrays of one structure while it is built."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.paths = folder, name, dict[str, Path]()

    def zeros(self, array: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Create an array in a file; one that was created before under this name may still be read."""
        path = self.folder / f"{self.name}.{array}.{len(shape)}x{shape[0]}.npy"
        kind = torch.empty(0, dtype=dtype).numpy().dtype
        made = create_array(path, shape, kind)
        if array in self.paths:
            self.paths[array].unlink()
        self.paths[array] = path
        return torch.from_numpy(np.asarray(made))

    def finish(self, keyed: KeyedEvents) -> None:
        """Give every array its final file."""
        for array in ARRAYS:
            target = _path(self.folder, self.name, array)
            if array in self.paths:
                self.paths[array].rename(target)
            else:  # so small that it was never enlarged
                np.save(target, getattr(keyed, array).numpy())
            sync(target)


def _path(folder: Path, name: str, array: str) -> Path:
    return folder / f"{name}.{array}.npy"


def _verify(folder: Path, name: str, head: dict[str, Any]) -> None:
    """Raise ``ValueError`` for a file that is not as it was written; older evidence has no checksums."""
    for array in ARRAYS if "files" in head else ():
        path = _path(folder, name, array)
        if not decode(IndexedFile, head["files"][array], folder / HEAD).matches(path):
            raise ValueError(f"{path.name} does not match its checksum")


def _mapped(folder: Path, name: str, head: dict[str, Any]) -> KeyedEvents:
    table, time, decayed = (_path(folder, name, array) for array in ARRAYS)
    return KeyedEvents(
        table=torch.from_numpy(np.asarray(map_private(table, scattered=True))),
        entry_time=torch.from_numpy(np.asarray(map_growing(time, scattered=True))),
        entry_decayed=torch.from_numpy(np.asarray(map_growing(decayed, scattered=True))),
        decay_times=torch.tensor(head["decay_times"], dtype=torch.float64),
        num_keys=head["keys"],
        used=head["used"],
    )
