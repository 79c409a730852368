"""Number the nodes and sort the events of Parquet files with DuckDB, and write the columns of a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contig.data.columns import Array, shortened
from contig.data.indexing.column_files import ColumnFile
from contig.data.indexing.database import Database
from contig.data.indexing.progress_file import BuildProgress, StreamFacts
from contig.data.indexing.sources import TEXT, Check, Sources
from contig.data.validation import FILL, no_events
from contig.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

EVENT_BYTES = 256  # that DuckDB needs to sort an event and join both ids, besides its features
MICROSECONDS = 1_000_000


class Budget(NamedTuple):
    """How much of a build happens at once."""

    duckdb_bytes: int
    events: int  # sorted at once, without features
    entries: int  # of nodes, placed at once

    @classmethod
    def of(cls, memory: int) -> Budget:
        """Divide this many bytes."""
        return cls(memory // 2, max(1 << 16, memory // 2 // EVENT_BYTES), max(1 << 16, memory // 4 // 16))

    def events_at_once(self, width: int) -> int:
        """Return how many events with this many features are sorted at once."""
        return max(1, self.events * EVENT_BYTES // (EVENT_BYTES + 8 * width))


# --- checking and numbering --------------------------------------------------------------------------


def survey(database: Database, sources: Sources, budget: Budget, origin: str) -> StreamFacts:
    """Check every row but its features, number the nodes, and divide the time into parts."""
    checks = [check for column in sources.columns for check in column.checks]
    counted = "".join(f", count_if({check.condition})" for check in checks)
    fraction = f"count_if({sources.t.sql} % {MICROSECONDS} <> 0)" if sources.dates else "0"
    events, fractions, *bad = database.row(f"SELECT count(*), {fraction}{counted} FROM {sources.table}")
    if not events:
        raise no_events(origin)
    for check, found in zip(checks, bad, strict=True):
        if found:
            raise _bad_row(database, sources, check)
    whole = not (sources.float_times or (sources.dates and fractions))
    width = _width(database, sources)
    bipartite, numbers = _number_nodes(database, sources)
    longest = database.row("SELECT max(length(label)) FROM nodes")[0] if sources.text_ids else 0
    return StreamFacts(
        events=events,
        width=width,
        has_label=sources.label is not None,
        whole_times=whole,
        bipartite=bipartite,
        sources=numbers[0],
        nodes=numbers[1],
        text_length=longest,
        dates=sources.dates,
        cuts=_cuts(database, sources, events, budget.events_at_once(width)),
    )


def _bad_row(database: Database, sources: Sources, check: Check) -> DataError:
    """Describe the first row that meets a condition."""
    quoted = check.column.replace('"', '""')
    file, row, value, kind = database.row(
        f'SELECT file_index, file_row_number, CAST("{quoted}" AS VARCHAR), typeof("{quoted}") '
        f"FROM {sources.table} WHERE {check.condition} ORDER BY file_index, file_row_number LIMIT 1",
    )
    shown = "" if value is None else f" {shortened(repr(value) if kind == TEXT else value)}"
    return DataError(f"{sources.place(file, row)}, column {check.column!r}:{shown} {check.problem}")


def _width(database: Database, sources: Sources) -> int:
    """Return the number of features of every event."""
    if sources.features is None:
        return 0
    (found,) = database.row(f"SELECT first(len({sources.features.sql})) FROM {sources.table}")
    if found is None:
        raise DataError(
            f"{sources.place(0, 0)}: the feature list is missing; fill it in or remove the event."
        )
    return int(found)


def _number_nodes(database: Database, sources: Sources) -> tuple[bool, tuple[int, int]]:
    """Create the table ``nodes`` (label, is_dst, id) with ids in the order of the labels, sources first."""
    for side, column in (("sources", sources.src), ("destinations", sources.dst)):
        database.rows(
            f"CREATE OR REPLACE TABLE {side} AS SELECT DISTINCT {column.sql} AS label FROM {sources.table}"
        )
    bipartite = sources.bipartite
    if bipartite is None:
        shared = database.row("SELECT count(*) FROM sources SEMI JOIN destinations USING (label)")
        bipartite = shared[0] == 0
    both = "SELECT label, false AS is_dst FROM sources UNION ALL SELECT label, true FROM destinations"
    if not bipartite:
        both = "SELECT label, false AS is_dst FROM (FROM sources UNION FROM destinations)"
    database.rows(
        "CREATE OR REPLACE TABLE nodes AS SELECT *, row_number() OVER (ORDER BY is_dst, label) - 1 AS id "
        f"FROM ({both})"
    )
    database.rows("DROP TABLE sources; DROP TABLE destinations; CHECKPOINT")
    of_sources, nodes = database.row("SELECT count_if(NOT is_dst), count(*) FROM nodes")
    return bipartite, (of_sources, nodes)


def _cuts(database: Database, sources: Sources, events: int, at_once: int) -> tuple[str, ...]:
    """Return the times that divide the events into parts of about equal size."""
    parts = -(-events // at_once)
    if parts == 1:
        return ()
    shares = ", ".join(str(part / parts) for part in range(1, parts))
    (times,) = database.row(f"SELECT approx_quantile({sources.t.sql}, [{shares}]) FROM {sources.table}")
    return tuple(repr(time) for time in sorted(set(times)))


# --- writing -----------------------------------------------------------------------------------------


def write_ids(database: Database, facts: StreamFacts, folder: Path) -> None:
    """Write the ids of all nodes, and on which side each is."""
    dtype = np.dtype(f"<U{facts.text_length}") if facts.text_length else np.dtype("<i8")
    file = ColumnFile(folder / "ids.npy", dtype, (facts.nodes,))
    file.open(0)
    try:
        for batch in database.batches("SELECT label FROM nodes ORDER BY id"):
            values = batch.column(0)
            file.append(np.asarray(values.to_pylist(), dtype) if facts.text_length else values.to_numpy())
        file.sync()
    finally:
        file.close()
    if facts.bipartite:
        sides = ColumnFile(folder / "is_dst.npy", np.dtype(bool), (facts.nodes,))
        sides.open(0)
        sides.append(np.arange(facts.nodes) >= facts.sources)
        sides.close()


def event_files(facts: StreamFacts, folder: Path) -> dict[str, ColumnFile]:
    """Return the files of the event columns by name."""
    time, events = np.dtype("<i8" if facts.whole_times else "<f8"), (facts.events,)
    files = {
        "src": ColumnFile(folder / "src.npy", np.dtype("<i8"), events),
        "dst": ColumnFile(folder / "dst.npy", np.dtype("<i8"), events),
        "t": ColumnFile(folder / "t.npy", time, events),
    }
    if facts.has_label:
        files["label"] = ColumnFile(folder / "label.npy", np.dtype("<i8"), events)
    if facts.width:
        shape = (facts.events, facts.width)
        files["edge_features"] = ColumnFile(folder / "edge_features.npy", np.dtype("<f4"), shape)
    return files


def write_events(
    database: Database,
    sources: Sources,
    progress: BuildProgress,
    folder: Path,
    advance: Callable[[int], None],
) -> BuildProgress:
    """Write the events in time order, part by part, from the first part that is not written yet."""
    facts = progress.facts
    assert facts is not None
    files = event_files(facts, folder)
    try:
        for file in files.values():
            file.open(progress.events)
        for part in range(progress.parts, len(facts.cuts) + 1):
            count = 0
            for batch in database.batches(_part_query(sources, facts, part)):
                for name, values in _event_columns(batch, facts, sources).items():
                    files[name].append(values)
                count += batch.num_rows
                advance(batch.num_rows)
            for file in files.values():
                file.sync()
            progress = replace(progress, parts=part + 1, events=progress.events + count)
            progress.save(folder)
    finally:
        for file in files.values():
            file.close()
    if progress.events != facts.events:
        raise DataError(
            f"The files changed while they were indexed: {progress.events:,} events instead of "
            f"{facts.events:,}. Index them again."
        )
    return progress


def _part_query(sources: Sources, facts: StreamFacts, part: int) -> str:
    """Return the SQL of a part's events, numbered and in time order; equal times stay in their order."""
    first = [f"{sources.t.sql} >= {facts.cuts[part - 1]}"] if part else []
    last = [f"{sources.t.sql} < {facts.cuts[part]}"] if part < len(facts.cuts) else []
    bounds = " AND ".join([*first, *last]) or "true"
    more = [f", {sources.label.sql} AS label"] if sources.label else []
    more += [f", {sources.features.sql} AS features"] if sources.features and facts.width else []
    kept = [name.rpartition(" AS ")[2] for name in more]
    dst_side = "true" if facts.bipartite else "false"
    columns = ", ".join(
        ["s.id AS src", "d.id AS dst", "e.t AS t", "e.file", "e.row", *(f"e.{k}" for k in kept)]
    )
    return (
        f"WITH e AS (SELECT {sources.src.sql} AS src, {sources.dst.sql} AS dst, {sources.t.sql} AS t, "
        f"file_index AS file, file_row_number AS row{''.join(more)} FROM {sources.table} WHERE {bounds}) "
        f"SELECT {columns} FROM e "
        "JOIN nodes s ON e.src = s.label AND NOT s.is_dst "
        f"JOIN nodes d ON e.dst = d.label AND d.is_dst = {dst_side} "
        "ORDER BY t, file, row"
    )


