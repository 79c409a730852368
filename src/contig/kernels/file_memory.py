"""Tensors in temporary files, for what is larger than memory.

Their pages are in the operating system's page cache: those used last stay in memory, others are written to
the disk and read again when they are needed.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from contig.errors import ConfigError, DiskError
from contig.files import disk_errors


class FileTensor(NamedTuple):
    """A tensor in a file, mapped twice: a change of one mapping is a change of the other."""

    rows: Tensor  # for access at random places, which reads a page at a time
    in_order: Tensor  # for passes over all rows, of which the system reads the next ones in advance


def file_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> FileTensor:
    """Return a tensor of zeros in a file of the temporary folder (``TMPDIR``).

    The space is reserved first: a full disk is an error here, not a crash when a page is written. The file
    has no name any more when this returns: it is gone with the tensor, however the process ends.
    """
    if not available():
        raise ConfigError("graph_in=disk: this system cannot reserve space for a file; use graph_in=device.")
    if not (count := math.prod(shape)):
        return FileTensor(*[torch.zeros(shape, dtype=dtype)] * 2)
    nbytes = count * dtype.itemsize
    folder = Path(tempfile.gettempdir())
    with disk_errors(folder):
        number, name = tempfile.mkstemp(prefix="contig-state-", dir=folder)
        try:
            _reserve(number, nbytes, folder)
            mapped = [mmap.mmap(number, nbytes) for _ in range(2)]
        finally:
            os.close(number)
            Path(name).unlink()
    # Otherwise reading one row from the disk brings its neighborhood along, in place of rows that are needed.
    mapped[0].madvise(mmap.MADV_RANDOM)
    return FileTensor(*(torch.frombuffer(memory, dtype=dtype).view(shape) for memory in mapped))


def available() -> bool:
    """Return whether this system can reserve space for a file."""
    return hasattr(os, "posix_fallocate")


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
