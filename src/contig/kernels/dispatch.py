"""Which compiled code runs on a device: numba's loops on a CPU, Triton's kernels on a GPU, else torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Backend = Literal["numba", "triton", "torch"]

# Where a package has no build for the platform, torch operations compute the same.
_BACKENDS: dict[str, Backend] = {
    "cpu": "numba" if find_spec("numba") is not None else "torch",
    "cuda": "triton" if find_spec("triton") is not None else "torch",
}
_enabled = True


def backend(device: torch.device) -> Backend:
    """The compiled code for tensors on ``device``; ``torch`` where there is none."""
    return _BACKENDS.get(device.type, "torch") if _enabled else "torch"


@contextmanager
def disabled() -> Iterator[None]:
    """Use torch operations only: the reference that compiled code is compared with."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before
