"""Tensors in temporary files, for what is larger than memory.

Their pages are in the operating system's page cache: what does not fit into memory is written to the disk,
and read again when it is needed.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from contig.data.mapped_arrays import call_when_gone, is_read_in_advance
from contig.errors import ConfigError, DiskError
from contig.files import disk_errors


@dataclass(frozen=True, eq=False)
class FileTensor:
    """A tensor in a file."""

    rows: Tensor  # of the whole tensor, for access at random places
    memory: mmap.mmap | None = None  # that the rows are in; None if the tensor is empty
    file: int = -1  # its descriptor, which is closed together with the mapping

    def in_order(self) -> Tensor:
        """Return the same rows for a pass over all of them: the system reads the next ones in advance.

        They are a mapping of their own, which ends with the tensor that is returned.
        """
        if self.memory is None:
            return self.rows
        _advise(self.memory, "MADV_DONTNEED")  # of this mapping: its pages would count twice as memory
        mapped = mmap.mmap(self.file, len(self.memory))
        return torch.frombuffer(mapped, dtype=self.rows.dtype).view(self.rows.shape)


def file_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> FileTensor:
    """Return a tensor of zeros in a file of the temporary folder (``TMPDIR``).

    If it is large compared with the memory, its rows are read a page at a time. The space is reserved first:
    a full disk is an error here, not a crash when a page is written. The file has no name any more when this
    returns: it is gone with the tensor, however the process ends.
    """
    if not available():
        raise ConfigError("graph_in=disk: this system cannot reserve space for a file; use graph_in=device.")
    if not (count := math.prod(shape)):
        return FileTensor(torch.zeros(shape, dtype=dtype))
    nbytes = count * dtype.itemsize
    folder = _temporary_folder()
    with disk_errors(folder):
        number, name = tempfile.mkstemp(prefix="contig-state-", dir=folder)
        try:
            _reserve(number, nbytes, folder)
            memory = mmap.mmap(number, nbytes)
        except BaseException:
            os.close(number)
            raise
        finally:
            Path(name).unlink()
    call_when_gone(memory, os.close, number)
    if not is_read_in_advance(nbytes):
        _advise(memory, "MADV_RANDOM")
    return FileTensor(torch.frombuffer(memory, dtype=dtype).view(shape), memory, number)


def _advise(memory: mmap.mmap, advice: str) -> None:
    with suppress(OSError, AttributeError):  # only advice, which locked memory refuses, for instance
        memory.madvise(getattr(mmap, advice))


def available() -> bool:
    """Return whether this system can reserve space for a file."""
    return hasattr(os, "posix_fallocate")


def _temporary_folder() -> Path:
    given = os.environ.get("TMPDIR")
    if given and not Path(given).is_dir():
        raise ConfigError(f"TMPDIR={given!r}: is not a folder; with graph_in=disk it holds the node state.")
    return Path(tempfile.gettempdir())


def _reserve(number: int, nbytes: int, folder: Path) -> None:
    try:
        os.posix_fallocate(number, 0, nbytes)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise DiskError(
            f"{folder}: no space for {nbytes / 1e9:,.3g} GB of node state (graph_in=disk). Free some there, "
            "or set TMPDIR to a folder on a larger disk."
        ) from error
