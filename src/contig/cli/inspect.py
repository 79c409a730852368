"""The command ``inspect``: a summary of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, data, outputs, tables
from contig.cli.commands import Command
from contig.data.read_options import ReadOptions
from contig.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

    from contig.data.clock import TimeSpan
    from contig.data.summary import Part, Summary

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig inspect wikipedia", "a dataset"),
        ("contig inspect visits.csv --src who --dst page --time when", "name the columns"),
        ("contig inspect log.csv --src 0 --dst 1 --time 4", "without a header"),
        ("contig inspect events.parquet --plot events.png", "with a figure"),
        ("contig inspect events.parquet --json", "as JSON"),
    ),
)
@data.reads_events
def inspect(
    file: data.File,
    reading: ReadOptions,
    json: data.Json = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PATH.png", help="Save a figure of the stream (png, svg or pdf)."),
    ] = None,
) -> None:
    """Summarize a dataset: its size, times, nodes, split, intervals and labels."""
    outputs.check_figure("--plot", plot)
    stream = data.read_stream(file, reading)
    from contig.data.summary import summarize

    with console.status(f"summarizing {file}"):
        summary = summarize(stream)
    if json:
        console.print_json(summary.as_dict())
    else:
        console.out().print(f"\n[bold]{console.plain(Path(file).name)}[/bold]\n")
        console.out().print(_facts(summary, dates=stream.dates))
        for table in (_split(summary), _intervals(summary), _degrees(summary)):
            tables.show(table)
    if plot is not None:
        from contig import plots

        with outputs.writing(plot), console.status(f"drawing {plot}"):
            plots.save(plots.overview(stream, summary, Path(file).name), plot)


def _facts(summary: Summary, *, dates: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="cyan", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in {
        "events": f"{summary.events:,}",
        "nodes": _nodes(summary),
        "time": _span(summary.time, dates=dates),
        "ties": _ties(summary),
        "repeats": f"{_share(summary.repeats.ratio)} of the events repeat a pair; "
        f"{counted(summary.repeats.pairs, 'distinct pair')}",
        "same rows": _same_rows(summary),
        "features": _features(summary),
        "labels": _labels(summary),
        "ids": _ids(summary),
    }.items():
        facts.add_row(f"  {name}", Text(console.visible(text)))
    return facts


def _nodes(summary: Summary) -> str:
    sources, destinations = counted(summary.sources, "source"), counted(summary.destinations, "destination")
    if summary.bipartite:
        return f"{summary.nodes:,} = {sources} + {destinations} (bipartite)"
    return f"{summary.nodes:,}: {sources}, {destinations}, {summary.both:,} of them both (not bipartite)"


def _span(time: TimeSpan, *, dates: bool) -> str:
    from contig.data.clock import duration

    if dates and time.unix is not None:  # numbers would only distract from the dates that were given
        return f"{duration(time.span / time.per_second)}, from {time.exact()}"
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
    distinct = counted(ties.distinct_times, "distinct time")
    return f"{ties.events:,} events ({share}) share their time{most}; {distinct}"


def _same_rows(summary: Summary) -> str:
    rows = summary.repeats.rows
    if rows is None:
        return "not counted in an index"
    share = f" ({_share(rows / summary.events)})" if rows else ""
    verb = "repeats" if rows == 1 else "repeat"
    return (
        f"{counted(rows, 'event')}{share} {verb} the source, destination, time and features of an earlier one"
    )


def _features(summary: Summary) -> str:
    widths = {"event": summary.features.edge, "node": summary.features.node}
    return ", ".join(f"{width:,} per {what}" for what, width in widths.items() if width) or "none"


def _labels(summary: Summary, most: int = 8) -> str:
    from contig.data.validation import UNKNOWN_LABEL

    if summary.labels is None:
        return "none"
    shown = [
        f"{count:,} not known" if name == str(UNKNOWN_LABEL) else f"{count:,} of class {name}"
        for name, count in list(summary.labels.items())[:most]
    ]
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
