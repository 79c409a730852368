"""Temporal walks against the events they use, and skip-gram against numbers computed by hand."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import random_stream, stream_of

from contig.history import History
from contig.models.bases.walks import (
    Bias,
    learn_vectors,
    noise_distribution,
    skip_gram_loss,
    temporal_walks,
    window_pairs,
)

BIASES: tuple[Bias, ...] = ("uniform", "linear")


def walks_of(history: History, count: int, length: int, seed: int, *bias: Bias) -> list[list[int]]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        walks = temporal_walks(history, count, length, *bias)
    assert walks.shape == (count, length)
    found = []
    for row in walks.tolist():
        end = row.index(-1) if -1 in row else length
        assert set(row[end:]) <= {-1}
        found.append(row[:end])
    return found


def latest_ways(events: list[tuple[int, int, float]], walk: list[int]) -> set[float]:
    """The times at which a walk can have reached its last node, each step strictly later than the last."""
    now = {-math.inf}
    for a, b in pairwise(walk):
        now = {t for s, d, t in events if {s, d} == {a, b} and any(t > before for before in now)}
    return now


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(BIASES), st.sampled_from(BIASES), st.booleans())
def test_walks_go_forward_in_time_and_end_without_later_events(
    seed: int, start: Bias, step: Bias, real: bool
) -> None:
    stream = random_stream(seed, events=25, num_nodes=7, edge_width=0)
    events = [(int(s), int(d), float(t)) for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True)]
    if real:
        events = [(s, d, t / 3) for s, d, t in events]
    history = History.from_stream(stream_of(events, 7, float_times=real))
    for walk in walks_of(history, 30, 6, seed, start, step):
        assert len(walk) >= 2
        ways = latest_ways(events, walk)
        assert ways
        if len(walk) < 6:  # its last node has no later event
            assert max(t for s, d, t in events if walk[-1] in (s, d)) in ways


def test_walks_use_only_the_events_of_the_history() -> None:
    stream = random_stream(3, events=40, num_nodes=8, edge_width=0)
    held = np.flatnonzero(np.arange(40) % 3 != 0)
    events = [(int(stream.src[i]), int(stream.dst[i]), float(stream.t[i])) for i in held]
    history = History.from_stream(stream).only(held)
    assert all(latest_ways(events, walk) for walk in walks_of(history, 200, 5, 0))


@pytest.mark.parametrize("bias", BIASES)
def test_the_distribution_of_first_events(bias: Bias) -> None:
    """Five events between ten nodes; the r-th starts a walk with weight r, or all equally."""
    history = History.from_stream(stream_of([(2 * i, 2 * i + 1, i) for i in range(5)], 10))
    n = 30_000
    begun = Counter(tuple(walk) for walk in walks_of(history, n, 2, 1, bias))
    weight = np.arange(1, 6) if bias == "linear" else np.ones(5)
    share = weight / weight.sum()
    for i in range(5):
        ways = begun[2 * i, 2 * i + 1], begun[2 * i + 1, 2 * i]
        spread = math.sqrt(n * share[i] * (1 - share[i]))
        assert abs(sum(ways) - n * share[i]) < 4.5 * spread
        assert abs(ways[0] - ways[1]) < 4.5 * math.sqrt(sum(ways))


@pytest.mark.parametrize("bias", BIASES)
def test_the_distribution_of_next_events(bias: Bias) -> None:
    """From node 1 at time 5 four later events lead to 3, 4, 5 and 6; the one to 2 is at time 5 itself."""
    later = [(1, 3, 6), (4, 1, 7), (1, 5, 8), (1, 6, 9)]
    stream = stream_of([(9, 1, 1), (8, 1, 4), (0, 1, 5), (1, 2, 5), *later], 10)
    history = History.from_stream(stream)
    third = Counter(
        walk[2] for walk in walks_of(history, 80_000, 3, 2, "uniform", bias) if walk[:2] == [0, 1]
    )
    n = third.total()
    assert n > 4000
    share = np.array([4, 3, 2, 1]) / 10 if bias == "linear" else np.full(4, 0.25)
    assert set(third) == {3, 4, 5, 6}
    for node, p in zip((3, 4, 5, 6), share, strict=True):
        assert abs(third[node] - n * p) < 4.5 * math.sqrt(n * p * (1 - p))


def test_the_pairs_of_a_window() -> None:
    walks = torch.tensor([[5, 6, 7, 5], [1, 2, -1, -1]])
    for window in (1, 2, 9):
        expected = Counter(
            (walk[i], walk[j])
            for walk in ([5, 6, 7, 5], [1, 2])
            for i in range(len(walk))
            for j in range(len(walk))
            if 0 < abs(i - j) <= window
        )
        assert Counter(map(tuple, window_pairs(walks, window).tolist())) == expected


def test_the_loss_by_hand() -> None:
    """Two pairs with two negatives each: the inner products are 2, -1, 0 and 1, 3, -2."""
    node = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    other = torch.tensor([[2.0, 9.0], [9.0, 1.0]])
    noise = torch.tensor([[[-1.0, 9.0], [0.0, 9.0]], [[9.0, 3.0], [9.0, -2.0]]])

    def cost(x: float) -> float:
        return math.log1p(math.exp(-x))

    expected = (cost(2) + cost(1) + cost(0) + cost(1) + cost(-3) + cost(2)) / 2
    assert float(skip_gram_loss(node, other, noise)) == pytest.approx(expected)


@pytest.mark.parametrize(("power", "weights"), [(0.0, [1, 0, 1, 1, 0]), (2.0, [1, 0, 16, 4, 0])])
def test_the_noise_distribution(power: float, weights: list[int]) -> None:
    walks = torch.tensor([[2, 3, 2, 0], [2, 3, 2, -1]])
    expected = np.cumsum(weights) / np.sum(weights)
    assert noise_distribution(walks, 5, power).tolist() == pytest.approx(expected.tolist())


def test_nodes_on_the_same_walks_get_similar_vectors() -> None:
    """Two groups of four nodes that never mix."""
    draw = np.random.default_rng(0)
    walks = torch.tensor([(draw.permutation(4) + 4 * (i % 2)).tolist() for i in range(200)])
    start = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    kept = start.clone()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = learn_vectors(walks, start, window=2, negatives=3, power=0.75, passes=12, lr=0.05, at_once=20)
    assert torch.equal(start, kept)
    near = torch.nn.functional.normalize(found) @ torch.nn.functional.normalize(found).T
    same = torch.block_diag(torch.ones(4, 4), torch.ones(4, 4)) - torch.eye(8)
    assert float(near[same == 1].min()) > float(near[(same == 0) & ~torch.eye(8, dtype=bool)].max())


def test_two_steps_by_hand() -> None:
    """Contexts start at zero: the first step moves only them, each by lr along the vector of its neighbor.

    The second step finds each vector near a context of its own signs, and pulls it that way.
    """
    start = torch.tensor([[1.0, -2.0], [3.0, 4.0], [5.0, 6.0]])
    options: dict[str, Any] = {"window": 1, "negatives": 0, "power": 0.0, "lr": 0.5, "at_once": 1}
    walks = torch.tensor([[0, 1]])
    assert torch.equal(learn_vectors(walks, start, passes=1, **options), start)
    found = learn_vectors(walks, start, passes=2, **options)
    # Adam's first gradient was zero, its second g: lr * (0.1 g / 0.19) / sqrt(0.001 g^2 / 0.001999)
    step = 0.5 * (0.1 / 0.19) / math.sqrt(0.001 / 0.001999)
    toward = torch.tensor([[1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])  # node 2 is on no walk
    torch.testing.assert_close(found, start + step * toward, rtol=1e-4, atol=1e-4)
