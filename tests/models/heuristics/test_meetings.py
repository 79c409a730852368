"""The index of meetings by pair, and what every rule refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.heuristics import rows
from support.problems import random_stream, shape_of, stream_of, tiny

from contig.errors import ConfigError
from contig.history import History
from contig.models import MODELS, model_class
from contig.models.heuristics.meetings import Meetings

HOLDOUTS = [name for name in MODELS if not model_class(name).learns]


@pytest.mark.parametrize("seed", range(3))
def test_ages_by_brute_force(seed: int) -> None:
    """Nodes beyond those of the history and pairs below, between and above the known ones."""
    stream = random_stream(seed, num_nodes=6, events=37)
    found = Meetings(History.from_stream(stream))
    src, dst = torch.arange(8), torch.arange(8).repeat(8, 1)
    for t in (0, 7, int(stream.t[20]), 500):
        ages = found.age(src, dst, torch.full((8,), t))
        for a, b in ((a, b) for a in range(8) for b in range(8)):
            past = [t - when for x, y, when in rows(stream) if (x, y) == (a, b) and when < t]
            assert float(ages[a, b]) == min(past, default=math.inf)


def test_ages_are_exact_at_nanoseconds() -> None:
    """Not even float64 holds these times; their differences it does."""
    now = 1_700_000_000_000_000_001
    found = Meetings(History.from_stream(stream_of([(0, 1, now)], 2)))
    times = torch.tensor([now, now + 1, now + 7])
    ages = found.age(torch.tensor([0, 0, 0]), torch.tensor([[1], [1], [1]]), times)
    assert ages.squeeze(1).tolist() == [math.inf, 1.0, 7.0]


def test_a_history_of_nothing() -> None:
    ages = Meetings(History.empty(3)).age(torch.tensor([0]), torch.tensor([[1, 2]]), torch.tensor([4]))
    assert ages.tolist() == [[math.inf, math.inf]]


@pytest.mark.parametrize("name", HOLDOUTS)
@pytest.mark.parametrize(("method", "arguments"), [("embed", 5), ("score", 2)])
def test_a_rule_has_no_embeddings(name: str, method: str, arguments: int) -> None:
    nothing: list[Any] = [None] * arguments
    with pytest.raises(ConfigError, match=f"^{name} scores pairs and has no embeddings"):
        getattr(tiny(name, shape_of(random_stream(0))), method)(*nothing)


@pytest.mark.parametrize("name", ["edgebank", "popularity"])
@pytest.mark.parametrize("window", [0.0, -3.0, math.nan, math.inf])
def test_a_window_must_have_an_extent_and_an_end(name: str, window: float) -> None:
    with pytest.raises(ConfigError, match=rf"^window={window}: give a number (above 0|below inf)"):
        tiny(name, shape_of(random_stream(0)), window=window)


@pytest.mark.parametrize("name", ["edgebank", "popularity"])
def test_a_window_longer_than_the_stream_is_none(name: str) -> None:
    stream = random_stream(4)
    history, nodes = History.from_stream(stream), torch.arange(9)
    times = torch.full((9,), int(stream.t[25]))
    answers = [
        model.link(model.new_state(9), history, nodes, nodes.repeat(9, 1), times, times[0])
        for model in (tiny(name, shape_of(stream), window=w) for w in (None, 1e30))
    ]
    assert torch.equal(answers[1], answers[0])
