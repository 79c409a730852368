"""Edge features in an ``.npz`` file next to the events: a code book, or the features themselves."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array, frozen
from contig.data.readers.limits import size_limit, too_large
from contig.data.validation import feature_matrix
from contig.errors import DataError


def companion_features(path: Path, events: int) -> NDArray[np.float32]:
    """Read the features of ``events`` rows: a code book (``table[index]``), or the file's only array."""
    arrays = _read_arrays(path)
    if "table" in arrays and "index" in arrays:
        rows = _decoded(path, arrays["table"], arrays["index"], events)
    elif len(arrays) == 1:
        rows = next(iter(arrays.values()))
    else:
        raise _damaged(path, f"expected the arrays table and index, or one array, not {sorted(arrays)}")
    if rows.dtype.kind not in "iufb" or rows.ndim not in (1, 2):
        raise _damaged(
            path, f"{rows.dtype} values of shape {rows.shape} are not one row of numbers per event"
        )
    if len(rows) != events:
        raise DataError(f"{path}: {len(rows):,} rows for {events:,} events; it belongs to another file.")
    return frozen(feature_matrix(rows.reshape(events, -1), str(path)))


def _decoded(path: Path, table: Array, index: Array, events: int) -> Array:
    """Look up the row of each event, whose number must be one of the table's."""
    if index.dtype.kind not in "iu" or index.ndim != 1 or table.ndim not in (1, 2):
        raise _damaged(path, f"an index of {index.dtype}, shape {index.shape}, into a table {table.shape}")
    if len(index) != events:
        raise DataError(f"{path}: {len(index):,} rows for {events:,} events; it belongs to another file.")
    if len(index) and not (int(index.min()) >= 0 and int(index.max()) < len(table)):
        raise _damaged(path, f"its index is not in 0..{len(table):,}")
    rows: Array = table[index]
    return rows


def _read_arrays(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _read(archive, member) for member in archive.infolist()
            }
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise whatever a damaged byte leads to
        reason = (str(error) or type(error).__name__).splitlines()[0][:300]
        raise _damaged(path, reason) from error


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """Read one array of an archive, never a pickle; its header must announce what the archive holds."""
    path = Path(str(archive.filename))
    limit = size_limit(path.stat().st_size)
    if member.file_size > limit:
        raise too_large(path, limit)
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
        stored = member.file_size - file.tell()
    if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize != stored:
        raise _damaged(path, f"{member.filename} announces {dtype} values of shape {shape}")
    with archive.open(member) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
        file.read()  # to the end, where the checksum is compared
    return array


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(f"{path}: cannot be read as edge features ({reason}); replace or remove it.")
