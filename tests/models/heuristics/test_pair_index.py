"""The index of events by pair, against brute force."""

from __future__ import annotations

import math

import pytest
import torch
from support.heuristics import rows
from support.problems import random_stream, stream_of

from contig.history import History
from contig.models.heuristics.pair_index import PairIndex


@pytest.mark.parametrize("seed", range(3))
def test_ages_by_brute_force(seed: int) -> None:
    """With nodes that the history does not have, and pairs below, between and above the known ones."""
    stream = random_stream(seed, num_nodes=6, events=37)
    found = PairIndex(History.from_stream(stream))
    src, dst = torch.arange(8), torch.arange(8).repeat(8, 1)
    for t in (0, 7, int(stream.t[20]), 500):
        ages = found.age(src, dst, torch.full((8,), t))
        for a, b in ((a, b) for a in range(8) for b in range(8)):
            past = [t - when for x, y, when in rows(stream) if (x, y) == (a, b) and when < t]
            assert float(ages[a, b]) == min(past, default=math.inf)


def test_ages_are_exact_at_nanoseconds() -> None:
    """Float64 cannot hold these times, but it holds their differences."""
    now = 1_700_000_000_000_000_001
    found = PairIndex(History.from_stream(stream_of([(0, 1, now)], 2)))
    times = torch.tensor([now, now + 1, now + 7])
    ages = found.age(torch.tensor([0, 0, 0]), torch.tensor([[1], [1], [1]]), times)
    assert ages.squeeze(1).tolist() == [math.inf, 1.0, 7.0]


def test_an_empty_history() -> None:
    ages = PairIndex(History.empty(3)).age(torch.tensor([0]), torch.tensor([[1, 2]]), torch.tensor([4]))
    assert ages.tolist() == [[math.inf, math.inf]]
