"""A prepared stream: its history, and the history of its training events alone."""

from __future__ import annotations

import pytest
import torch
from support.problems import random_stream

from contig.data.splits import Holdout, chronological_split
from contig.streaming.prepared import PreparedStream


@pytest.mark.parametrize("holdout", ["tgn", "paper"])
def test_the_past_of_every_node(holdout: Holdout) -> None:
    stream = random_stream(5, events=61, num_nodes=13)
    split = chronological_split(stream, holdout=holdout)
    data = PreparedStream.of(stream, split, torch.device("cpu"))
    after_all = torch.full((13,), int(stream.t[-1]) + 1)
    for history, events in ((data.history, range(61)), (data.training, split.train.tolist())):
        found = history.before(torch.arange(13), after_all, 61)
        for node in range(13):
            expected = [e for e in events if node in (stream.src[e], stream.dst[e])]
            rows = found.event[node][found.mask[node]].tolist()
            assert sorted(set(rows)) == expected
    assert len(split.train) < 61
