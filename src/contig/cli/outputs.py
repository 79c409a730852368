"""Files that commands write: checked before the work starts, and reported when they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from contig.cli import console
from contig.errors import ConfigError, unknown
from contig.files import check_file_path, replacing

if TYPE_CHECKING:
    import pyarrow as pa

    from contig.runs.run import Run

TABLES = (".parquet", ".csv", ".arrow")  # the extensions that write_table knows
TYPED = (".parquet", ".arrow")  # formats with a type for timestamps


def check_file(
    option: str, path: Path | None, *extensions: str, inputs: Iterable[str | PathLike[str] | None] = ()
) -> None:
    """Reject the file of an option if it cannot be written; missing folders are created later.

    ``inputs`` are what the command reads, files or not: none of them is replaced or added to.
    """
    if path is None:
        return
    if extensions and path.suffix not in extensions:
        raise ConfigError(
            f"{option} {path}: {unknown('file format', path.suffix, extensions)} Use one of these extensions."
        )
    try:
        check_file_path(path)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None
    for given in inputs:
        if given is not None and _is_same_file(path, given):
            raise ConfigError(f"{option} {path} is also the input; choose another file.")
        if given is not None and _is_in_folder(path, given):
            raise ConfigError(f"{option} {path} is among the input files, in {given}; choose another folder.")


def _is_same_file(path: Path, given: str | PathLike[str]) -> bool:
    try:
        return path.samefile(Path(given).expanduser())
    except (OSError, ValueError, RuntimeError):  # one of them does not exist, or ``given`` is not a path
        return False


def _is_in_folder(path: Path, given: str | PathLike[str]) -> bool:
    """Return whether a file would be part of an input that is a folder of Parquet files."""
    from contig.data.readers.parquet import SUFFIXES

    return path.suffix in SUFFIXES and _is_same_file(path.parent, given)


def check_figure(option: str, path: Path | None) -> None:
    """Reject the file of a figure if it cannot be written or is not an image."""
    if path is None:
        return
    from contig import plots

    try:
        plots.check_target(path)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None


@contextmanager
def writing(path: Path, content: str = "") -> Iterator[None]:
    """Report the file that the block writes."""
    yield
    console.notice(f"wrote {path}{f' ({content})' if content else ''}")


def with_times_of(run: Run, table: pa.Table, path: Path) -> pa.Table:
    """Return a table with its times as the user gave them: dates if the run was trained on dates."""
    if not run.dates:  # which are Unix seconds
        return table
    from contig.data.exports import with_dates

    return with_dates(table, text=path.suffix not in TYPED)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table in the format of the file's extension, atomically."""
    with replacing(path) as part:
        match path.suffix:
            case ".csv":
                from pyarrow import csv

                csv.write_csv(table, part)
            case ".arrow":
                from pyarrow import feather

                feather.write_feather(table, part)
            case _:
                from pyarrow import parquet

                parquet.write_table(table, part)
