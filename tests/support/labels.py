"""Labeled streams, and label decoders small enough for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.tasks import label_decoding, label_trees
from support.problems import random_stream


def quick_classifiers(patch: pytest.MonkeyPatch) -> None:
    """Grow few trees and train decoders shortly, where nothing depends on their quality."""
    patch.setattr(label_trees, "ROUNDS", 5)
    patch.setattr(label_decoding, "VALIDATIONS", 2)
    patch.setattr(label_decoding, "STEPS", 20)


@pytest.fixture(autouse=True)
def short_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders that take milliseconds."""
    for name, value in {"STEP_ROWS": 32, "STEPS": 12, "VALIDATIONS": 9, "PATIENCE": 3}.items():
        monkeypatch.setattr(label_decoding, name, value)


def labeled(seed: int, events: int = 300, share: float = 0.3) -> EventStream:
    """A random stream in which about ``share`` of the events have label 1."""
    stream = random_stream(seed, events=events, num_nodes=20)
    label = (np.random.default_rng(seed).random(events) < share).astype(np.int64)
    return replace(stream, label=label)


def chargebacks(events: int = 3_000, *, bad: float = 0.5, good: float = 0.004) -> dict[str, NDArray[Any]]:
    """A log of orders in which 9 of 150 customers cause most of the chargebacks, with these probabilities.

    ``risk`` is the true probability of a chargeback given the customer: what a classifier can learn.
    """
    rng = np.random.default_rng(8)
    customer = rng.choice(150, events, p=np.r_[np.full(9, 0.006), np.full(141, (1 - 9 * 0.006) / 141)])
    risk = np.where(customer < 9, bad, good)
    label = (rng.random(events) < risk).astype(np.int64)
    product = rng.integers(0, 40, events)
    amount = np.exp(rng.normal(3, 0.8, events)) * np.where(label & (rng.random(events) < 0.3), 3, 1)
    columns = {"src": customer, "dst": 1000 + product, "t": np.arange(events), "amount": amount}
    return {**columns, "label": label, "risk": risk}
