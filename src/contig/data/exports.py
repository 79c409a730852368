"""Streams as tables and objects of other packages; ``read_events`` reads all of them again."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contig.data.clock import TICKS, Clock
from contig.data.columns import Array
from contig.data.feature_columns import RawFeatures, arrow_columns
from contig.data.validation import UNKNOWN_LABEL
from contig.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from contig.data.events import EventStream

TIME_COLUMNS = ("t", "at", "last_event")
YEAR_1, YEAR_10000 = -62_135_596_800, 253_402_300_800  # in seconds since 1970
UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def event_table(stream: EventStream, *, wide: bool = False, dates: bool = False) -> pa.Table:
    """Return the columns src, dst and t, and label and features if the stream has them.

    Nodes have the user's ids. Features are one column of lists, or with ``wide`` the columns f0, f1, ....
    With ``dates``, times that are Unix times become timestamps.
    """
    labels = pa.array(stream.ids.labels)
    columns: dict[str, Any] = {
        "src": labels.take(pa.array(stream.src)),
        "dst": labels.take(pa.array(stream.dst)),
    }
    columns["t"] = timestamps(stream.t, stream) if dates else pa.array(stream.t)
    if stream.label is not None:
        columns["label"] = label_column(stream.label)
    if stream.edge_features is not None and stream.edge_columns:
        columns |= arrow_columns(RawFeatures(stream.edge_features, stream.edge_columns))
    elif stream.edge_features is not None:
        columns |= vector_columns(stream.edge_features, "features", "f", wide=wide)
    return pa.table(columns)


def label_column(label: NDArray[np.int64]) -> pa.Array:
    """Return labels with nulls for those that are not known."""
    return pa.array(label, mask=label == UNKNOWN_LABEL)


def vector_columns(
    vectors: NDArray[np.float32], name: str, prefix: str, *, wide: bool
) -> dict[str, pa.Array]:
    """Return vectors ``[rows, width]`` as one column of lists, or as a column for each component."""
    if wide:
        return {
            f"{prefix}{i}": pa.array(np.ascontiguousarray(vectors[:, i])) for i in range(vectors.shape[1])
        }
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    return {name: pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}


def timestamps(t: Array, stream: EventStream) -> pa.Array:
    """Return times in the stream's unit as timestamps in UTC; reject a stream whose times are not dates."""
    clock = stream.time_span.unix
    if clock is None:
        raise DataError(
            f"{stream.origin}: the times do not look like Unix times, so they cannot become dates; "
            "omit dates=True."
        )
    return _as_timestamps(pa.array(t), clock)


def _as_timestamps(t: pa.Array, clock: Clock, zone: str | None = "UTC") -> pa.Array:
    if pa.types.is_floating(t.type):  # microseconds are the finest that float64 holds of a date in seconds
        whole = pc.cast(pc.round(pc.multiply(t, 1e6 / TICKS[clock])), pa.int64())
        return whole.cast(pa.timestamp("us", zone))
    return t.cast(pa.timestamp(UNITS[clock], zone))


def _are_dates(t: pa.ChunkedArray) -> bool:
    """Return whether all Unix seconds are in the years 1 to 9999, as times in a finer unit are not."""
    first, last = pc.min_max(t).as_py().values()
    return first is None or bool(first >= YEAR_1 and last < YEAR_10000)


def with_dates(table: pa.Table, *, text: bool) -> pa.Table:
    """Return a table of Unix seconds (``t``, ``at``, ``last_event``) as timestamps, or ISO 8601 ``text``.

    Columns with times outside the years 1 to 9999 stay numbers.
    """
    for place, name in enumerate(table.column_names):
        times = table.column(place)
        if name in TIME_COLUMNS and _are_dates(times):
            dates = _iso(_as_timestamps(times, "seconds", None)) if text else _as_timestamps(times, "seconds")
            table = table.set_column(place, name, dates)
    return table


def _iso(dates: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write timestamps without a zone as ``2024-05-01T12:00:00Z``, with fractions if one of them has some."""
    with suppress(pa.ArrowInvalid):
        dates = dates.cast(pa.timestamp("s"))
    # not strftime, which needs the time zones of the system
    return pc.binary_join_element_wise(pc.replace_substring(dates.cast(pa.string()), " ", "T"), "Z", "")


def as_pandas(table: pa.Table, *, dates: bool = False) -> Any:
    """Return a table as a pandas frame, with timestamps (see ``with_dates``) if its times are ``dates``."""
    _require("pandas")
    return (with_dates(table, text=False) if dates else table).to_pandas()


def as_polars(table: pa.Table) -> Any:
    """Return a table as a polars frame."""
    return _require("polars").from_arrow(table)


def temporal_data(stream: EventStream) -> Any:
    """Return a ``TemporalData`` of PyTorch Geometric, with nodes numbered as in the stream.

    Tensors have no missing values: where a label is not known, ``y`` is -1 and ``y_known``, which is there if
    there are such labels, is False.
    """
    torch, data = import_module("torch"), _require("torch_geometric.data", "contig[baselines]")
    columns: dict[str, Array | None] = {"src": stream.src, "dst": stream.dst, "t": stream.t}
    columns |= {"msg": stream.edge_features, "y": stream.label}
    if stream.label is not None and (stream.label == UNKNOWN_LABEL).any():
        columns["y_known"] = stream.label != UNKNOWN_LABEL
    tensors = {name: torch.from_numpy(c.copy()) for name, c in columns.items() if c is not None}
    return data.TemporalData(**tensors)


def _require(module: str, package: str = "") -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        package = package or module
        raise ConfigError(
            f"This needs {package}, which is not installed: pip install '{package}'."
        ) from error
