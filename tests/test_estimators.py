"""The estimators behave like scikit-learn's, and answer as the runs do that they hold."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from support.labels import quick_classifiers
from support.trained import TINY, tiny_stream

from contig.data.events import EventStream
from contig.errors import DataError
from contig.estimators import ContigClassifier, ContigRecommender, as_stream

pytestmark = pytest.mark.usefixtures("fast_training")
SETTINGS = {key: value for key, value in TINY.items() if key not in ("model", "epochs")}
ESTIMATORS = (ContigRecommender, ContigClassifier)

# Checks of scikit-learn that need no data. All others fit matrices of arbitrary numbers, which are not
# events: ids must be whole, rows belong together through time, and a column has a meaning.
CHECKS = (
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_do_not_raise_errors_in_init_or_set_param",
    "check_valid_tag_types",
    "check_mixin_order",
)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_checks_of_sklearn(kind: type, name: str) -> None:
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip(f"this version of scikit-learn has no {name}")
    check(kind.__name__, kind())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_that_is_not_fitted_says_so(kind: type) -> None:
    with pytest.raises(NotFittedError, match="call fit first"):
        kind().predict([[1, 2, 3]])


@pytest.fixture(scope="module")
def events() -> np.ndarray:
    stream = tiny_stream()
    labels = stream.ids.labels
    return np.column_stack([labels[stream.src], labels[stream.dst] + 1000, stream.t])


@pytest.fixture(scope="module")
def recommender(events: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> ContigRecommender:
    out = tmp_path_factory.mktemp("runs") / "recommender"
    return ContigRecommender("contig", k=4, epochs=1, settings=SETTINGS, out=str(out)).fit(events)


def test_predictions_are_the_recommendations_of_the_run(
    recommender: ContigRecommender, events: np.ndarray
) -> None:
    sources = np.unique(events[:, 0])[:5]
    expected = [[one.node for one in recommender.run_.recommend(int(node), k=4)] for node in sources]
    assert recommender.predict(sources).tolist() == expected
    assert recommender.predict(events[:3]).shape == (3, 4)  # the first column of events
    assert recommender.predict(sources.astype(float)).tolist() == expected  # as arrays with a float column
    with pytest.raises(DataError, match=r"column 'source': 0\.5 is not an id"):
        recommender.predict([0.5])


def test_probabilities_are_the_scores_of_the_run(recommender: ContigRecommender, events: np.ndarray) -> None:
    pairs = events[-7:]
    found = recommender.predict_proba(pairs)
    scores = recommender.run_.score(*pairs.T)
    assert found.shape == (7, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[:, 1], scores.probability, rtol=1e-5)


def test_the_score_is_the_recall(recommender: ContigRecommender, events: np.ndarray) -> None:
    later = events[-20:]
    lists = {int(src): [one.node for one in recommender.run_.recommend(int(src), k=4)] for src in later[:, 0]}
    hits = [dst in lists[src] for src, dst, _ in later.tolist()]
    assert recommender.score(later) == pytest.approx(np.mean(hits))


def test_a_clone_has_the_parameters_and_no_run(recommender: ContigRecommender) -> None:
    copy = clone(recommender)
    assert copy.get_params() == recommender.get_params()
    assert not hasattr(copy, "run_")
    assert copy.set_params(k=7).k == 7


def test_a_pickle_keeps_the_run(recommender: ContigRecommender, events: np.ndarray) -> None:
    again = pickle.loads(pickle.dumps(recommender))
    assert again.predict(events[:2]).tolist() == recommender.predict(events[:2]).tolist()


def test_fitting_again_replaces_the_run(events: np.ndarray, tmp_path: Path) -> None:
    estimator = ContigRecommender("popularity", out=str(tmp_path / "run"))
    assert len(estimator.fit(events).run_.stream) == len(events)
    assert len(estimator.fit(events[:300]).run_.stream) == 300
    with pytest.raises(DataError, match="is a heuristic and has no probabilities"):
        estimator.predict_proba(events[100:102])


@pytest.mark.parametrize("wrong", [[1, 2, 3], [[1, 2]], np.ones((2, 2, 2))])
def test_arrays_have_three_columns(wrong: Any) -> None:
    with pytest.raises(DataError, match="expected the columns source, destination and time"):
        ContigRecommender().fit(wrong)


def labelled(events: np.ndarray) -> np.ndarray:
    """A label that the graph decides: whether the destination is even."""
    return (events[:, 1] % 2 == 0).astype(int)


def test_a_classifier_learns_labels(
    events: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_classifiers(monkeypatch)
    make = partial(ContigClassifier, "contig", epochs=1, settings=SETTINGS, out=str(tmp_path / "run"))
    estimator = make().fit(events[:360], labelled(events[:360]))
    later = events[360:]
    found = estimator.predict_proba(later)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert estimator.classes_.tolist() == [0, 1]
    assert estimator.predict(later).tolist() == (found[:, 1] >= 0.5).astype(int).tolist()
    assert estimator.score(later, labelled(later)) == np.mean(estimator.predict(later) == labelled(later))
    np.testing.assert_array_equal(estimator.run_.trained_stream.label, labelled(events[:360]))
    with pytest.raises(DataError, match="pass the labels of the events as y"):
        make().fit(events)


def test_labels_of_a_stream_leave_its_nodes_as_they_are() -> None:
    """Sources and destinations with equal ids stay apart, and nodes keep their features."""
    stream = EventStream.from_arrays([1, 2, 1], [1, 1, 2], [1, 2, 3], bipartite=True)
    stream = stream.with_node_features(np.eye(4, dtype=np.float32))
    found = as_stream(stream, [0, 1, 1])
    assert found.label is not None
    assert found.label.tolist() == [0, 1, 1]
    assert found.num_nodes == 4
    assert found.node_features is stream.node_features
    with pytest.raises(DataError, match="label"):
        as_stream(stream, [0, 1])


def test_columns_are_named_by_reading_the_events() -> None:
    table = pa.table({"Customer": ["a", "b"], "Shop": ["x", "y"], "When": [1, 2]})
    with pytest.raises(
        DataError, match=r"To name columns, pass contig\.read_events\(X, src=\.\.\., \.\.\.\)"
    ):
        as_stream(table)
    with pytest.raises(DataError, match="To name columns, pass"):
        as_stream(table, [0, 1])
