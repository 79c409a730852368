"""Estimators with the interface of scikit-learn: ``ContigRecommender`` and ``ContigClassifier``.

``X`` is a table of events: anything that ``contig.read_events`` takes, or an array with the columns source,
destination and time. Hyperparameters are arguments of the constructor, so that ``get_params``, ``set_params``
and ``clone`` work as usual; options of the model and of its training go into ``settings``.

Rows of ``X`` depend on each other through time, so that scikit-learn's random splits do not apply: use
``TimeSeriesSplit`` on sorted events. For the same reason its checks that fit arbitrary numbers do not apply
(see ``EXEMPT`` in the tests).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from contig.data.columns import Column
from contig.data.events import EventStream
from contig.data.ids import distinct_ids
from contig.data.readers import read_events, read_pairs
from contig.data.validation import validate_arrays, validate_ids
from contig.errors import DataError
from contig.models import DEFAULT_MODEL
from contig.runs.run import Run
from contig.training.fit import fit

COLUMNS = ("src", "dst", "t")


# A dataclass has the constructor that scikit-learn expects: it assigns every argument, and does nothing else.
@dataclass(eq=False, repr=False)
class _EventEstimator(BaseEstimator):  # type: ignore[misc]
    """Holds a run that is trained by ``fit``, and keeps it when the estimator is pickled."""

    model: str = DEFAULT_MODEL
    _: KW_ONLY
    epochs: int = 50
    settings: Mapping[str, Any] | None = None
    device: str = "auto"
    out: str | None = None
    verbose: bool = False
    run_: Run = field(init=False)

    def _train(self, events: EventStream) -> None:
        self.run_ = fit(
            events,
            self.model,
            out=self.out,
            overwrite=self.out is not None,
            device=self.device,
            show=self.verbose,
            epochs=self.epochs,
            **dict(self.settings or {}),
        )

    def _fitted(self) -> Run:
        if not hasattr(self, "run_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")
        return self.run_

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "run_": self.run_.path} if hasattr(self, "run_") else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("run_", None)
        super().__setstate__(state)
        if path is not None:
            self.run_ = Run.open(path, self.device)


@dataclass(eq=False, repr=False, kw_only=True)
class ContigRecommender(_EventEstimator):
    """Recommend the next destinations of sources.

    - ``fit(X)`` trains on events; ``y`` is ignored.
    - ``predict(X)`` takes sources and returns their ``k`` best destinations ``[sources, k]``; where there are
      fewer, the rest of a row is None.
    - ``predict_proba(X)`` takes pairs of source, destination and time, and returns the probabilities
      ``[pairs, 2]`` that each is a random and a true one.
    - ``score(X)`` is the share of the events in ``X`` whose destination is among the ``k`` best of its source
      after the events of ``fit`` (recall@k).

    The run is saved in ``out``, replacing the one before; without it, in a temporary folder. ``run_`` is the
    trained ``contig.Run``.
    """

    k: int = 10
    exclude_seen: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the events ``X``."""
        self._train(as_stream(X))
        return self

    def predict(self, X: Any) -> NDArray[np.object_]:
        """Return the ``k`` best destinations of each source."""
        lists = self._fitted().recommend(_sources(X), k=self.k, exclude_seen=self.exclude_seen)
        best = np.full((len(lists), self.k), None, dtype=object)
        for row, found in zip(best, lists, strict=True):
            row[: len(found)] = [one.node for one in found]
        return best

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities ``[pairs, 2]`` of a random and of a true pair."""
        run = self._fitted()
        columns, place = read_pairs(_table(X))
        true = run.score_columns(columns, place).probability
        if true is None:
            raise DataError(f"{run.config.model} is a heuristic and has no probabilities; use another model.")
        return np.column_stack([1 - true, true])

    def score(self, X: Any, y: Any = None) -> float:
        """Return the recall@k of the events in ``X``."""
        run, stream = self._fitted(), as_stream(X)
        labels = stream.ids.labels
        sources, rows = np.unique(stream.src, return_inverse=True)
        found = run.recommend(labels[sources].tolist(), k=self.k, exclude_seen=self.exclude_seen)
        best = [{one.node for one in one_list} for one_list in found]
        hits = [dst in best[row] for row, dst in zip(rows, labels[stream.dst].tolist(), strict=True)]
        return float(np.mean(hits))


@dataclass(eq=False, repr=False, kw_only=True)
class ContigClassifier(ClassifierMixin, _EventEstimator):  # type: ignore[misc]
    """Classify events: the probability of label 1, from the graph and the events' own features.

    - ``fit(X, y)`` trains a model on events, then a classifier on their labels ``y``: 0, 1, or NaN where a
      label is not known. A table has the columns ``src``, ``dst`` and ``t``. To name other columns, feature
      columns or that of the labels, pass ``contig.read_events(X, src=..., features=..., label=...)``; later
      tables are then read in the same way.
    - ``predict_proba(X)`` takes later events and returns the probabilities ``[events, 2]`` of both classes;
      ``predict(X)`` is 1 where that of label 1 is at least ``threshold``.

    ``label_delay`` is how long after its event a label becomes known, in the unit of the times. The run is
    saved in ``out``, replacing the one before; without it, in a temporary folder. ``run_`` is the trained
    ``contig.Run``.
    """

    threshold: float = 0.5
    label_delay: float = 0.0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the events ``X`` with the labels ``y``, or with those of their own column."""
        stream = as_stream(X, y)
        if stream.label is None:
            raise DataError("fit(X, y): pass the labels of the events as y, or as a column 'label' of X.")
        self.classes_ = np.array([0, 1])
        self._train(stream)
        self.run_.classify(label_delay=self.label_delay, show=self.verbose)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities ``[events, 2]`` of label 0 and of label 1."""
        run = self._fitted()
        true = run.classify(_table(X), label_delay=self.label_delay, show=self.verbose).probability
        return np.column_stack([1 - true, true])

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 for events whose probability of label 1 is at least ``threshold``, else 0."""
        return (self.predict_proba(X)[:, 1] >= self.threshold).astype(np.int64)


