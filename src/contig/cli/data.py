"""The commands that show data, ``inspect`` and ``datasets``, and the options of all that read it."""

from __future__ import annotations

import functools
import inspect as inspect_module
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from contig.cli import console
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from contig.data.catalogue import Dataset
    from contig.data.clock import TimeSpan
    from contig.data.events import EventStream
    from contig.data.summary import Part, Summary

app = typer.Typer()

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A file of events (Parquet, CSV, TSV, JODIE, SNAP; also gzipped), or the name of a dataset.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Directory to look up datasets in first, instead of $CONTIG_DATA."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def _column(flags: Sequence[str], help: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, metavar="COLUMN", help=help)]


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
            help="Columns of the edge features, comma-separated; or all, or none.",
        ),
    ],
    "format": Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="parquet, csv, tsv, jodie, snap or a registered format; detected by default.",
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
    "data_dir": DataDir,
}


def reads_events(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how events are read, as one parameter ``reading``.

    Typer reads a command's signature, so the parameter is replaced there by one for each option.
    """
    signature = inspect_module.signature(command, eval_str=True)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name == "reading":
            parameters += [
                parameter.replace(name=name, annotation=option, default=None)
                for name, option in READING_OPTIONS.items()
            ]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        reading = parse_reading(**{name: given.pop(name) for name in READING_OPTIONS})
        command(reading=reading, **given)

    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def parse_reading(**given: Any) -> ReadOptions:
    """Build the reading options from what the user typed; None for an option that was not given."""
    given |= {name: _position_or_name(given.get(name)) for name in ("src", "dst", "t", "label")}
    return ReadOptions(**given | {"features": _feature_columns(given.get("features"))})


def _position_or_name(given: str | None) -> str | int | None:
    return int(given) if given is not None and given.isdecimal() else given


def _feature_columns(given: str | None) -> bool | list[str | int] | None:
    if given in (None, "all", "none"):
        return None if given is None else given == "all"
    return [c for name in given.split(",") if (c := _position_or_name(name.strip())) not in ("", None)]


def read_stream(file: str, reading: ReadOptions) -> EventStream:
    """Open the file or dataset that the user named, with a spinner unless it is downloaded."""
    from contig.data.datasets import open_stream

    if not _on_disk(file, reading):  # a download shows its own progress
        return open_stream(file, reading)
    with console.status(f"reading {file}"):
        return open_stream(file, reading)


def _on_disk(file: str, reading: ReadOptions) -> bool:
    from contig.data.catalogue import DATASETS
    from contig.data.datasets import find_dataset

    if file not in DATASETS or Path(file).expanduser().exists():
        return True
    return DATASETS[file].filename is None or find_dataset(file, reading.data_dir) is not None


# --- inspect -----------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig inspect wikipedia", "a dataset"),
        ("contig inspect visits.csv --src who --dst page --time when", "name the columns"),
        ("contig inspect log.csv --src 0 --dst 1 --time 4", "a file without a header"),
        ("contig inspect events.parquet --plot events.png", "with a figure"),
        ("contig inspect events.parquet --json", "as JSON"),
    )
)
@reads_events
def inspect(
    file: File,
    reading: ReadOptions,
    json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PATH.png", help="Save a figure of the stream (png, svg or pdf)."),
    ] = None,
) -> None:
    """Summarise a dataset: its size, times, nodes, split, intervals and labels."""
    if plot is not None:
        from contig import plots

        plots.check_target(plot)
    stream = read_stream(file, reading)
    from contig.data.summary import summarise

    with console.status(f"summarising {file}"):
        summary = summarise(stream)
    if plot is not None:
        with console.status(f"drawing {plot}"):
            plots.save(plots.overview(stream, summary, Path(file).name), plot)
    if json:
        console.print_json(summary.as_dict())
    else:
        for block in _blocks(summary, Path(file).name):
            console.out().print(block)
    if plot is not None:
        console.notice(f"figure saved to {plot}")


def _blocks(summary: Summary, name: str) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(f"\n{name}\n", style="bold")
    yield _facts(summary)
    yield _split(summary)
    yield _intervals(summary)
    yield _degrees(summary)


def _facts(summary: Summary) -> Table:
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="cyan", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in {
        "events": f"{summary.events:,}",
        "nodes": _nodes(summary),
        "time": _span(summary.time),
        "ties": _ties(summary),
        "repeats": f"{_share(summary.repeats.ratio)} of the events repeat a pair; "
        f"{summary.repeats.pairs:,} distinct pairs",
        "features": _features(summary),
        "labels": _labels(summary),
        "ids": _ids(summary),
    }.items():
        facts.add_row(f"  {name}", Text(text))
    return facts


def _nodes(summary: Summary) -> str:
    sources, destinations = f"{summary.sources:,} sources", f"{summary.destinations:,} destinations"
    if summary.bipartite:
        return f"{summary.nodes:,} = {sources} + {destinations} (bipartite)"
    return f"{summary.nodes:,}: {sources}, {destinations}, {summary.both:,} of them both (not bipartite)"


def _span(time: TimeSpan) -> str:
    from contig.data.clock import duration

    span = f"{duration(time.span / time.per_second)}, from {time.first:,} to {time.last:,} ({time.type})"
    if time.unix is None:
        return f"{span}, taken as seconds"
    return f"{span}; read as Unix {time.unix}, {time} (UTC)"


def _time(time: TimeSpan, t: float) -> str:
    """Return a date if the times look like dates, else the time since the first event."""
    from contig.data.clock import duration

    if time.unix is None:
        return duration((t - time.first) / time.per_second)
    return time.describe(t)


def _ties(summary: Summary) -> str:
    ties = summary.ties
    share = _share(ties.events / summary.events)
    most = f", at most {ties.largest_group:,} at once" if ties.events else ""
    return f"{ties.events:,} events ({share}) share their time{most}; {ties.distinct_times:,} distinct times"


def _features(summary: Summary) -> str:
    widths = {"event": summary.features.edge, "node": summary.features.node}
    return ", ".join(f"{width:,} per {what}" for what, width in widths.items() if width) or "none"


def _labels(summary: Summary, most: int = 8) -> str:
    if summary.labels is None:
        return "none"
    shown = [f"{count:,} of class {name}" for name, count in list(summary.labels.items())[:most]]
    more = len(summary.labels) - most
    return ", ".join(shown) + (f" and {more:,} more classes" if more > 0 else "")


def _ids(summary: Summary) -> str:
    ids = summary.ids
    sources, destinations = (", ".join(map(str, side)) for side in (ids.sources, ids.destinations))
    return f"{ids.type}; sources such as {sources}; destinations such as {destinations}"


def _split(summary: Summary) -> Table:
    time = summary.time
    table = console.new_table("Split 70/15/15", "events", "until", "nodes", "new nodes", "events with one")
    split = summary.split
    for name, part in {"training": split.train, "validation": split.val, "test": split.test}.items():
        last = "-" if part.last is None else _time(time, part.last)
        new = ("-", "-") if part is split.train else _new(part)
        table.add_row(name, f"{part.events:,}", last, f"{part.nodes:,}", *new)
    return table


def _new(part: Part) -> tuple[str, str]:
    return (
        f"{part.new_nodes:,} ({_share(part.new_node_share)})",
        f"{part.events_with_new_node:,} ({_share(part.events_with_new_node_share)})",
    )


def _intervals(summary: Summary) -> Table:
    from contig.data.clock import duration

    shares = summary.intervals.quantiles
    table = console.new_table("Intervals", *(f"{float(s):.0%}" for s in shares))
    lengths = (duration(quantile / summary.time.per_second) for quantile in shares.values())
    table.add_row("source silent for up to", *lengths)
    return table


def _degrees(summary: Summary) -> Table:
    table = console.new_table("Events per node", "nodes", "median", "most", "share of the top 1%")
    for name, side in {
        "sources": summary.degrees.sources,
        "destinations": summary.degrees.destinations,
    }.items():
        table.add_row(
            name, f"{side.nodes:,}", f"{side.median:,.10g}", f"{side.max:,}", _share(side.top_share)
        )
    return table


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


# --- datasets ----------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig datasets", "all datasets, and which are on this machine"),
        ("contig datasets --data-dir streams", "look in this directory"),
        ("contig inspect synthetic:5000", "use a name wherever a file is expected"),
    )
)
def datasets(data_dir: DataDir = None, json: Json = False) -> None:
    """List the datasets that can be used by name, and where they are."""
    entries = list(_entries(data_dir))
    if json:
        console.print_json([entry.as_dict() for entry in entries])
    else:
        console.out().print(_listing(entries), soft_wrap=True)


class _Entry(NamedTuple):
    """A dataset, its file on this machine if there is one, and where that is."""

    dataset: Dataset
    path: Path | None
    place: Literal["generated", "missing", "cache", "directory"]

    def as_dict(self) -> dict[str, Any]:
        names = ("name", "description", "events", "nodes", "bipartite", "edge_width", "labels")
        facts = {name: getattr(self.dataset, name) for name in names}
        place = {"place": self.place, "path": None if self.path is None else str(self.path)}
        return {**facts, **place, "url": self.dataset.url, "source": self.dataset.source}

    def status(self) -> tuple[str, str]:
        """Return where the dataset is, and the style to print it in."""
        if self.place == "missing":
            how = "downloaded when used" if self.dataset.url else "must be obtained manually"
            return f"not on this machine; {how}", "yellow"
        if self.place == "generated":
            return "generated when used", "green"
        return f"{'cached' if self.place == 'cache' else 'found'}: {self.path}", "green"


def _entries(data_dir: Path | None) -> Iterator[_Entry]:
    """Describe every dataset; one that an installed package fails to provide is reported and skipped."""
    from contig.data.catalogue import DATASETS
    from contig.data.datasets import cache_dir, find_dataset

    for name in DATASETS:
        try:
            dataset = DATASETS[name]
        except ConfigError as error:
            console.notice(str(error))
            continue
        path = find_dataset(name, data_dir)
        if dataset.filename is None:
            yield _Entry(dataset, None, "generated")
        elif path is None:
            yield _Entry(dataset, None, "missing")
        else:
            yield _Entry(dataset, path, "cache" if path.parent == cache_dir() else "directory")


def _listing(entries: Sequence[_Entry]) -> Text:
    """A line of numbers for each dataset, then what and where it is; paths are not wrapped, to be copied."""
    from rich.text import Text

    lines = [Text(f"{'name':<12}{'events':>11}{'nodes':>9}{'features':>10}  labels", style="cyan")]
    for entry in entries:
        dataset = entry.dataset
        counts = f"{_count(dataset.events):>11}{_count(dataset.nodes):>9}{dataset.edge_width or '-':>10}"
        labels = "  yes" if dataset.labels else "  no"
        lines += [
            Text(),
            Text.assemble((f"{dataset.name:<12}", "bold"), counts, labels),
            Text(f"  {dataset.description}"),
            Text.assemble("  ", entry.status()),
            Text(f"  {dataset.url or dataset.source}", style="dim"),
        ]
    return Text("\n").join(lines)


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
