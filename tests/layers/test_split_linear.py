"""Linear maps of parts against torch's own of the concatenation."""

from __future__ import annotations

import pytest
import torch
from support.parts import WIDTHS, check_same, random_parts
from torch import nn

from contig.layers import SplitLinear


@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_the_linear_map_of_the_concatenation(seed: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ours, theirs = SplitLinear(sum(WIDTHS), 7), nn.Linear(sum(WIDTHS), 7)
    theirs.load_state_dict(ours.state_dict())
    parts = random_parts(seed)
    check_same(ours, theirs, ours(*parts), theirs(torch.cat(parts, dim=1)), parts)