def as_stream(X: Any, y: Any = None) -> EventStream:
    """Return events as a stream; labels ``y`` take the place of those in ``X``."""
    table = _table(X)
    if y is None:
        return table if isinstance(table, EventStream) else _read(table)
    if isinstance(table, EventStream):
        return replace(table, label=validate_arrays(table.src, table.dst, table.t, y, None, "y").label)
    rows = table if isinstance(table, dict) else _arrow(table)
    if isinstance(rows, dict):
        return _read({**rows, "label": np.asarray(y)}, label="label")
    rows = rows.drop_columns(["label"]) if "label" in rows.column_names else rows
    return _read(rows.append_column("label", pa.array(np.asarray(y))), label="label")


def _read(table: Any, label: str | None = None) -> EventStream:
    try:
        return read_events(table, label=label)
    except DataError as error:
        raise DataError(f"{error} To name columns, pass contig.read_events(X, src=..., ...).") from None


def _table(X: Any) -> Any:
    """Return an array of three columns as a table, and everything else as it is."""
    if isinstance(X, np.ndarray | list):
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != len(COLUMNS):
            raise DataError(f"X has shape {rows.shape}; expected the columns source, destination and time.")
        return {name: rows[:, i] for i, name in enumerate(COLUMNS)}
    return X


def _arrow(table: Any) -> pa.Table:
    if not hasattr(table, "__arrow_c_stream__"):
        return _read(table).to_arrow()
    return pa.RecordBatchReader.from_stream(table).read_all()


def _sources(X: Any) -> list[int | str]:
    """Return the ids of sources: a column of ids, or the first column of a table."""
    rows = np.asarray(X)
    column = rows[:, 0] if rows.ndim == 2 else np.atleast_1d(rows)
    labels, codes = distinct_ids(validate_ids(Column.of(column, "source", "X")))  # 7, not 7.0
    return [labels[code] for code in codes.tolist()]
