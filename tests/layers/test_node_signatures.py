"""Signatures of nodes: fixed, of independent signs, and defined for nodes that never appeared."""

from __future__ import annotations

import numpy as np
import torch

from contig.layers import NodeSignatures

WORD = 2**64


def test_signs_are_bits_of_a_hash_of_the_id() -> None:
    """The same in Python's integers, far beyond 32 bits too."""
    signatures = NodeSignatures(7)
    nodes = [0, 1, 2, 96, 2**31 + 5, 2**40 + 11]
    first, second = signatures.multipliers.tolist()

    def sign(node: int, a: int, b: int) -> float:
        mixed = (node + 1) * a % WORD
        high = mixed >> 32 | (0xFFFFFFFF << 32 if mixed >> 63 else 0)  # the shift of a signed number
        return -1.0 if (mixed ^ high) * b % WORD >> 63 else 1.0

    expected = [[sign(node, a, b) for a, b in zip(first, second, strict=True)] for node in nodes]
    assert signatures(torch.tensor(nodes)).tolist() == expected


def test_signatures_of_different_nodes_are_nearly_orthogonal() -> None:
    """As for coin flips: over 512 signs the product of two has a standard deviation of 1 / 22.6."""
    torch.manual_seed(0)
    signs = NodeSignatures(512)(torch.arange(300)).double().numpy()
    products = (signs @ signs.T / 512)[np.triu_indices(300, 1)]
    assert abs(products.mean()) < 0.005
    assert abs(products.std() - 512**-0.5) < 0.005
    assert np.abs(products).max() < 0.3


def test_signatures_are_saved_with_the_weights() -> None:
    here, there = NodeSignatures(9), NodeSignatures(9)
    nodes = torch.tensor([[4, 5], [6, 7]])
    assert not torch.equal(here(nodes), there(nodes))
    there.load_state_dict(here.state_dict())
    assert torch.equal(here(nodes), there(nodes))
