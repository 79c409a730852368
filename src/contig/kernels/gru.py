"""The gates of a gated recurrent unit (GRU)."""

from __future__ import annotations

import torch
from torch import Tensor

from contig.kernels.dispatch import backend


def gru_update(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    """Compute a GRU's next state ``[n, d]`` from its two linear maps ``[n, 3 d]``, as ``nn.GRUCell`` does."""
    if backend(state.device) == "numba":
        from contig.kernels.cpu import gru as compiled

        return compiled.gru_update(from_input, from_state, state)
    return _gru_update(from_input, from_state, state)


def _gru_update(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    reset_in, keep_in, new_in = from_input.chunk(3, dim=1)
    reset_own, keep_own, new_own = from_state.chunk(3, dim=1)
    reset, keep = torch.sigmoid(reset_in + reset_own), torch.sigmoid(keep_in + keep_own)
    new = torch.tanh(new_in + reset * new_own)
    return torch.lerp(new, state, keep)
