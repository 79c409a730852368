"""When classification warns, and why."""

from __future__ import annotations

import numpy as np
import pytest

from contig.tasks.calibration import LabelQuality
from contig.tasks.classify import LabelCounts, LabelParts
from contig.tasks.label_warnings import (
    equal_probabilities,
    few_labels,
    loses_to_baseline,
    no_better_than_chance,
    no_test_labels,
)


def parts(train: int, validation: int, test: int, events: int = 500) -> LabelParts:
    """Parts with these numbers of positives; the test part is empty if it has none."""
    counts = {"train": train, "validation": validation, "test": test}
    sizes = {**dict.fromkeys(counts, events), "test": events if test else 0}
    return LabelParts(**{n: LabelCounts(events=sizes[n], positives=counts[n]) for n in counts})


@pytest.mark.parametrize("share", [1e-6, 0.02, 0.5, 0.999])
def test_nearly_equal_probabilities_are_noticed_at_any_share(share: float) -> None:
    def odds(factor: float) -> float:
        return factor * share / (1 - share)

    equal, different = ([odds(f) / (1 + odds(f)) for f in np.linspace(1, top, 30)] for top in (1.02, 1.5))
    labels = parts(40, 20, 20)
    hopeless = equal_probabilities(np.array(equal), 0.51, labels)
    assert (
        "nothing that is known before an event predicts its label (validation AUC 51.00; 40 of 500"
        in hopeless
    )
    assert "Rely on the order" in equal_probabilities(np.array(equal), 0.9, labels)
    assert equal_probabilities(np.array(different), 0.51, labels) is None


def test_a_few_events_may_well_have_equal_probabilities() -> None:
    assert equal_probabilities(np.full(3, 0.25), 0.9, parts(40, 20, 20)) is None


def test_few_events_of_the_rarer_label_are_noticed() -> None:
    assert few_labels(parts(40, 12, 11)) is None
    assert few_labels(parts(40, 12, 0)) is None  # a run without test events
    assert "(40 in train, 9 in validation, 11 in test)" in few_labels(parts(40, 9, 11))
    assert "(2 in train, 12 in validation)" in few_labels(parts(498, 12, 0))


@pytest.mark.parametrize(("auc", "warned"), [(0.36, True), (0.55, True), (0.7, False), (np.nan, False)])
def test_chance_level_is_noticed_where_it_is_measured(auc: float, warned: bool) -> None:
    found = no_better_than_chance(LabelQuality(events=90, positives=20, auc=auc))
    assert (found is not None) == warned
    assert not warned or f"(AUC {100 * auc:.2f})" in found
    assert no_better_than_chance(None) is None


@pytest.mark.parametrize(("events", "positives"), [(2, 1), (500, 9), (500, 491)])
def test_an_auc_of_few_events_of_the_rarer_label_is_no_evidence(events: int, positives: int) -> None:
    assert no_better_than_chance(LabelQuality(events=events, positives=positives, auc=0.0)) is None


def test_a_baseline_that_ranks_better_is_noticed() -> None:
    def quality(auc: float, positives: int = 20) -> LabelQuality:
        return LabelQuality(events=90, positives=positives, auc=auc)

    text = loses_to_baseline(quality(0.8125), quality(0.84), "test")
    assert "loses to the baseline by 2.75 points of AUC on the test events (81.25 against 84.00)" in text
    few = loses_to_baseline(quality(0.5, 89), quality(0.9, 89), "new")
    assert "on the new events (50.00 against 90.00, with only 1 event of the rarer label)" in few
    for ours, theirs in ((0.84, 0.84), (0.85, 0.84), (np.nan, 0.84), (0.84, np.nan)):
        assert loses_to_baseline(quality(ours), quality(theirs), "test") is None
    assert loses_to_baseline(None, None, "test") is None


def test_test_events_without_any_label_are_noticed() -> None:
    assert "No test event has a label (0 of 150)" in no_test_labels(150, parts(40, 12, 0))
    assert no_test_labels(150, parts(40, 12, 3)) is None
    assert no_test_labels(0, parts(40, 12, 0)) is None  # a run without test events
