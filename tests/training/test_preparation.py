"""Streams that cannot be trained on are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY

from contig.data.events import EventStream
from contig.errors import DataError, RunError
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

CPU = torch.device("cpu")


def config(model: str = "contig", **settings: Any) -> RunConfig:
    return RunConfig.of(model, {**(TINY if model == "contig" else {}), **settings})


def test_a_stream_too_short_to_split() -> None:
    with pytest.raises(RunError, match="part is empty"):
        prepare(EventStream.from_arrays([1, 2], [3, 4], [0, 0]), config(), CPU)


def test_a_stream_of_ever_new_nodes() -> None:
    n = np.arange(40)
    stream = EventStream.from_arrays(n, n % 2 + 100, n)
    with pytest.raises(RunError, match="holdout=tgn"):
        prepare(stream, config(holdout="paper"), CPU)


def test_a_stream_without_negatives() -> None:
    """Every source meets the only destination."""
    n = np.arange(40)
    data = prepare(EventStream.from_arrays(n % 3, n * 0 + 100, n), config(), CPU)
    with pytest.raises(DataError, match="so there is no negative"):
        Session(data, config()).train_step()


@pytest.mark.parametrize(
    ("holdout", "cure"), [("tgn", "ctdne cannot score new nodes"), ("paper", "use holdout=tgn")]
)
def test_a_validation_part_without_known_nodes(holdout: str, cure: str) -> None:
    """A model that cannot score new nodes has no validation AP to choose its best epoch by."""
    n = np.arange(200)
    stream = EventStream.from_arrays(n // 140 * 50 + n % 7, 10 + n // 140 * 50 + n % 5, n)
    with pytest.raises(RunError, match=f"no validation event is between two nodes.*{cure}"):
        prepare(stream, config("ctdne", holdout=holdout), CPU)
