"""Build an index: the columns of a stream and its history on disk, in bounded memory.

Everything is written to the folder ``building`` inside of the index. An interrupted build resumes there; the
files get their final places when all of them are complete, and ``index.json`` is written last.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from contig.data.columns import Array
from contig.data.index_folder import (
    BUILDING,
    IndexedFile,
    IndexHead,
    is_index,
    is_index_folder,
    map_array,
    read_head,
    unlink_index,
    write_head,
)
from contig.data.indexing.column_files import ColumnFile
from contig.data.indexing.database import connected
from contig.data.indexing.events import Budget, survey, write_events, write_ids
from contig.data.indexing.progress_file import (
    BuildProgress,
    BuildRequest,
    SourceFile,
    StreamFacts,
    read_progress,
)
from contig.data.indexing.sources import find_sources
from contig.data.read_options import ReadOptions
from contig.data.readers.parquet import is_parquet, parquet_files
from contig.errors import ConfigError, ContigError, DataError
from contig.files import as_path, disk_errors, expanded, file_above
from contig.history.entries import collect_entries, count_entries
from contig.kernels.segments import node_ranges
from contig.locks import locked
from contig.progress import Display
from contig.schema import encode
from contig.wording import counted

log = logging.getLogger("contig")

DEFAULT_MEMORY = 4 << 30
MIN_MEMORY = 256 << 20
MAX_EVENTS = 2**31 - 1  # entries store positions in 32 bits


def build_index(
    files: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    reading: ReadOptions | None = None,
    memory: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    show: bool | None = None,
) -> Path:
    """Index Parquet files of any size in a folder, and return the folder; it is opened like a file.

    ``memory`` is the number of bytes to use, roughly. An interrupted build resumes with the same call. Where
    the folder already is an index of the same files, nothing is done; ``overwrite`` replaces another one.
    """
    if memory < MIN_MEMORY:
        raise ConfigError(f"memory={memory:,}: an index needs at least {MIN_MEMORY >> 20} MiB.")
    given = [expanded(one) for one in ([files] if isinstance(files, str | Path) else files)]
    folder = as_path(out, "out")
    return build(given, folder, reading or ReadOptions(), Budget.of(memory), overwrite=overwrite, show=show)


def build(
    given: Sequence[Path],
    folder: Path,
    reading: ReadOptions,
    budget: Budget,
    *,
    overwrite: bool = False,
    show: bool | None = None,
) -> Path:
    """Build an index with a given budget (see ``build_index``)."""
    request = _request(given, reading)
    _check_folder(folder)
    if _is_up_to_date(folder, request, overwrite):
        return folder
    with locked(folder), Display(show) as display:
        _Build(given, folder, reading, request, budget, display).run()
    return folder


def _request(given: Sequence[Path], reading: ReadOptions) -> BuildRequest:
    paths = [path for one in given for path in parquet_files(one)]
    if missing := [path for path in paths if not path.is_file()]:
        raise DataError(f"{missing[0]}: no such file or folder; check the path.")
    if others := [path for path in paths if not is_parquet(path)]:
        raise DataError(
            f"{others[0]} is not a Parquet file, and an index is built from Parquet files only. Smaller "
            "files need no index; to convert a large CSV with DuckDB: COPY (FROM 'a.csv') TO 'a.parquet'."
        )
    if not paths:
        raise ConfigError("Give at least one Parquet file or folder to index.")
    files = tuple(SourceFile.of(path) for path in paths)
    name, count = Counter(file.path for file in files).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"{name} is given {count} times; its events would be in the index as often.")
    return BuildRequest(files=files, reading=json.dumps(reading.as_dict(), sort_keys=True))


def _check_folder(folder: Path) -> None:
    """Raise ``ConfigError`` if the folder holds something else than an index, complete or not.

    A new disk has a ``lost+found``, and some systems put hidden files into every folder.
    """
    if blocking := file_above(folder / BUILDING):
        raise ConfigError(f"{folder} cannot hold an index: {blocking} is a file; choose a folder.")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    holds_files = any(not name.startswith(".") and name != "lost+found" for name in names)
    if holds_files and not is_index_folder(folder):
        raise ConfigError(f"{folder} is not an index and not empty; choose another folder.")


def _is_up_to_date(folder: Path, request: BuildRequest, overwrite: bool) -> bool:
    if not is_index(folder) or overwrite:
        return False
    indexed = read_head(folder).request
    if indexed == _text(request):
        log.info(f"{folder} is already an index of these files.")
        return True
    same_files = bool(indexed) and json.loads(indexed)["files"] == json.loads(_text(request))["files"]
    other = "these files, read with other options" if same_files else "other files, or files that changed"
    raise ConfigError(
        f"{folder} already is an index of {other}. Choose another folder, or replace it with --overwrite "
        "(overwrite=True)."
    )


def _text(request: BuildRequest) -> str:
    return json.dumps(encode(request), sort_keys=True)


class _Build:
    """One build, from the first step that is not done yet."""

    def __init__(
        self,
        given: Sequence[Path],
        folder: Path,
        reading: ReadOptions,
        request: BuildRequest,
        budget: Budget,
        display: Display,
    ) -> None:
        self.given, self.folder, self.reading = given, folder, reading
        self.request, self.budget, self.display = request, budget, display
        self.work = folder / BUILDING
        self.origin = str(given[0]) if len(given) == 1 else f"{given[0]} and {len(given) - 1} more"

    def run(self) -> None:
        """Do what is left, and make the folder an index."""
        progress = self._resumed()
        with self._removed_if_rejected():
            progress = self._write_stream(progress)
        facts = progress.facts
        assert facts is not None
        self._finish(self._write_entries(progress, facts), facts)

    @contextmanager
    def _removed_if_rejected(self) -> Iterator[None]:
        """Remove what was begun if the files are rejected, or if there is nothing to resume from."""
        try:
            yield
        except ContigError as error:
            found = read_progress(self.work)
            if isinstance(error, DataError) or found is None or found.facts is None:
                shutil.rmtree(self.work, ignore_errors=True)
            raise

    def _resumed(self) -> BuildProgress:
        """Return the progress so far; of another request, nothing is kept."""
        found = read_progress(self.work)
        if found is not None and found.request == self.request:
            log.info(f"resuming the index in {self.folder}")
            return self._with_all_files(found)
        with disk_errors(self.work):
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(parents=True, exist_ok=True)
        progress = BuildProgress(request=self.request)
        progress.save(self.work)
        return progress

    def _with_all_files(self, progress: BuildProgress) -> BuildProgress:
        """Take back the files of a build that was interrupted while they were moved."""
        with disk_errors(self.folder):
            for name in progress.moving:
                if not (self.work / name).exists():
                    (self.folder / name).replace(self.work / name)
        return replace(progress, moving=())

    def _write_stream(self, progress: BuildProgress) -> BuildProgress:
        if progress.facts is not None and progress.ids_written and progress.events == progress.facts.events:
            return progress
        with connected(self.work, self.budget.duckdb_bytes) as database:
            sources = find_sources(self.given, self.reading, database, self.origin)
            if progress.facts is None:
                self.display.line(f"checking {counted(len(sources.paths), 'file')} and numbering the nodes")
                found = survey(database, sources, self.budget, self.origin)
                _check_size(found, self.origin)
                progress = replace(progress, facts=found)
                progress.save(self.work)
            facts = progress.facts
            assert facts is not None
            if not progress.ids_written:
                write_ids(database, facts, self.work)
                progress = replace(progress, ids_written=True)
                progress.save(self.work)
            task = self.display.task("sorting", facts.events, progress.events)
            progress = write_events(database, sources, progress, self.work, task.advance)
            task.end()
        _check_unchanged(self.request)
        return progress

    def _write_entries(self, progress: BuildProgress, facts: StreamFacts) -> BuildProgress:
        """Write the entries of all nodes, a range of nodes at a time."""
        columns = [map_array(self.work, name) for name in ("src", "dst", "t")]
        length = count_entries(columns[0], columns[1], facts.nodes)
        start = np.cumsum(length) - length
        for name, array in (("start", start), ("length", length), ("capacity", length)):
            _write_whole(self.work / f"{name}.npy", array)
        files = _entry_files(self.work, int(length.sum()), columns[2].dtype)
        task = self.display.task("indexing nodes", facts.nodes, progress.nodes_placed)
        try:
            for file in files:
                file.open(progress.entries)
            ranges = node_ranges(torch.from_numpy(length), progress.nodes_placed, self.budget.entries)
            for first, last in ranges:
                entries = collect_entries(columns, first, length[first:last])
                for file, array in zip(files, entries, strict=True):
                    file.append(array)
                    file.sync()
                done = progress.entries + len(entries[0])
                progress = replace(progress, nodes_placed=last, entries=done)
                progress.save(self.work)
                task.advance(last - first)
        finally:
            for file in files:
                file.close()
        task.end()
        return progress

    def _finish(self, progress: BuildProgress, facts: StreamFacts) -> None:
        """Move the complete files to their places, and write the head last."""
        names = sorted(path.name for path in self.work.glob("*.npy"))
        self.display.line("computing checksums")
        files = {name: IndexedFile.of(self.work / name) for name in names}
        if is_index(self.folder):  # replaced
            unlink_index(self.folder)
        replace(progress, moving=tuple(names)).save(self.work)
        with disk_errors(self.folder):
            for name in names:
                (self.work / name).replace(self.folder / name)
        head = IndexHead(
            origin=self.origin,
            events=facts.events,
            nodes=facts.nodes,
            files=files,
            request=_text(self.request),
            dates=facts.dates,
            reading=None if (named := self.reading.named) is None else named.as_dict(),
        )
        write_head(self.folder, head)
        shutil.rmtree(self.work, ignore_errors=True)


def _check_unchanged(request: BuildRequest) -> None:
    """Raise if a file is not the one that the build began with: some of its events may be of either."""
    for file in request.files:
        try:
            same = SourceFile.of(Path(file.path)) == file
        except OSError:
            same = False
        if not same:
            raise DataError(f"{file.path} changed while it was indexed. Repeat the command to start again.")


def _check_size(facts: StreamFacts, origin: str) -> None:
    if max(facts.events, facts.nodes) > MAX_EVENTS:
        raise DataError(
            f"{origin}: {facts.events:,} events and {facts.nodes:,} nodes; an index holds up to "
            f"{MAX_EVENTS:,} of each. Leave out the oldest events."
        )


def _entry_files(folder: Path, total: int, time: np.dtype) -> list[ColumnFile]:
    kinds = {"entry_event": np.dtype("<i4"), "entry_node": np.dtype("<i4"), "entry_time": time}
    return [ColumnFile(folder / f"{name}.npy", kind, (total,)) for name, kind in kinds.items()]


def _write_whole(path: Path, array: Array) -> None:
    file = ColumnFile(path, array.dtype, array.shape)
    file.open(0)
    try:
        file.append(array)
    finally:
        file.close()
