"""Average precision and area under the curve, per batch and overall; ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


def average_precision(positive: Scores, negative: Scores) -> float:
    """AP of scores against the truth that the first are links and the second are not."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_labelled(positive, negative)))


def area_under_curve(positive: Scores, negative: Scores) -> float:
    """ROC AUC of the same."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_labelled(positive, negative)))


def _labelled(positive: Scores, negative: Scores) -> tuple[NDArray[np.int64], Scores]:
    truth = np.concatenate([np.ones(positive.size, np.int64), np.zeros(negative.size, np.int64)])
    return truth, np.concatenate([positive.ravel(), negative.ravel()])


def link_metrics(positive: Scores, negative: Scores, batch_size: int) -> dict[str, float | int]:
    """``ap`` and ``auc`` as the mean over batches (the published convention), and over all events.

    Rows are events in stream order. An empty selection has no metrics, only its count.
    """
    if not len(positive):
        return {"events": 0}
    cuts = range(0, len(positive), batch_size)
    parts = [(positive[i : i + batch_size], negative[i : i + batch_size]) for i in cuts]
    return {
        "ap": float(np.mean([average_precision(p, n) for p, n in parts])),
        "auc": float(np.mean([area_under_curve(p, n) for p, n in parts])),
        "ap_overall": average_precision(positive, negative),
        "auc_overall": area_under_curve(positive, negative),
        "events": len(positive),
    }


RECALLS = (5, 10, 15, 20)  # the K of the paper's figure


def rank_metrics(ranks: Scores) -> dict[str, float | int]:
    """``mrr``, the mean of ``1 / rank``, and ``recall@K``, the share of ranks up to ``K``.

    A tied rank is the mean of the best and the worst one: with 5.5 it is not among the first five. An
    empty selection has no metrics, only its count.
    """
    if not len(ranks):
        return {"events": 0}
    recalls = {f"recall@{k}": float(np.mean(ranks <= k)) for k in RECALLS}
    return {"mrr": float(np.mean(1 / ranks.astype(np.float64))), **recalls, "events": len(ranks)}
