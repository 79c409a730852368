"""Classification as a task: which labels it needs, and its metrics against sklearn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from support.evaluation import context_of
from support.labels import labeled, short_decoders
from support.problems import case, random_stream, shape_of

from contig.data.events import EventStream
from contig.data.splits import HOLDOUTS, Holdout, chronological_split
from contig.errors import ConfigError, DataError, RunError
from contig.tasks.classify import ClassifyResult, ClassifyTask, LabelMetrics, check_labels, classify_report
from contig.tasks.context import EvaluationContext
from contig.tasks.label_decoding import (
    decode_test_events,
)

__all__ = ["short_decoders"]  # a fixture


def context(stream: EventStream, name: str = "tgn", batch_size: int = 20) -> EvaluationContext:
    return context_of(case(name, shape_of(stream)), stream, batch_size)


def measure(given: EvaluationContext, seeds: int = 5) -> ClassifyResult:
    return ClassifyTask.of(seeds=seeds).measure(given)


def test_a_heuristic_has_no_embeddings() -> None:
    with pytest.raises(ConfigError, match="no embeddings"):
        measure(context(labeled(1), "edgebank"))


def test_labels_of_test_events_change_no_score() -> None:
    """With the labels of the test flipped, decoders and scores stay the same, and AUC is flipped."""
    stream = labeled(2)
    given = context(stream)
    assert stream.label is not None
    first = int(given.data.split.test[0])
    other = stream.label.copy()
    other[first:] = 1 - other[first:]
    (before, found), (after, again) = (
        decode_test_events(context(replace(stream, label=label)), label == 1, 2)
        for label in (stream.label, other)
    )
    np.testing.assert_array_equal(found, again)
    assert [one.validation for one in before] == [one.validation for one in after]
    flipped = measure(context(replace(stream, label=other)), seeds=2).transductive.auc
    assert flipped == pytest.approx(1 - measure(given, seeds=2).transductive.auc)


def by_part(train: int, val: int, test: int) -> NDArray[np.int64]:
    """100 labels with these numbers of ones in each part."""
    parts = ((train, 70), (val, 15), (test, 15))
    return np.concatenate([np.arange(size) < ones for ones, size in parts]).astype(np.int64)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (None, "has no labels.*--label"),
        (np.arange(100) % 3, "label 2 is neither 0 nor 1"),
        (by_part(0, 3, 2), "0 of the 70 training events have label 1"),
        (by_part(9, 0, 2), "0 of the 15 validation events have label 1"),
        (by_part(9, 3, 15), "15 of the 15 test events have label 1"),
    ],
)
def test_unusable_labels_are_refused(label: NDArray[np.int64] | None, message: str) -> None:
    stream = replace(random_stream(4, events=100), label=label, t=np.arange(100))
    with pytest.raises(DataError, match=message):
        check_labels(stream, chronological_split(stream, holdout="paper"))


def test_problems_name_the_source_of_their_part() -> None:
    stream = replace(random_stream(4, events=100), t=np.arange(100), origin="old.csv")
    split = replace(chronological_split(stream, holdout="paper"), train=np.arange(5, 70))

    def refusal(changed: dict[int, int], parts: NDArray[np.int64]) -> str:
        label = parts.copy()
        label[list(changed)] = list(changed.values())
        with pytest.raises(DataError) as refused:
            check_labels(replace(stream, label=label), split, "new.csv")
        return str(refused.value)

    both = by_part(9, 3, 2)
    assert refusal({8: -1, 30: -1, 90: -1}, both).startswith("old.csv: 2 of the 65 training events have no")
    assert refusal({2: -1, 90: -1}, both).startswith("new.csv: 1 of the 15 test events have no label")
    assert refusal({30: 4, 90: 5}, both).startswith("old.csv: label 4 is")
    assert refusal({90: 5}, both).startswith("new.csv: label 5 is")
    assert refusal({}, by_part(9, 0, 2)).startswith("old.csv: 0 of the 15 validation")
    assert refusal({}, by_part(9, 3, 0)).startswith("new.csv: 0 of the 15 test")


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_metrics_against_sklearn(holdout: Holdout) -> None:
    stream = replace(random_stream(5, events=400, num_nodes=300), label=np.arange(400) % 3 // 2)
    split = chronological_split(stream, holdout=holdout)
    assert stream.label is not None
    label = stream.label == 1
    found = np.random.default_rng(0).integers(0, 9, (3, len(split.test))).astype(np.float32)  # with ties
    report = classify_report(stream, split, label, found)
    trained = {int(v) for i in split.train for v in (stream.src[i], stream.dst[i])}
    new = [i for i, event in enumerate(split.test) if int(stream.src[event]) not in trained]
    old = [i for i in range(len(split.test)) if i not in new]
    kept = old if holdout == "paper" else [*range(len(split.test))]
    for name, rows in (("transductive", kept), ("inductive", new)):
        truth = label[split.test][rows]
        each = [roc_auc_score(truth, one[rows]) for one in found]
        measured = getattr(report, name)
        assert measured.auc_seeds == pytest.approx(each)
        assert measured.auc == pytest.approx(sum(each) / 3)
        assert measured.auc_std == pytest.approx(np.std(each, ddof=1))
        assert (measured.events, measured.positives) == (len(rows), truth.sum())


def test_equal_labels_have_no_auc() -> None:
    stream = labeled(3)
    split = chronological_split(stream)
    split.new_nodes[:] = False
    found = np.zeros((2, len(split.test)), np.float32)
    report = classify_report(stream, split, np.ones(len(stream), bool), found)
    assert report.inductive == LabelMetrics(events=0, positives=0)
    assert report.transductive == LabelMetrics(events=len(split.test), positives=len(split.test))
    assert "auc" not in report.transductive.as_dict()


def test_the_whole_task() -> None:
    stream = labeled(2)
    given = context(stream)
    found = measure(given, seeds=3)
    assert stream.label is not None
    for name, part in (
        ("train", given.data.split.train),
        ("validation", given.data.split.val),
        ("test", given.data.split.test),
    ):
        counts = getattr(found.labels, name)
        assert (counts.events, counts.positives) == (len(part), stream.label[part].sum())
    assert len(set(found.transductive.auc_seeds)) > 1
    assert len(found.validation.auc_seeds) == found.protocol.decoder_seeds == 3
    assert measure(given, seeds=3) == found
    assert measure(given, seeds=1).transductive.auc_std == 0
    with pytest.raises(ConfigError, match="seeds=0"):
        measure(given, seeds=0)


def test_embeddings_that_are_not_finite_are_refused() -> None:
    given = context(labeled(2))
    with torch.no_grad():
        next(given.model.parameters()).fill_(torch.nan)
    with pytest.raises(RunError, match="are NaN or infinite"):
        measure(given)


def test_a_model_without_new_nodes_is_not_measured_on_them() -> None:
    stream = labeled(3)
    split = chronological_split(stream, holdout="tgn")
    label = stream.label == 1
    found = np.random.default_rng(0).normal(size=(2, len(split.test))).astype(np.float32)
    report = classify_report(stream, split, label, found, inductive=False)
    new = split.new_nodes[stream.src[split.test]]
    assert 0 < new.sum() < len(new)
    positives = int(label[split.test][new].sum())
    assert report.inductive == LabelMetrics(events=int(new.sum()), positives=positives)
    truth = label[split.test][~new]
    expected = [roc_auc_score(truth, one[~new]) for one in found]
    assert report.transductive.auc_seeds == pytest.approx(expected)
    assert report.transductive.events == int((~new).sum())
