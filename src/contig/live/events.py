"""Events as a client sends them, checked against the run that takes them in."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contig.data.clock import LATEST, TimeSpan, find_wrong_unit, in_unit_of, out_of_range
from contig.data.columns import Array, Column, is_text, row_place
from contig.data.date_formats import parsed_dates
from contig.data.feature_columns import RawFeatures, raw_features
from contig.data.feature_plan import FeaturePlan
from contig.data.ids import TextIds
from contig.data.numbers import is_number
from contig.data.read_options import ReadOptions
from contig.data.time_columns import validate_times
from contig.data.validation import (
    check_lengths,
    feature_matrix,
    validate_features,
    validate_ids,
)
from contig.errors import DataError, unknown

if TYPE_CHECKING:
    import pyarrow as pa

ORIGIN = "events"
COLUMNS = ("src", "dst", "t", "features")


@dataclass(frozen=True, eq=False)
class Events:
    """Events in columns: the user's ids, times as in the run's events or dates, and its features, if any.

    An Arrow table has the same columns, ``features`` as lists or as a struct of the run's feature columns, or
    these columns themselves.
    """

    src: ArrayLike
    dst: ArrayLike
    t: ArrayLike
    features: ArrayLike | None = None


@dataclass(frozen=True)
class StreamTraits:
    """What new events have in common with those of the run."""

    numeric_ids: bool
    time: TimeSpan  # of the known events
    edge_width: int
    plan: FeaturePlan | None = None  # how feature columns are encoded, if they are
    read_as: ReadOptions | None = None  # the columns that were named, and how dates are written

    @property
    def date_format(self) -> str | None:
        """How dates are written, if not in ISO 8601."""
        return None if self.read_as is None else self.read_as.date_format

    @property
    def reading(self) -> ReadOptions:
        """How a file with events for the run is read, features included; labels are of no use to it."""
        features: list[str | int] | bool | None = False if not self.edge_width else None
        if self.plan is not None and not self.plan.of_vectors:
            features = list(self.plan.inputs)
        return (self.read_as or ReadOptions()).updated(label=None, features=features)


@dataclass(frozen=True, eq=False)
class CheckedEvents:
    """Valid events in time order; ``row`` is the place of each in the client's batch."""

    src: list[int | str]
    dst: list[int | str]
    t: Array  # [events] int64 or float64, as in the run
    features: NDArray[np.float32] | None
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.t)

    def digest(self) -> int:
        """Return a checksum of the events, to recognize a batch that is sent again."""
        content = zlib.crc32(json.dumps([self.src, self.dst]).encode())
        content = zlib.crc32(self.t.tobytes(), content)
        return content if self.features is None else zlib.crc32(self.features.tobytes(), content)


def checked(events: Events | pa.Table, traits: StreamTraits, max_batch: int) -> CheckedEvents:
    """Check a batch and sort it by time, stably; raise ``DataError`` if any value is invalid."""
    columns, features = _columns(events, traits)
    lengths = {name: len(column) for name, column in columns.items()}
    check_lengths(lengths if features is None else {**lengths, "features": len(features)}, ORIGIN)
    if len(columns["t"]) > max_batch:
        raise DataError(f"{len(columns['t']):,} events are too many for one batch; send up to {max_batch:,}.")
    src, dst = (_labels(columns[name], traits.numeric_ids) for name in ("src", "dst"))
    t, features = _times(columns["t"], traits), _fitting(features, traits.edge_width)
    order = np.argsort(t, kind="stable")
    rows = order.tolist()
    ordered = None if features is None else features[order]
    return CheckedEvents([src[i] for i in rows], [dst[i] for i in rows], t[order], ordered, order)


def _columns(events: Any, traits: StreamTraits) -> tuple[dict[str, Column], NDArray[np.float32] | None]:
    """Return the columns of events, and their features as the model takes them."""
    plan = traits.plan
    if isinstance(events, Events):
        columns = {name: Column.of(getattr(events, name), name, ORIGIN) for name in ("src", "dst", "t")}
        given = events.features
        matrix = None if given is None else feature_matrix(given, ORIGIN, "features")
        return columns, _encoded(matrix, plan)
    names = getattr(events, "column_names", None)
    if names is None:
        raise DataError(f"Expected Events or an Arrow table, got a {type(events).__name__}.")
    if missing := [name for name in COLUMNS[:3] if name not in names]:
        raise DataError(f"{ORIGIN}: there is no column {missing[0]!r}; events need src, dst and t.")
    columns = {name: _table_column(events, name) for name in COLUMNS if name in names}
    features = columns.pop("features", None)
    if features is not None and _is_struct(features):
        return columns, _by_name(features, traits)
    if features is None and plan is not None and len(columns["t"]):
        found = [_table_column(events, name) for name in plan.inputs if name in names]
        none = RawFeatures(np.zeros((len(columns["t"]), 0), np.float32), ())
        return columns, plan.encode(raw_features(found, plan.kinds) if found else none, ORIGIN)
    matrix = None if features is None or not len(features) else validate_features([features])
    return columns, _encoded(matrix, plan)


