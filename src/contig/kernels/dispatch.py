"""Choose the compiled backend of a device: numba on a CPU, Triton on a GPU, torch otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Backend = Literal["numba", "triton", "torch"]

# A package without a build for this platform is not installed; torch then computes the same.
_BACKENDS: dict[str, Backend] = {
    "cpu": "numba" if find_spec("numba") is not None else "torch",
    "cuda": "triton" if find_spec("triton") is not None else "torch",
}
# Blocks of ``disabled`` that are open. A global, because torch.compile cannot trace a ContextVar.
_disabled = 0


def backend(device: torch.device) -> Backend:
    """Return the backend for tensors on ``device``."""
    return _BACKENDS.get(device.type, "torch") if not _disabled else "torch"


@contextmanager
def disabled() -> Iterator[None]:
    """Run the torch reference of every operation in all threads, for tests and benchmarks."""
    global _disabled
    _disabled += 1
    try:
        yield
    finally:
        _disabled -= 1
