"""Events for a trained run: read as its own were, with their features encoded by the run's plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contig.data.encoding import FeaturePlans
from contig.data.feature_columns import RawFeatures
from contig.data.read_options import ReadOptions
from contig.data.readers import PairTable, read_pairs
from contig.data.validation import UNKNOWN_LABEL, EventColumns


def read_new_events(
    source: Any, reading: ReadOptions, plans: FeaturePlans | None, *, with_labels: bool = False
) -> PairTable:
    """Read events from a file, a table or a stream.

    Feature columns that are not named are those of the run. Features of a stream that are not columns of a
    file are taken as encoded already.
    """
    plan = None if plans is None else plans.events
    if plan is not None and reading.features is None:
        reading = reading.updated(features=plan.inputs)
    columns, place = read_pairs(source, reading, with_features=True, with_labels=with_labels)
    if plan is None or not columns.feature_columns or columns.features is None:
        return PairTable(columns, place)
    raw = RawFeatures(columns.features, columns.feature_columns)
    features = plan.encode(raw, place(0).rpartition(", ")[0])
    return PairTable(replace(columns, features=features, feature_columns=()), place)


def labels_in_order(columns: EventColumns) -> NDArray[np.int64]:
    """Return the labels of events in time order, ``UNKNOWN_LABEL`` for all if there are none."""
    if columns.label is None:
        return np.full(len(columns.t), UNKNOWN_LABEL)
    return columns.label[np.argsort(columns.t, kind="stable")]
