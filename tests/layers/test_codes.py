"""Codes of nodes: fixed, of independent signs, and known for nodes that no one has seen."""

from __future__ import annotations

import numpy as np
import torch

from contig.layers import NodeCodes

WORD = 2**64


def test_signs_are_bits_of_a_hash_of_the_number() -> None:
    """The same by Python's own numbers, far beyond 32 bits too."""
    codes = NodeCodes(7)
    nodes = [0, 1, 2, 96, 2**31 + 5, 2**40 + 11]
    first, second = codes.multipliers.tolist()

    def sign(node: int, a: int, b: int) -> float:
        mixed = (node + 1) * a % WORD
        high = mixed >> 32 | (0xFFFFFFFF << 32 if mixed >> 63 else 0)  # a shift of a signed number
        return -1.0 if (mixed ^ high) * b % WORD >> 63 else 1.0

    expected = [[sign(node, a, b) for a, b in zip(first, second, strict=True)] for node in nodes]
    assert codes(torch.tensor(nodes)).tolist() == expected


def test_codes_of_different_nodes_are_nearly_orthogonal() -> None:
    """As those of a coin are: over 512 signs the product of two has a standard deviation of 1 / 22.6."""
    torch.manual_seed(0)
    signs = NodeCodes(512)(torch.arange(300)).double().numpy()
    products = (signs @ signs.T / 512)[np.triu_indices(300, 1)]
    assert abs(products.mean()) < 0.005
    assert abs(products.std() - 512**-0.5) < 0.005
    assert np.abs(products).max() < 0.3


def test_codes_are_saved_with_the_weights() -> None:
    here, there = NodeCodes(9), NodeCodes(9)
    nodes = torch.tensor([[4, 5], [6, 7]])
    assert not torch.equal(here(nodes), there(nodes))
    there.load_state_dict(here.state_dict())
    assert torch.equal(here(nodes), there(nodes))
