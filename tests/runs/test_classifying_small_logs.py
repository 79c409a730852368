"""Classification of small logs with rare labels: as good as they allow, or a clear reason why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from support.commands import Answer
from support.labels import chargebacks

import contig
from contig.errors import DataError
from contig.runs.classifying import FILE
from contig.tasks import label_trees

COLUMNS = ("src", "dst", "t", "amount", "label")


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_trees, "ROUNDS", 60)
        yield


Train = Callable[..., contig.Run]


@pytest.fixture
def trained(tmp_path: Path) -> Train:
    """Train on a log; a heuristic, because the trees do not need a model."""
    numbers = count()

    def train(log: dict[str, NDArray[Any]], **settings: Any) -> contig.Run:
        table, out = {name: log[name] for name in COLUMNS}, tmp_path / f"run{next(numbers)}"
        return contig.fit(table, "popularity", features=["amount"], out=out, show=False, **settings)

    return train


@pytest.mark.parametrize(
    ("events", "bad", "good"), [(3000, 0.5, 0.004), (3000, 0.9, 0.0), (6000, 0.12, 0.002)]
)
def test_test_events_are_ranked_nearly_as_by_the_true_risk(
    trained: Train, events: int, bad: float, good: float
) -> None:
    log = chargebacks(events, bad=bad, good=good)
    run = trained(log)
    found = run.classify(show=False)
    test = run.split.test
    possible = roc_auc_score(log["label"][test], log["risk"][test])
    assert possible > 0.75
    assert found.quality.auc > possible - 0.1
    assert found.baseline_quality.auc > possible - 0.1
    assert abs(found.quality.auc - found.validation_aucs[found.decoder]) < 0.15
    # Calibrated: as many positives are expected as there are, within three deviations.
    expected = found.probability[test].sum()
    assert abs(expected - log["label"][test].sum()) < 3 * np.sqrt(expected) + 1
    assert not any("equal" in text for text in found.warnings)


def test_labels_that_nothing_tells_get_equal_probabilities_and_a_warning(trained: Train) -> None:
    log = chargebacks(1500, bad=0.2, good=0.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_trees, "SETTINGS", {**label_trees.SETTINGS, "min_samples_leaf": 1000})
        run = trained(log)
        (warning,) = Answer("classify", run.path, "--json").json["warnings"]
    assert "All 1,500 probabilities are nearly equal" in warning
    assert "nothing that is known before an event predicts its label" in warning
    assert "--features" in warning
    assert warning in " ".join(Answer("classify", run.path).err.split())


def test_unknown_labels_are_left_out_and_predicted(trained: Train) -> None:
    log = chargebacks()
    whole = trained(log)
    known = np.arange(3000) % 5 != 0
    known[2900:] = False
    label = np.where(known, log["label"].astype(float), np.nan)
    run = trained({**log, "label": label})
    found = run.classify(show=False)
    assert np.array_equal(found.part == "unused", ~known)
    test = np.setdiff1d(whole.split.test, np.flatnonzero(~known))
    assert (found.quality.events, found.quality.positives) == (len(test), log["label"][test].sum())
    assert found.table()["label"].null_count == (~known).sum()
    unknown = ~known & (np.arange(3000) > 2000)
    assert roc_auc_score(log["label"][unknown], found.probability[unknown]) > 0.75
    with pytest.raises(DataError, match=r"events have no label.* contig classify leaves such events out"):
        run.evaluate("classify")


def test_missing_labels_are_counted_where_they_are_missing(trained: Train, tmp_path: Path) -> None:
    log = chargebacks(600)
    hidden = np.isin(np.arange(600), [3, 80, 420])
    run = trained({**log, "label": np.where(hidden, np.nan, log["label"].astype(float))})
    later = pa.table({name: log[name][:40] for name in COLUMNS})
    later = later.set_column(2, "t", pa.array(np.arange(600, 640)))
    pa.csv.write_csv(later, tmp_path / "new.csv")
    with pytest.raises(DataError, match=r"^dict: 2 of the 420 training events have no label") as refused:
        run.evaluate("classify", data=tmp_path / "new.csv")
    assert "new.csv" not in str(refused.value)


def test_exported_events_with_unknown_labels_are_observed(trained: Train) -> None:
    log = chargebacks(600)
    run = trained({name: column[:500] for name, column in log.items()})
    label = log["label"][500:].copy()
    label[::3] = -1
    later = {**{name: log[name][500:] for name in COLUMNS}, "label": label}
    exported = contig.read_events(later, features=["amount"]).to_arrow()
    assert exported["label"].null_count == len(label[::3])
    assert run.observe(exported) == 100
    assert run.observed_labels.tolist() == label.tolist()


def test_refusals_suggest_what_can_help(trained: Train) -> None:
    log = chargebacks(600)
    with pytest.raises(DataError, match=r"none of the 600 events has a label.*--label COLUMN") as refused:
        trained({**log, "label": np.full(600, np.nan)}).classify(show=False)
    assert "--split" not in str(refused.value)
    early = np.where(np.arange(600) < 300, log["label"], 0)
    with pytest.raises(
        DataError, match=r"validation events have label 1.*not trained on every event"
    ) as refused:
        trained({**log, "label": early}, final=True).classify(show=False)
    assert "--split" not in str(refused.value)


def test_a_run_whose_test_events_have_no_labels_says_so(trained: Train) -> None:
    log = chargebacks(1000)
    run = trained({**log, "label": np.where(np.arange(1000) < 850, log["label"].astype(float), np.nan)})
    content = Answer("classify", run.path, "--json").json
    assert content["quality"] is None
    assert any("No test event has a label (0 of 150)" in text for text in content["warnings"])
    shown = " ".join(Answer("classify", run.path).err.split())
    assert "No test event has a label (0 of 150)" in shown
    assert "no test events are left" not in shown


def test_labels_of_early_events_alone(trained: Train) -> None:
    """Equal labels in the test part are not measured; in the validation part they are refused."""
    log = chargebacks()
    position = np.arange(3000)
    found = trained({**log, "label": np.where(position < 2550, log["label"], 0)}).classify(show=False)
    assert np.isnan(found.quality.auc)
    assert any("0 in test" in text for text in found.warnings)
    early = {"0 of the 450 validation events have label 1": 0, "no validation event has a label": np.nan}
    for problem, later in early.items():
        changed = {**log, "label": np.where(position < 1500, log["label"], later)}
        with pytest.raises(DataError, match=f"{problem}.*--split") as refused:
            trained(changed).classify(show=False)
        suggested = re.search(r"--split ([\d.,]+\d)", str(refused.value)).group(1)
        parts = trained(changed, split=suggested).classify(show=False).fitted_on
        positives = np.array([parts.train.positives, parts.validation.positives, parts.test.positives])
        np.testing.assert_allclose(positives / positives.sum(), [0.7, 0.15, 0.15], atol=0.08)


def test_a_classifier_fitted_by_an_earlier_method_is_fitted_again(trained: Train) -> None:
    run = trained(chargebacks(1500))
    before = run.classify(show=False).probability
    content = run.folder.load(FILE)
    with run.folder.locked():
        run.folder.save(
            FILE, {**content, "method": 1, "chosen": {**content["chosen"], "calibration": [0, 0]}}
        )
    np.testing.assert_allclose(contig.Run.open(run.path).classify(show=False).probability, before)
