"""Labeled streams, and label decoders small enough for tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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
