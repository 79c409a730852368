"""AP, AUC and rank metrics against sklearn, against their definitions, and by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    label_ranking_average_precision_score,
    roc_auc_score,
    top_k_accuracy_score,
)

from contig.tasks.metrics import area_under_curve, average_precision, link_metrics, rank_metrics
from contig.tasks.ranking import ranks
from contig.tasks.results import LinkMetrics, RankMetrics

Floats = NDArray[np.float32]


def column(*values: float) -> Floats:
    return np.array(values, dtype=np.float32)


def scores(seed: int, events: int) -> tuple[Floats, Floats]:
    """Scores with many ties between positives and negatives."""
    rng = np.random.default_rng(seed)
    return (
        (rng.integers(0, 6, events) / 4 + 0.25).astype(np.float32),
        (rng.integers(0, 6, events) / 4).astype(np.float32),
    )


def pairs_won(positive: Floats, negative: Floats) -> float:
    """AUC as the share of pairs in the right order, a tie counting half."""
    won = [(p > n) + 0.5 * (p == n) for p, n in itertools.product(positive, negative)]
    return float(np.mean(won))


def precision_steps(positive: Floats, negative: Floats) -> float:
    """AP as the mean over the positives of the precision at their own threshold."""
    found = []
    for threshold in positive:
        hits, misses = int((positive >= threshold).sum()), int((negative >= threshold).sum())
        found.append(hits / (hits + misses))
    return float(np.mean(found))


@pytest.mark.parametrize("seed", range(5))
def test_ap_and_auc_by_their_definitions(seed: int) -> None:
    positive, negative = scores(seed, 17)
    assert average_precision(positive, negative) == pytest.approx(precision_steps(positive, negative))
    assert area_under_curve(positive, negative) == pytest.approx(pairs_won(positive, negative))


def test_ap_and_auc_by_hand() -> None:
    """Ranked: positive, negative, positive, negative."""
    positive, negative = column(4, 2), column(3, 1)
    assert average_precision(positive, negative) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert area_under_curve(positive, negative) == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("positive", "negative", "ap", "auc"),
    [
        (column(1, 1), column(0, 0), 1.0, 1.0),  # perfect
        (column(0, 0), column(1, 1), 0.5, 0.0),  # reversed: both negatives are above both positives
        (column(0.5, 0.5), column(0.5, 0.5), 0.5, 0.5),  # all tied: the order must not matter
        (column(7), column(3), 1.0, 1.0),  # a batch of one event
    ],
    ids=["perfect", "worst", "tied", "single"],
)
def test_edge_cases(positive: Floats, negative: Floats, ap: float, auc: float) -> None:
    assert average_precision(positive, negative) == pytest.approx(ap)
    assert area_under_curve(positive, negative) == pytest.approx(auc)


@pytest.mark.parametrize("batch_size", [1, 4, 13, 100])
def test_per_batch_and_overall_against_sklearn(batch_size: int) -> None:
    positive, negative = scores(9, 13)
    found = link_metrics(positive, negative, batch_size)
    aps, aucs = [], []
    for start in range(0, 13, batch_size):
        p, n = positive[start : start + batch_size], negative[start : start + batch_size]
        truth, score = np.r_[np.ones(len(p)), np.zeros(len(n))], np.r_[p, n]
        aps.append(average_precision_score(truth, score))
        aucs.append(roc_auc_score(truth, score))
    truth, score = np.r_[np.ones(13), np.zeros(13)], np.r_[positive, negative]
    assert found.as_dict() == {
        "ap": pytest.approx(np.mean(aps)),
        "auc": pytest.approx(np.mean(aucs)),
        "ap_overall": pytest.approx(average_precision_score(truth, score)),
        "auc_overall": pytest.approx(roc_auc_score(truth, score)),
        "events": 13,
    }


def test_several_negatives_per_event() -> None:
    positive, negative = scores(3, 6)
    more = np.stack([negative, negative[::-1]], axis=1)
    assert average_precision(positive, more) == average_precision(positive, more.ravel())
    found = link_metrics(positive, more, batch_size=4)
    first = area_under_curve(positive[:4], more[:4].ravel())
    assert found.auc == pytest.approx((first + area_under_curve(positive[4:], more[4:].ravel())) / 2)


def test_no_events_have_no_metrics() -> None:
    assert link_metrics(column(), column(), 200) == LinkMetrics(events=0)


def test_rank_metrics_against_sklearn_without_ties() -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.permuted(np.tile(np.arange(40.0), (70, 1)), axis=1), rng.integers(0, 40, 70)
    truth = np.arange(40) == own[:, None]
    found = rank_metrics(ranks(torch.tensor(scores), torch.tensor(own), torch.tensor(~truth)).numpy())
    assert found.mrr == pytest.approx(label_ranking_average_precision_score(truth, scores))
    for k in (5, 10, 15, 20):
        expected = top_k_accuracy_score(own, scores, k=k, labels=np.arange(40))
        assert found.as_dict()[f"recall@{k}"] == pytest.approx(expected)
    assert found.events == 70


def test_rank_metrics_by_hand() -> None:
    found = rank_metrics(np.array([1, 5, 5.5, 16, 200], np.float32))
    assert found.mrr == pytest.approx((1 + 1 / 5 + 1 / 5.5 + 1 / 16 + 1 / 200) / 5)
    assert [found.recall_at_5, found.recall_at_10, found.recall_at_15, found.recall_at_20] == pytest.approx(
        [0.4, 0.6, 0.6, 0.8]
    )
    assert rank_metrics(np.array([], np.float32)) == RankMetrics(events=0)
