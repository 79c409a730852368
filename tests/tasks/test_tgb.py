"""Recommendation by TGB's protocol: its evaluator and its candidates, on scores computed apart."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.evaluation import context_of
from support.problems import random_stream, shape_of, tiny

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.models.contract import Model
from contig.tasks.context import EvaluationContext
from contig.tasks.recommend import RecommendTask

BATCH = 6
Scores = list[tuple[float, NDArray[np.float32]]]  # of the true destination and of its negatives


@pytest.fixture
def stream() -> EventStream:
    return random_stream(5, events=160, num_nodes=90)


def heuristic(stream: EventStream) -> Model:
    return tiny("recency", shape_of(stream))  # many of its scores are equal


def tgb_negatives(stream: EventStream, event: int) -> list[int]:
    """All destinations but those that the source meets at this time, as TGB generates them."""
    same = (stream.src == stream.src[event]) & (stream.t == stream.t[event])
    return np.setdiff1d(np.unique(stream.dst), stream.dst[same]).tolist()


def scored(context: EvaluationContext) -> Scores:
    """Score every test event with one call each."""
    stream, history, state = context.data.stream, context.data.history, context.state
    found = []
    for event in context.data.split.test.tolist():
        candidates = torch.tensor([[int(stream.dst[event]), *tgb_negatives(stream, event)]])
        t = torch.tensor([stream.t[event]])
        src = torch.tensor([int(stream.src[event])])
        logits = context.model.link(state, history, src, candidates, t, t[0])[0].numpy()
        found.append((float(logits[0]), logits[1:]))
    return found


def test_mrr_by_the_formula_of_tgb(stream: EventStream) -> None:
    """Optimistic rank: negatives above; pessimistic: above or equal; the mean of both, plus one."""
    context = context_of(heuristic(stream), stream, BATCH, "paper")
    ranks, ties = [], 0
    for true, negative in scored(context):
        optimistic, pessimistic = int((negative > true).sum()), int((negative >= true).sum())
        ties += pessimistic > optimistic
        ranks.append(0.5 * (optimistic + pessimistic) + 1)
    found = RecommendTask().measure(context)
    assert ties > 5
    assert found.all_events is not None
    assert found.all_events.events == len(context.data.split.test)
    assert found.all_events.mrr == pytest.approx(np.mean(1 / np.array(ranks)))
    assert found.all_events.recall_at_10 == pytest.approx(np.mean(np.array(ranks) <= 10))
    assert found.transductive.events < found.all_events.events  # events between known nodes
    table = RecommendTask.table({"recency": found})
    assert [row[0] for row in table.rows] == ["transductive", "inductive", "all (TGB)"]


def test_mrr_against_the_evaluator_of_tgb(stream: EventStream) -> None:
    evaluate = pytest.importorskip("tgb.linkproppred.evaluate", reason="needs TGB: pip install contig[tgb]")
    context = context_of(heuristic(stream), stream, BATCH, "paper")
    evaluator = evaluate.Evaluator(name="tgbl-wiki")
    mrr, hits = [], []
    for true, negative in scored(context):
        given = {"y_pred_pos": np.array([true]), "y_pred_neg": negative[None], "eval_metric": ["mrr"]}
        found = evaluator.eval(given)
        mrr.append(found["mrr"])
        hits.append(found["hits@10"])
    result = RecommendTask().measure(context).all_events
    assert result is not None
    assert result.mrr == pytest.approx(np.mean(mrr), abs=1e-6)
    assert result.recall_at_10 == pytest.approx(np.mean(hits), abs=1e-6)


def test_candidates_from_a_file(stream: EventStream, tmp_path: Path) -> None:
    """All of TGB's negatives give the same as ranking all destinations; fewer give better ranks."""
    context = context_of(heuristic(stream), stream, BATCH, "paper")
    labels, path = stream.ids.labels, tmp_path / "all_test_ns.pkl"
    offset = int(labels[stream.src].max()) + 1 if stream.bipartite else 0
    content = {
        (int(labels[stream.src[e]]), int(labels[stream.dst[e]]) + offset, stream.t[e].item()): labels[
            tgb_negatives(stream, e)
        ]
        + offset
        for e in context.data.split.test.tolist()
    }
    path.write_bytes(pickle.dumps(content))
    everyone = RecommendTask().measure(context_of(heuristic(stream), stream, BATCH, "paper"))
    found = RecommendTask.of(candidates_from=str(path)).measure(context)
    assert found.all_events == everyone.all_events
    assert found.protocol.candidates == "those of all_test_ns.pkl"
    path.write_bytes(pickle.dumps({key: values[:2] for key, values in content.items()}))
    few = RecommendTask.of(candidates_from=str(path)).measure(context)
    assert few.all_events is not None
    assert few.all_events.mrr > found.all_events.mrr
    assert few.all_events.recall_at_5 == 1
    with pytest.raises(ConfigError, match="exclude each other"):
        RecommendTask.of(candidates_from=str(path), candidates=3).measure(context)
