"""Pool the tokens of one side of many pairs: mean, maximum and latest of ``gelu(own + related W)``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from contig.kernels.dispatch import backend

POOLS = 3  # mean, maximum, latest


class OwnTokens(NamedTuple):
    """The tokens of nodes ``[n]``, without those nodes' partners in pairs."""

    hidden: Tensor  # [n, k, width]
    active: Tensor  # [n, k, width]: its gelu
    mask: Tensor  # [n, k]; the first tokens exist

    @classmethod
    def of(cls, hidden: Tensor, mask: Tensor) -> OwnTokens:
        """Activate the tokens of nodes."""
        return cls(hidden, torch.nn.functional.gelu(hidden), mask)

    def pooled(self) -> Tensor:
        """Pool the tokens of nodes that relate to nothing: ``[n, POOLS * width]``."""
        return pool(self.active, self.mask)


def pool(active: Tensor, mask: Tensor) -> Tensor:
    """Pool ``[..., k, width]`` over ``k``: mean, maximum, latest; zeros for a node without tokens.

    ``mask`` is ``[..., k]`` or broadcasts to it.
    """
    if backend(active.device) == "numba":
        from contig.kernels.cpu import token_pool as loops

        return loops.pool(active, mask)
    exists = mask.unsqueeze(-1)
    masked = active * exists
    mean = masked.sum(-2) / exists.sum(-2).clamp(min=1)
    return torch.cat([mean, masked.amax(-2), masked[..., 0, :]], -1)


@torch.no_grad()
def pool_related(own: OwnTokens, related: Tensor, weight: Tensor, side: int) -> Tensor:
    """Pool the tokens of pairs ``[a, b]`` as they relate to the other node: ``[a, b, POOLS * width]``.

    ``own`` has the tokens of the ``a`` nodes (side 0) or of the ``b`` nodes (side 1). ``related`` is
    ``[a, b, k, features]``, ``weight`` is ``[width, features]``. Tokens whose features are all zero cost
    little.
    """
    if backend(related.device) == "numba":
        from contig.kernels.cpu import token_pool as loops

        return loops.pool_related(own, related, weight, side)
    return _pool_related(own, related, weight, side)


def _pool_related(own: OwnTokens, related: Tensor, weight: Tensor, side: int) -> Tensor:
    pooled = own.pooled().unsqueeze(1 - side).expand(*related.shape[:2], -1)
    pairs = related.flatten(-2).any(-1).nonzero(as_tuple=True)
    owner = pairs[side]
    hidden = own.hidden[owner] + related[pairs] @ weight.T
    return pooled.index_put(pairs, pool(torch.nn.functional.gelu(hidden), own.mask[owner]))
