"""Average precision and area under the ROC curve, by batch and overall; metrics of ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.tasks.results import LinkMetrics, RankMetrics

Scores = NDArray[np.floating[Any]]  # float32 of learned models, float64 of heuristics
Floats = NDArray[np.float64]


class LinkScores(NamedTuple):
    """Logits of true events and of their negatives, in stream order, each ``[events]``."""

    positive: Scores
    negative: Scores


class Ranked(NamedTuple):
    """Rows of scores in descending order; equal scores are one step of the curve."""

    truth: NDArray[np.bool_]  # [rows, scores] whether it is a positive
    first: NDArray[np.int64]  # [rows, scores] where the scores equal to it start
    last: NDArray[np.int64]  # and end

    @classmethod
    def of(cls, positive: Scores, negative: Scores) -> Ranked:
        scores = np.concatenate([positive, negative], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")
        scores = np.take_along_axis(scores, order, axis=1)
        place = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
        new = np.ones_like(scores, dtype=bool)
        new[:, 1:] = scores[:, 1:] != scores[:, :-1]
        first = np.maximum.accumulate(np.where(new, place, 0), axis=1)
        ends = np.roll(new, -1, axis=1)  # the first score is new, so rolling marks the last one as an end
        last = np.minimum.accumulate(np.where(ends, place, scores.shape[1])[:, ::-1], axis=1)[:, ::-1]
        return cls(order < positive.shape[1], first, last)


def average_precision(positive: Scores, negative: Scores) -> float:
    """Return the AP of the scores of positives and negatives."""
    return float(_precisions(positive.reshape(1, -1), negative.reshape(1, -1))[0])


def area_under_curve(positive: Scores, negative: Scores) -> float:
    """Return the ROC AUC: how often a positive is above a negative; a tie counts half."""
    return float(_areas(positive.reshape(1, -1), negative.reshape(1, -1))[0])


def _precisions(positive: Scores, negative: Scores) -> Floats:
    """Return the AP of each row of ``[rows, n]`` and ``[rows, m]``."""
    truth, _, last = Ranked.of(positive, negative)
    found = np.take_along_axis(truth.cumsum(axis=1), last, axis=1)
    mean: Floats = np.mean(found / (last + 1), axis=1, where=truth)
    return mean


def _areas(positive: Scores, negative: Scores) -> Floats:
    truth, first, last = Ranked.of(positive, negative)
    positives, negatives = positive.shape[1], negative.shape[1]
    above = np.sum((first + last) / 2, axis=1, where=truth) - positives * (positives - 1) / 2
    area: Floats = 1 - above / (positives * negatives)
    return area


def _by_batch(scores: Scores, size: int) -> list[Scores]:
    """Split scores into rows of ``size`` events and the last, shorter batch."""
    count, rest = divmod(len(scores), size)
    parts = [scores[: count * size].reshape(count, -1)] if count else []
    return [*parts, scores[count * size :].reshape(1, -1)] if rest else parts


def link_metrics(positive: Scores, negative: Scores, batch_size: int) -> LinkMetrics:
    """Measure events in stream order; AP and AUC are the mean over batches (the published convention)."""
    if not len(positive):
        return LinkMetrics(events=0)
    parts = list(zip(_by_batch(positive, batch_size), _by_batch(negative, batch_size), strict=True))
    return LinkMetrics(
        ap=float(np.mean(np.concatenate([_precisions(*part) for part in parts]))),
        auc=float(np.mean(np.concatenate([_areas(*part) for part in parts]))),
        ap_overall=average_precision(positive, negative),
        auc_overall=area_under_curve(positive, negative),
        events=len(positive),
    )


def rank_metrics(ranks: Scores) -> RankMetrics:
    """Measure the ranks of true destinations.

    A tied rank is the mean of the best and the worst one: with 5.5 it is not among the first five.
    """
    if not len(ranks):
        return RankMetrics(events=0)

    def recall(k: int) -> float:
        return float(np.mean(ranks <= k))

    return RankMetrics(
        mrr=float(np.mean(1 / ranks.astype(np.float64))),
        recall_at_5=recall(5),
        recall_at_10=recall(10),
        recall_at_15=recall(15),
        recall_at_20=recall(20),
        events=len(ranks),
    )
