"""Events for a trained run: read as its own were, with their features encoded by the run's plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import first_true
from contig.data.encoding import FeaturePlans
from contig.data.feature_columns import RawFeatures
from contig.data.feature_plan import FeaturePlan
from contig.data.read_options import ReadOptions
from contig.data.readers import PairTable, read_pairs
from contig.data.validation import UNKNOWN_LABEL, EventColumns
from contig.errors import ConfigError, DataError

Place = Callable[[int], str]


def read_new_events(
    source: Any,
    reading: ReadOptions,
    plans: FeaturePlans | None,
    *,
    usual: ReadOptions | None = None,
    with_labels: bool = False,
) -> PairTable:
    """Read events from a file, a table or a stream; ``usual`` is how those of the run were read.

    Feature columns that are not named are those of the run, and hold what they held in training: numbers or
    categories. Vectors, and features of a stream that are not columns of a file, have the values that the
    columns of a file would have, in their order.
    """
    plan = None if plans is None else plans.events
    table = read_pairs(
        source,
        _as_in_training(reading, plan),
        with_features=True,
        with_labels=with_labels,
        usual=usual,
        kinds=None if plan is None else plan.kinds,
    )
    features = _complete(table) if plan is None else _encoded(table, plan)
    return PairTable(replace(table.columns, features=features, feature_columns=()), table.place)


def _as_in_training(reading: ReadOptions, plan: FeaturePlan | None) -> ReadOptions:
    """Return how to read features that are encoded by a plan, or used as they are."""
    if plan is None:
        if reading.preprocess:
            raise ConfigError(
                "preprocess=True (--preprocess): this run uses its features as they are; omit the option."
            )
        return reading.updated(preprocess=False)
    if reading.preprocess is False:
        raise ConfigError(
            "preprocess=False (--raw-features): this run encodes its features as in training; pass them as "
            "they are in a file, and omit the option."
        )
    if reading.features is not None:
        return reading
    if plan.of_vectors:
        return reading.updated(preprocess=True)
    return reading.updated(features=plan.inputs)


def _encoded(table: PairTable, plan: FeaturePlan) -> NDArray[np.float32] | None:
    columns, origin = table.columns, table.place(0).rpartition(", ")[0]
    if columns.features is None:
        return None
    if not columns.feature_columns:
        return plan.encode_matrix(columns.features, origin)
    return plan.encode(RawFeatures(columns.features, columns.feature_columns), origin)


def _complete(table: PairTable) -> NDArray[np.float32] | None:
    """Return features that are used as they are: numbers, none of them missing."""
    columns = table.columns
    if columns.features is None or not columns.feature_columns:
        return columns.features
    if named := [column.name for column in columns.feature_columns if column.categories is not None]:
        raise DataError(
            f"{table.place(0)}, column {named[0]!r} holds categories, but the features of this run are "
            "numbers; name other columns with features= (--features)."
        )
    missing = np.isnan(columns.features)
    if missing.any():
        row, column = divmod(first_true(missing.ravel()), missing.shape[1])
        name = columns.feature_columns[column].name
        raise DataError(f"{table.place(row)}, column {name!r}: the feature is missing; fill it in.")
    return columns.features


def check_label_values(columns: EventColumns, known: NDArray[np.int64] | None, place: Place) -> None:
    """Reject labels other than 0 and 1 where the known ones are 0 and 1; new ones may be missing."""
    if columns.label is None or known is None or not np.isin(known, (0, 1, UNKNOWN_LABEL)).all():
        return
    wrong = ~np.isin(columns.label, (0, 1, UNKNOWN_LABEL))
    if wrong.any():
        row = first_true(wrong)
        raise DataError(
            f"{place(row)}: label {columns.label[row]} is neither 0 nor 1; use 1 for the positive class and "
            "0 for everything else."
        )


def labels_in_order(columns: EventColumns) -> NDArray[np.int64]:
    """Return the labels of events in time order, ``UNKNOWN_LABEL`` for all if there are none."""
    if columns.label is None:
        return np.full(len(columns.t), UNKNOWN_LABEL)
    return columns.label[np.argsort(columns.t, kind="stable")]
