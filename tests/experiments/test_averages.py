"""Means over seeds, number by number."""

from __future__ import annotations

from statistics import mean, stdev

import pytest

from contig.experiments.averages import combined, mean_table
from contig.tasks.recommend import RecommendProtocol, RecommendResult, RecommendTask
from contig.tasks.results import RankMetrics


def result(mrr: float, inductive: float | None = None) -> RecommendResult:
    found = RankMetrics(
        mrr=mrr, recall_at_5=mrr + 0.1, recall_at_10=0.5, recall_at_15=0.5, recall_at_20=0.5, events=7
    )
    new = RankMetrics(events=0) if inductive is None else RankMetrics(mrr=inductive, events=3)
    protocol = RecommendProtocol.of(
        "recommend", "none", inductive=True, candidates="all", ties="mean", times="own", candidate_seed=None
    )
    return RecommendResult(
        protocol=protocol,
        all_events=found,
        transductive=found,
        inductive=new,
        old_old=found,
        new_old=new,
        new_new=new,
    )


SEEDS = [result(0.2), result(0.3), result(0.7)]


def test_every_number_becomes_its_statistic() -> None:
    found = combined(SEEDS, mean)
    assert found.transductive.mrr == pytest.approx(0.4)
    assert found.transductive.recall_at_5 == pytest.approx(0.5)
    assert found.transductive.events == 7
    assert found.protocol == SEEDS[0].protocol
    assert combined(SEEDS, stdev).all_events.mrr == pytest.approx(stdev([0.2, 0.3, 0.7]))


def test_a_table_of_means() -> None:
    table = mean_table(RecommendTask, {"tgn": SEEDS, "recency": [result(0.25)]})
    assert [row[:4] for row in table.rows] == [
        ("transductive", "tgn", "40.00 ± 26.46", "50.00 ± 26.46"),
        ("transductive", "recency", "25.00", "35.00"),
    ]
    assert {row[-1] for row in table.rows} == {"7*"}
    assert "* fewer than 100 events: the figures may be due to chance" in table.notes
    assert table.notes[-1] == "mean ± standard deviation over 1 or 3 seeds"


def test_one_seed_has_no_deviation() -> None:
    assert mean_table(RecommendTask, {"tgn": SEEDS[:1]}) == RecommendTask.table({"tgn": SEEDS[0]})
