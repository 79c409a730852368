"""What ``contig classify`` says next to its table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from contig.cli.classify import _print_quality
from contig.tasks.calibration import LabelQuality


def printed(decoder: str, positives: int, capsys: pytest.CaptureFixture[str]) -> str:
    found: Any = SimpleNamespace(
        part=None,
        decoder=decoder,
        validation_aucs={decoder: 0.75},
        fitted_on=SimpleNamespace(validation=SimpleNamespace(positives=3, events=20)),
    )
    _print_quality(
        found, LabelQuality(events=9, positives=positives), LabelQuality(events=9, positives=positives)
    )
    return " ".join(capsys.readouterr().out.split())


def test_a_classifier_that_is_the_baseline_is_named_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("trees on simple columns", 4, capsys)
    assert "classifier: the baseline itself, boosted trees on simple columns, without the graph: it" in text
    text = printed("trees on all columns", 4, capsys)
    assert "classifier: trees on all columns; baseline: boosted trees on simple columns" in text
    assert "labels" not in text


@pytest.mark.parametrize(("positives", "label"), [(0, 0), (9, 1)])
def test_events_of_one_label_have_no_auc(
    positives: int, label: int, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed("trees on all columns", positives, capsys)
    assert f"AUC and AP need events of both labels; the label of all of these is {label}" in text