def _event_columns(batch: pa.RecordBatch, facts: StreamFacts, sources: Sources) -> dict[str, Array]:
    columns = {name: batch.column(name).to_numpy() for name in ("src", "dst", "t")}
    if sources.dates:
        divided = columns["t"] // MICROSECONDS if facts.whole_times else columns["t"] / MICROSECONDS
        columns["t"] = divided
    if facts.has_label:
        columns["label"] = batch.column("label").to_numpy()
    if facts.width:
        columns["edge_features"] = _features(batch, facts.width, sources)
    return columns


def _features(batch: pa.RecordBatch, width: int, sources: Sources) -> Array:
    """Return a matrix of features; reject rows with another number of them, or with values not finite."""
    import pyarrow.compute as pc

    lists = batch.column("features")
    lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy()
    if (wrong := lengths != width).any():
        row = int(np.argmax(wrong))
        found = "no features" if lengths[row] < 0 else f"{lengths[row]} features"
        problem = f"has {found}, but the first event has {width}; all need the same number."
        raise _feature_error(batch, row, sources, problem)
    matrix: Array = pc.list_flatten(lists).to_numpy(zero_copy_only=False).reshape(-1, width)
    if not np.isfinite(matrix).all():
        row = int(np.argmax(~np.isfinite(matrix).all(axis=1)))
        problem = f"a feature is missing or not a finite float32; scale very large features and {FILL}"
        raise _feature_error(batch, row, sources, problem)
    return matrix


def _feature_error(batch: pa.RecordBatch, row: int, sources: Sources, problem: str) -> DataError:
    place: list[Any] = [batch.column(name)[row].as_py() for name in ("file", "row")]
    assert sources.features is not None
    return DataError(f"{sources.place(*place)}, column {sources.features.name!r}: {problem}")
