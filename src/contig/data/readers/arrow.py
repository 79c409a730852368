"""Arrow IPC files: ``.arrow`` and ``.feather``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from contig.data.read_options import ReadOptions
from contig.data.readers.limits import size_limit, too_large
from contig.data.readers.opened import OpenedTable, read_errors
from contig.data.readers.tables import open_table

MAGIC = b"ARROW1"


def open_arrow(path: Path, reading: ReadOptions) -> OpenedTable:
    """Open a file in the Arrow IPC format, written as a file (Feather) or as a stream."""
    with read_errors(path, "it is damaged or not an Arrow file: write or download it again."):
        table = _read(path)
        table.validate(full=True)
    return open_table(table, str(path))


def _read(path: Path) -> pa.Table:
    limit = size_limit(path.stat().st_size)
    batches, size = [], 0
    with pa.OSFile(str(path), "rb") as source:
        is_file = source.read(len(MAGIC)) == MAGIC
        source.seek(0)
        opened = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        parts = (opened.get_batch(i) for i in range(opened.num_record_batches)) if is_file else opened
        for batch in parts:
            batches.append(batch)
            size += batch.nbytes
            if size > limit:
                raise too_large(path, limit)
        return pa.Table.from_batches(batches, opened.schema)
