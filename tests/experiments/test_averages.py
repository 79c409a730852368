"""Means over seeds, number by number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import mean, stdev

import pytest

from contig.experiments.averages import combined, flat_spreads, mean_table
from contig.tasks.recommend import RecommendProtocol, RecommendResult, RecommendTask
from contig.tasks.results import LinkMetrics, RankMetrics, TaskResult


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


def test_every_number_has_a_column() -> None:
    found = dict(flat_spreads(SEEDS))
    assert not any("protocol" in name or "candidates" in name for name in found)
    assert found["mrr_transductive_mean"] == pytest.approx(0.4)
    assert found["mrr_all_events_std"] == pytest.approx(stdev([0.2, 0.3, 0.7]))
    assert found["recall_at_5_old_old_mean"] == pytest.approx(0.5)
    assert (found["events_transductive"], found["events_inductive"]) == (7, 0)
    assert (found["mrr_inductive_mean"], found["mrr_inductive_std"]) == (None, None)  # no events
    assert (dict(flat_spreads(SEEDS[:1]))["mrr_transductive_std"]) is None  # one seed
    assert len(found) == 6 * (5 * 2 + 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sets(TaskResult):
    """Numbers by name, lists and text, as tasks outside the package may have."""

    share: float
    by_hour: dict[int, LinkMetrics | float]
    each: tuple[float, ...] = ()
    unit: str = "s"
    missing: float | None = None


def test_columns_of_other_results() -> None:
    protocol = replace(SEEDS[0].protocol, candidate_seed=5)
    seeds = [
        Sets(
            protocol=protocol,
            share=share,
            by_hour={3: LinkMetrics(ap=share, events=9), 14: 2 * share},
            each=(1.0,),
        )
        for share in (0.25, 0.75)
    ]
    found = dict(flat_spreads(seeds))
    deviation = stdev([0.25, 0.75])
    assert found == pytest.approx(
        {
            "share_mean": 0.5,
            "share_std": deviation,
            "ap_by_hour_3_mean": 0.5,
            "ap_by_hour_3_std": deviation,
            "events_by_hour_3": 9,
            "14_by_hour_mean": 1.0,
            "14_by_hour_std": 2 * deviation,
        }
        | {
            f"{name}_by_hour_3_{of}": None
            for name in ("auc", "ap_overall", "auc_overall")
            for of in ("mean", "std")
        }
    )
