"""Predictions of test events as a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from support.problems import random_stream

from contig.data.splits import chronological_split
from contig.tasks.predictions import prediction_table


def test_labels_that_are_not_known_are_missing() -> None:
    stream = replace(random_stream(4, events=100), label=np.arange(100) % 3 - 1, t=np.arange(100))
    split = chronological_split(stream, holdout="none")
    table = prediction_table(stream, split, {"score": np.arange(15.0)})
    assert table["label"].to_pylist() == [None if i % 3 == 0 else i % 3 - 1 for i in range(85, 100)]
    names = stream.ids.labels
    assert table["dst"].to_pylist() == names[stream.dst[85:]].tolist()
    assert table["score"].to_pylist() == list(range(15))
