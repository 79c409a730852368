"""Trees kept in arrays predict what scikit-learn's do, and damaged arrays are refused."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from contig.tasks import label_trees
from contig.tasks.label_trees import SETTINGS, Trees


@pytest.fixture(scope="module")
def problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(900, 4)).astype(np.float32)
    label = rng.random(900) < 1 / (1 + np.exp(2 - 2 * x[:, 0] * x[:, 1]))
    x[rng.random((900, 4)) < 0.15] = np.nan
    return x, label


@pytest.fixture(scope="module")
def trees(problem) -> Trees:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_trees, "ROUNDS", 25)
        return Trees.fit(*problem, np.arange(500), np.arange(500, 700))


def test_the_number_of_trees_is_best_on_validation_and_logits_are_those_of_scikit_learn(
    problem, trees
) -> None:
    x, label = problem
    grown = HistGradientBoostingClassifier(max_iter=25, **SETTINGS).fit(x[:500], label[:500])
    stages = [logits.ravel() for logits in grown.staged_decision_function(x)]
    aucs = [roc_auc_score(label[500:700], logits[500:700].astype(np.float32)) for logits in stages]
    best = int(np.argmax(aucs))
    assert len(trees.nodes["roots"]) == best + 1
    np.testing.assert_allclose(trees.logits(x), stages[best], atol=1e-6)


def test_saved_trees_predict_the_same(problem, trees) -> None:
    again = Trees.from_content(trees.content())
    assert again.logits(problem[0]).tolist() == trees.logits(problem[0]).tolist()


def test_a_column_without_values_in_training_changes_nothing(problem, monkeypatch) -> None:
    """Such as past labels that become known only after the training events."""
    monkeypatch.setattr(label_trees, "ROUNDS", 10)
    x, label = problem
    late = np.where(np.arange(len(x)) < 500, np.nan, 1.0).astype(np.float32)
    found = Trees.fit(np.column_stack([x, late]), label, np.arange(500), np.arange(500, 700))
    without = Trees.fit(x, label, np.arange(500), np.arange(500, 700))
    np.testing.assert_array_equal(found.logits(np.column_stack([x, late])), without.logits(x))


@pytest.mark.parametrize(
    ("name", "change"),
    [("feature", 4), ("left", -1), ("right", 10**6), ("roots", 10**6), ("left", 0)],
)
def test_arrays_that_cannot_be_walked_are_refused(trees, name: str, change: int) -> None:
    content = deepcopy(trees.content())
    inner = int(np.flatnonzero(~trees.nodes["leaf"])[0])
    content["nodes"][name][0 if name == "roots" else inner] = change
    with pytest.raises(ValueError, match="trees"):
        Trees.from_content(content)
    content["nodes"][name] = content["nodes"][name].float()
    with pytest.raises(ValueError, match="is not a column of"):
        Trees.from_content(content)
