"""What all heuristics have in common."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.problems import random_stream, shape_of, tiny

from contig.errors import ConfigError
from contig.history import History
from contig.models import MODELS, model_class
from contig.models.heuristics.base import Heuristic

HEURISTICS = ["edgebank", "popularity", "recency", "transition"]


def test_models_that_do_not_learn_are_heuristics() -> None:
    found = [name for name in MODELS if not model_class(name).learns]
    assert found == HEURISTICS
    assert all(issubclass(model_class(name), Heuristic) for name in found)


@pytest.mark.parametrize("name", HEURISTICS)
@pytest.mark.parametrize(("method", "arguments"), [("embed", 5), ("score", 2)])
def test_a_heuristic_has_no_embeddings(name: str, method: str, arguments: int) -> None:
    nothing: list[Any] = [None] * arguments
    with pytest.raises(ConfigError, match=f"^{name} is a heuristic: it scores pairs and has no embeddings"):
        getattr(tiny(name, shape_of(random_stream(0))), method)(*nothing)


@pytest.mark.parametrize("name", ["edgebank", "popularity"])
@pytest.mark.parametrize("window", [0.0, -3.0, math.nan, math.inf])
def test_a_window_must_be_positive_and_finite(name: str, window: float) -> None:
    with pytest.raises(ConfigError, match=rf"^window={window} must be (above 0|finite)"):
        tiny(name, shape_of(random_stream(0)), window=window)


@pytest.mark.parametrize("name", ["edgebank", "popularity"])
def test_a_window_longer_than_the_stream_changes_nothing(name: str) -> None:
    stream = random_stream(4)
    history, nodes = History.from_stream(stream), torch.arange(9)
    times = torch.full((9,), int(stream.t[25]))
    answers = [
        model.link(model.new_state(9), history, nodes, nodes.repeat(9, 1), times, times[0])
        for model in (tiny(name, shape_of(stream), window=w) for w in (None, 1e30))
    ]
    assert torch.equal(answers[1], answers[0])
