"""Ranking at the time of each event, of the batch, and both mixed."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.ranking import MixedRanker, Trained, measure_ranking_times
from contig.data.negatives import Negatives
from contig.models import EventBatch


@pytest.fixture(scope="module")
def trained(bench: Bench) -> Trained:
    return Trained.from_bench(bench)


def test_the_state_is_that_before_the_test_events(bench: Bench, trained: Trained) -> None:
    """The latest event of a node is its last one before the test."""
    count = int(trained.test[0])
    latest = {}
    for event, pair in enumerate(zip(bench.stream.src[:count], bench.stream.dst[:count], strict=True)):
        latest.update(dict.fromkeys(map(int, pair), event))
    assert trained.state.position == count
    assert trained.state["last"][list(latest)].tolist() == list(latest.values())


def test_mixed_ranks_by_hand(trained: Trained) -> None:
    """One query at a time: the source at its own time, each candidate at that of the first event."""
    events = trained.test[:13]
    negatives = Negatives(trained.stream, events=events)
    state = trained.state.clone()
    found = MixedRanker(trained.model, state, trained.history, len(events), negatives)(events)
    batch = EventBatch.of(trained.history, torch.from_numpy(events))
    candidates, true = negatives.candidates(batch.event)
    trained.model.eval()
    expected = []
    with torch.no_grad():
        first = batch.t[0]

        def embed(node: torch.Tensor, when: torch.Tensor) -> torch.Tensor:
            return trained.model.embed(trained.state, trained.history, node[None], when[None], first)

        others = torch.cat([embed(node, first) for node in candidates])
        for row, (src, dst, t) in enumerate(zip(batch.src, batch.dst, batch.t, strict=True)):
            scores = trained.model.score_all(embed(src, t), others)[0].tolist()
            own = scores[candidates.tolist().index(int(dst))]
            rivals = [s for s, skip in zip(scores, true[row].tolist(), strict=True) if not skip]
            expected.append(1 + sum(s > own + 1e-6 for s in rivals))
    assert np.array_equal(found, expected)
    assert len(set(expected)) > 2


def test_every_call_ranks_from_the_same_state(bench: Bench) -> None:
    rows = list(measure_ranking_times(bench))
    assert [row.peer_name.split()[0] for row in rows] == ["all", "only"]
    (first,), (second,) = (re.findall(r"^MRR ([\d.]+)%", row.note) for row in rows)
    assert first == second
