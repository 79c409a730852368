"""Writing tensors to a file, with the operating system's own message if that fails."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import torch


class _Writer:
    """A file for torch, which reports a failed write only as a wrong position."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        self.file.flush()


def save_tensors(content: dict[str, Any], path: Path) -> None:
    """Save tensors and plain values; raises ``OSError`` where the disk is full."""
    with path.open("wb") as file:
        writer = _Writer(file)
        try:
            torch.save(content, writer)  # type: ignore[arg-type]
        except RuntimeError:
            if writer.error is not None:
                raise writer.error from None
            raise