def _is_struct(column: Column) -> bool:
    return str(column.values.type).startswith("struct<")


def _by_name(column: Column, traits: StreamTraits) -> NDArray[np.float32]:
    """Encode features that are given by name, as a struct."""
    import pyarrow.compute as pc

    plan = traits.plan
    if plan is None:
        cure = f"send {traits.edge_width} numbers as a list" if traits.edge_width else "leave them out"
        raise DataError(f"{ORIGIN}: the run was trained without named features; {cure}.")
    names = [column.values.type.field(i).name for i in range(column.values.type.num_fields)]
    if strange := [name for name in names if name not in plan.inputs]:
        raise DataError(f"{ORIGIN}: {unknown('feature', strange[0], plan.inputs)}")
    if len(set(names)) < len(names):
        raise DataError(f"{ORIGIN}: a feature is given twice.")
    found = [
        Column(name, pc.struct_field(column.values, [i]), ORIGIN, row_place(ORIGIN))
        for i, name in enumerate(names)
    ]
    none = RawFeatures(np.zeros((len(column), 0), np.float32), ())
    return plan.encode(raw_features(found, plan.kinds) if found else none, ORIGIN)


def _table_column(table: pa.Table, name: str) -> Column:
    return Column(name, table.column(name), ORIGIN, row_place(ORIGIN))


def _encoded(matrix: NDArray[np.float32] | None, plan: FeaturePlan | None) -> NDArray[np.float32] | None:
    """Encode a list of features per event: the run's columns in their order."""
    return matrix if matrix is None or plan is None else plan.encode_matrix(matrix, ORIGIN)


def _labels(column: Column, numeric: bool) -> list[int | str]:
    """Return ids in the type of the run's."""
    ids = validate_ids(column)
    if numeric and isinstance(ids, TextIds):
        raise DataError(
            f"{ORIGIN}: the ids of this run are whole numbers, but column {column.name!r} holds text such as "
            f"{ids.labels[0].as_py()!r}."
        )
    if not isinstance(ids, TextIds):
        found: list[int | str] = ids.tolist()
        return found if numeric else [str(label) for label in found]
    labels: list[int | str] = ids.labels.to_pylist()
    return [labels[code] for code in ids.codes.tolist()]


def _times(column: Column, traits: StreamTraits) -> Array:
    """Return times in the unit and type of the run's events."""
    time, dates = traits.time, _are_dates(column)
    t = validate_times(_with_parsed_dates(column, traits.date_format), date_format_can_be_set=False)
    if dates:
        t = _from_seconds(t, time)
    elif wrong := find_wrong_unit(t, time):
        raise column.error(wrong.row, wrong.problem, t[wrong.row].item())
    if time.type.startswith("float"):
        return t.astype(np.float64)
    for bad, problem in (
        (np.floor(t) != t, "is not a whole number, as the times of this run are."),
        (out_of_range(t), f"is not below {LATEST:,}; is the unit right?"),
    ):
        if bad.any():
            row = int(np.argmax(bad))
            raise column.error(row, problem, t[row].item())
    return t.astype(np.int64)


def _with_parsed_dates(column: Column, date_format: str | None) -> Column:
    """Parse dates in the run's own format; those in ISO 8601 stay as they are."""
    if date_format is None or not is_text(column.values.type) or not _are_dates(column):
        return column
    try:
        return parsed_dates(column, date_format)
    except DataError as error:
        try:
            validate_times(column)
        except DataError:
            raise error from None
        return column


def _are_dates(column: Column) -> bool:
    kind = str(column.values.type)
    if kind.startswith(("timestamp", "date")):
        return True
    first = next((value for value in column.values.to_pylist() if value is not None), None)
    return is_text(column.values.type) and isinstance(first, str) and not is_number(first.strip())


def _from_seconds(t: Array, time: TimeSpan) -> Array:
    if time.unix is None:
        raise DataError(
            f"{ORIGIN}: the times of this run go from {time.first:,} to {time.last:,} and do not look like "
            "dates; send numbers."
        )
    return in_unit_of(time, t, dates=True)


def _fitting(features: NDArray[np.float32] | None, width: int) -> NDArray[np.float32] | None:
    """Return the features that the run has; those of a run without any are ignored."""
    found = 0 if features is None else features.shape[1]
    if width and found != width:
        raise DataError(
            f"{ORIGIN}: the events have {found} features, those of the run {width}; name the columns "
            "of a file with --features (features=)."
        )
    return features if width else None
