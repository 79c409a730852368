from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.trained import fast_training

from contig.benchmarks import labels
from contig.benchmarks.labels import Row, lines, measure
from contig.tasks import label_decoding, label_trees


def test_runs_are_trained_once_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_trees, "ROUNDS", 5)
    monkeypatch.setattr(label_decoding, "VALIDATIONS", 1)
    with fast_training():
        first = measure("shop-ring:1500", 1, tmp_path, "popularity", "cpu")
        monkeypatch.setattr(labels, "fit", None)
        again = measure("shop-ring:1500", 1, tmp_path, "popularity", "cpu")
    assert first.classifier.tolist() == again.classifier.tolist()
    assert first.baseline.shape == (1, 4)


def test_the_table_has_means_deviations_and_the_paper() -> None:
    ours, theirs = np.array([[0.9, 0.5, 0.01, 0.02], [0.8, 0.3, 0.03, 0.02]]), np.full((2, 4), 0.8)
    shop, mooc = lines([Row("shop:5", ours, theirs, ("a", "a")), Row("mooc", ours[:1], theirs[:1], ("b",))])
    assert shop == ("shop:5", "85.00 ± 7.07", "40.00 ± 14.14", "2.00 ± 1.41", "2.00 ± 0.00", *shop[5:])
    assert shop[5:] == ("80.00 ± 0.00", "80.00 ± 0.00", "+5.00", "-", "a")
    assert mooc[-3:] == ("+10.00", "73.56", "b")
