"""Training in double precision, in which rounding hardly grows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from contig.kernels import dispatch


@contextmanager
def double_precision() -> Iterator[None]:
    """Compute in float64, by the torch reference of every operation, what models built in here compute."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.MonkeyPatch.context() as patch, dispatch.disabled():
            patch.setattr(Tensor, "float", Tensor.double)
            yield
    finally:
        torch.set_default_dtype(default)
