"""The metrics that a training writes: against plain loops, and on which events."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score
from support.trained import tiny_stream, train_tiny

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.runs.run import Run
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.results import DataFacts, LinkMetrics, RankMetrics
from contig.training.fit import fit


def test_the_facts_of_a_run(tiny_run: Run, stream: EventStream) -> None:
    metrics = tiny_run.metrics
    assert metrics.facts.data == DataFacts(origin="tiny", events=400, nodes=stream.num_nodes)
    assert (metrics.facts.seed, metrics.facts.batch_size, metrics.facts.model) == (0, 30, "contig")
    assert metrics.result.protocol.holdout == "tgn"
    assert "CPU" in metrics.facts.hardware
    assert metrics.peak_memory.bytes > 0
    assert metrics.peak_memory.of == "the whole process"
    assert metrics.parameters == sum(p.numel() for p in tiny_run.model.parameters())
    assert [row.epoch for row in metrics.epochs] == [1, 2]
    best = max(metrics.epochs, key=lambda row: row.val_ap)
    assert metrics.best_epoch == best.epoch


def test_without_new_nodes_there_is_no_inductive_ap(tmp_path: Path) -> None:
    """It is NaN, and null in JSON; a dataset called NaN keeps its name."""
    n = np.arange(300)
    rng = np.random.default_rng(0)
    stream = EventStream.from_arrays(rng.permutation(n) % 7, 10 + n % 5, n, origin="NaN.csv")
    run = train_tiny(stream, tmp_path / "run", holdout="paper")
    assert run.metrics.inductive == run.metrics.inductive_dyglib == LinkMetrics(events=0)
    assert [isnan(row.val_ap_inductive) for row in run.metrics.epochs] == [True]
    assert run.metrics.facts.data.origin == "NaN.csv"


# -- a heuristic against a plain loop ----------------------------------------------------------------------


def edgebank_by_hand(stream: EventStream, holdout: Any) -> dict[str, dict[str, float]]:
    """Test metrics of EdgeBank from sets of pairs."""
    split = chronological_split(stream, holdout=holdout)
    drawn = draw_negatives(stream, split, split.test)
    negatives, own = drawn.ours.dst.tolist(), iter(drawn.dyglib.dst.tolist())
    pairs = list(zip(stream.src.tolist(), stream.dst.tolist(), strict=True))
    rows = []
    for event, other in zip(split.test.tolist(), negatives, strict=True):
        known = {pairs[i] for i in range(event) if stream.t[i] < stream.t[event]}
        src, dst = pairs[event]
        new = bool(split.new_nodes[src]) + bool(split.new_nodes[dst])
        inductive = next(own) if new else other
        rows.append((new, *(float((src, d) in known) for d in (dst, other, inductive))))
    chosen = {
        "transductive": [r[1:3] for r in rows if holdout == "tgn" or r[0] == 0],
        "inductive": [r[1:3] for r in rows if r[0] > 0],
        "inductive_dyglib": [(r[1], r[3]) for r in rows if r[0] > 0],
    }
    result = {}
    for name, scores in chosen.items():
        parts = [np.array(scores[i : i + 25]) for i in range(0, len(scores), 25)]
        aps = [average_precision_score([1] * len(p) + [0] * len(p), [*p[:, 0], *p[:, 1]]) for p in parts]
        aucs = [roc_auc_score([1] * len(p) + [0] * len(p), [*p[:, 0], *p[:, 1]]) for p in parts]
        result[name] = {"ap": np.mean(aps), "auc": np.mean(aucs), "events": len(scores)}
    return result


@pytest.mark.parametrize("holdout", ["tgn", "paper"])
def test_a_heuristic_is_measured_as_by_hand(holdout: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = np.arange(500)  # new sources keep appearing among old ones, three events at a time
    src = np.where(rng.random(500) < 0.5, n // 14, rng.integers(0, 12, 500))
    stream = EventStream.from_arrays(src, 100 + rng.integers(0, 8, 500), n // 3)
    run = fit(stream, "edgebank", out=tmp_path / "run", show=False, holdout=holdout, batch_size=25)
    for selection, expected in edgebank_by_hand(stream, holdout).items():
        got = getattr(run.metrics, selection)
        assert expected["events"] > 5
        assert {key: getattr(got, key) for key in expected} == pytest.approx(expected)
    assert len(run.metrics.epochs) == 1
    assert not (tmp_path / "run" / "curve.png").exists()


# -- new nodes ---------------------------------------------------------------------------------------------


def test_holdout_paper_trains_on_all_early_events(stream: EventStream, tmp_path: Path) -> None:
    """Its transductive events are those between known nodes."""
    run = train_tiny(stream, tmp_path / "run", holdout="paper")
    metrics = run.metrics
    split = chronological_split(stream, holdout="paper")
    assert metrics.transductive == metrics.result.old_old
    assert metrics.transductive.events + metrics.inductive.events == len(split.test)
    assert len(split.train) > len(chronological_split(stream).train)


@pytest.mark.parametrize(("model", "holdout"), [("gae", "tgn"), ("ctdne", "tgn"), ("vgae", "paper")])
def test_a_model_that_cannot_score_new_nodes_is_measured_on_known_ones(
    model: str, holdout: str, tmp_path: Path
) -> None:
    stream = tiny_stream()
    split = chronological_split(stream, holdout=holdout, seed=1)  # type: ignore[arg-type]
    new = split.new_nodes[stream.src[split.test]] | split.new_nodes[stream.dst[split.test]]
    settings = {"epochs": 1, "batch_size": 30, "dim": 8, "holdout": holdout, "split_seed": 1}
    run = fit(stream, model, out=tmp_path / "run", show=False, **settings)
    metrics = run.metrics
    assert metrics.inductive == metrics.inductive_dyglib == LinkMetrics(events=int(new.sum()))
    assert metrics.transductive == metrics.result.old_old
    assert metrics.transductive.events == int((~new).sum())
    assert [isnan(row.val_ap_inductive) for row in metrics.epochs] == [True]
    assert metrics.result.protocol.transductive == "events between nodes seen in training"
    assert metrics.result.protocol.inductive.startswith("not measured")
    assert run.evaluate().result == metrics.result
    ranked, by_interval = run.evaluate("recommend").result, run.evaluate("intervals").result
    assert ranked.inductive == RankMetrics(events=int(new.sum()))
    assert ranked.transductive == ranked.old_old
    assert all(isnan(metrics.ap) for metrics in by_interval.inductive.values())
    assert sum(metrics.events for metrics in by_interval.inductive.values()) == int(new.sum())
    assert by_interval.transductive == by_interval.old_old
    for one in (ranked, by_interval):
        assert one.protocol.inductive.startswith("not measured")


@pytest.mark.parametrize(
    ("holdout", "definition"), [("tgn", "all events"), ("paper", "events between nodes seen in training")]
)
def test_the_protocol_defines_transductive(holdout: str, definition: str, tmp_path: Path) -> None:
    run = fit(tiny_stream(), "edgebank", out=tmp_path / "run", show=False, holdout=holdout)
    assert run.metrics.result.protocol.transductive == definition
    assert run.metrics.result.protocol.inductive == "events with a new node"
