"""Tensors in temporary files, for what is larger than memory.

Their pages are in the operating system's page cache: those used last stay in memory, others are written to
the disk and read again when they are needed.
"""

from __future__ import annotations

import errno
import math
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from contig.errors import ConfigError, DiskError
from contig.files import disk_errors


def file_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a tensor of zeros in a file of the temporary folder (``TMPDIR``).

    The space is reserved first: a full disk is an error here, not a crash when a page is written. The file
    has no name any more when this returns: it is gone with the tensor, however the process ends.
    """
    if not available():
        raise ConfigError("graph_in=disk: this system cannot reserve space for a file; use graph_in=device.")
    count = math.prod(shape)
    if not count:
        return torch.zeros(shape, dtype=dtype)
    nbytes = count * dtype.itemsize
    folder = Path(tempfile.gettempdir())
    with disk_errors(folder):
        number, name = tempfile.mkstemp(prefix="contig-state-", dir=folder)
        try:
            _reserve(number, nbytes, folder)
            return torch.from_file(name, shared=True, size=count, dtype=dtype).view(shape)
        finally:
            os.close(number)
            Path(name).unlink()


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
