"""Recommendation as a task: its selections and its options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.evaluation import context_of
from support.problems import (
    case,
    random_stream,
    shape_of,
    tiny,
)

from contig.data.negatives import Negatives
from contig.data.splits import HOLDOUTS, Holdout, chronological_split
from contig.errors import ConfigError, RunError
from contig.tasks.context import EvaluationContext
from contig.tasks.metrics import rank_metrics
from contig.tasks.ranking import Ranker, sample_negatives
from contig.tasks.recommend import RecommendOptions, RecommendResult, RecommendTask, recommend_report
from contig.tasks.selections import selection_masks

BATCH = 6


def measure(given: EvaluationContext, **options: Any) -> RecommendResult:
    return RecommendTask.of(**options).measure(given)


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_every_selection_is_measured(holdout: Holdout) -> None:
    stream = random_stream(5, events=160, num_nodes=300)
    context = context_of(case("popularity", shape_of(stream)), stream, BATCH, holdout)
    found = measure(context)
    ranker = Ranker(
        context.model,
        context.model.new_state(stream.num_nodes),
        context.data.history,
        BATCH,
        Negatives(stream),
    )
    each = ranker(context.data.split.test)
    for name, rows in selection_masks(stream, context.data.split, context.data.split.test).each().items():
        assert found.each()[name] == rank_metrics(each[rows])
    assert found.inductive.events > 0
    assert found.protocol.ties == "mean of the best and the worst rank"
    assert f"all {len(stream.destinations)} destinations" in found.protocol.candidates


def test_options() -> None:
    stream = random_stream(5, events=80)
    model = case("recency", shape_of(stream))
    sampled = measure(context_of(model, stream, BATCH), candidates=2)
    assert sampled.protocol.candidates.startswith("2 sampled for each event")
    assert sampled.transductive.recall_at_5 == 1
    everyone = measure(context_of(model, stream, BATCH))
    assert measure(context_of(model, stream, BATCH), candidates=8) == everyone  # all of them
    with pytest.raises(ConfigError, match="Did you mean 'event'"):
        RecommendTask.of(as_of="evnt")
    with pytest.raises(ConfigError, match="Did you mean 'event'"):
        RecommendTask(RecommendOptions(as_of="evnt")).measure(context_of(model, stream, BATCH))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="candidates=0"):
        RecommendTask.of(candidates=0)
    with pytest.raises(ConfigError, match="candidates=0"):
        sample_negatives(stream, chronological_split(stream), np.arange(3), 0)


def test_ranks_that_are_not_finite_are_refused() -> None:
    stream = random_stream(5, events=80)
    model = tiny("contig", shape_of(stream))
    with torch.no_grad():
        model.decoder.out.bias.fill_(torch.nan)
    with pytest.raises(RunError, match="are NaN or infinite"):
        measure(context_of(model, stream, BATCH))
    split = chronological_split(stream)
    broken = np.ones(len(split.test), np.float32)
    broken[2] = np.nan
    with pytest.raises(RunError, match=rf"scores of 1 event.*event {split.test[2]}\b"):
        recommend_report(stream, split, split.test, broken)
