"""What commands that read events share: their arguments and options, and opening the stream."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console
from contig.data.read_options import ReadOptions
from contig.files import expanded

if TYPE_CHECKING:
    from contig.data.events import EventStream

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A file of events (Parquet, CSV, TSV, JSON lines, JODIE, SNAP; gzipped or not), or a dataset.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="FOLDER", help="Folder to look up datasets in first, instead of $CONTIG_DATA."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def _column(flags: Sequence[str], help: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, metavar="COLUMN", help=help)]


MAX_DIGITS = 9  # of a number; Python refuses to convert thousands of digits

# The options of ReadOptions, one for each field.
READING_OPTIONS: dict[str, Any] = {
    "src": _column(["--src"], "Column of the sources: its name or position."),
    "dst": _column(["--dst"], "Column of the destinations."),
    "t": _column(["--time", "--t"], "Column of the times."),
    "label": _column(["--label"], "Column of the labels."),
    "features": Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="COLUMNS",
            help="Columns of the event features, comma-separated: numbers or categories; or all, or none.",
        ),
    ],
    "format": Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            show_default="detected",
            help="parquet, arrow, csv, tsv, jsonl, jodie, snap, dyglib or a registered one.",
        ),
    ],
    "date_format": Annotated[
        str | None,
        typer.Option(
            "--date-format",
            metavar="FORMAT",
            help="How dates are written if not in ISO 8601: %m/%d/%Y %H:%M.",
        ),
    ],
    "bipartite": Annotated[
        bool | None,
        typer.Option(
            "--bipartite/--unipartite",
            show_default=False,
            help="Whether sources and destinations are different nodes even where their ids are equal.",
        ),
    ],
    "preprocess": Annotated[
        bool | None,
        typer.Option(
            "--preprocess/--raw-features",
            show_default="columns named by --features",
            help="Standardize and encode features by the training part, or take numbers as they are.",
        ),
    ],
    "node_features": Annotated[
        Path | None,
        typer.Option("--node-features", metavar="FILE", help="A file with a row of features per node."),
    ],
    "data_dir": DataDir,
}

# Those of commands that read a file of pairs, or of events, for a trained run.
PAIR_OPTIONS = ("src", "dst", "t", "format", "date_format")
NEW_EVENT_OPTIONS = (*PAIR_OPTIONS[:3], "label", "features", *PAIR_OPTIONS[3:], "preprocess")


def reads_events(
    command: Callable[..., None],
    names: Collection[str] = tuple(READING_OPTIONS),
    own: Mapping[str, Any] | None = None,
) -> Callable[..., None]:
    """Give a command the options that say how events are read, as one parameter ``reading``.

    Typer reads a command's signature, so the parameter is replaced there by one for each of ``names``. The
    command's ``own`` options replace those of the same names.
    """
    options = READING_OPTIONS | dict(own or {})
    signature = inspect.signature(command, eval_str=True)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name == "reading":
            parameters += [
                parameter.replace(name=name, annotation=option, default=None)
                for name, option in options.items()
                if name in names
            ]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        reading = parse_reading(**{name: given.pop(name) for name in names})
        command(reading=reading, **given)

    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def parse_reading(**given: Any) -> ReadOptions:
    """Build the reading options from what the user typed; None for an option that was not given."""
    given |= {name: _position_or_name(given.get(name)) for name in ("src", "dst", "t", "label")}
    return ReadOptions(**given | {"features": _feature_columns(given.get("features"))})


def _position_or_name(given: str | None) -> str | int | None:
    position = given is not None and given.isdecimal() and len(given) <= MAX_DIGITS
    return int(given) if position and given is not None else given


def _feature_columns(given: str | None) -> bool | list[str | int] | None:
    if given in (None, "all", "none"):
        return None if given is None else given == "all"
    return [c for name in given.split(",") if (c := _position_or_name(name.strip())) not in ("", None)]


def read_stream(file: str, reading: ReadOptions, usual: ReadOptions | None = None) -> EventStream:
    """Open the file or dataset that the user named, with a spinner unless it is downloaded.

    ``usual`` is how the events of a run were read.
    """
    from contig.data.datasets import open_stream

    if not _on_disk(file, reading):  # a download shows its own progress
        return open_stream(file, reading, usual=usual)
    with console.status(f"reading {file}"):
        return open_stream(file, reading, usual=usual)


def _on_disk(file: str, reading: ReadOptions) -> bool:
    from contig.data.catalog import DATASETS
    from contig.data.datasets import find_dataset

    if file not in DATASETS or expanded(file).exists():
        return True
    return DATASETS[file].filename is None or find_dataset(file, reading.data_dir) is not None
