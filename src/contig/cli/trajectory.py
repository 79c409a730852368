"""The command ``trajectory``: follow a node through time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import Node, SideOption, note_if_nothing_happened, parse_side, parse_time
from contig.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contig.data.events import EventStream

app = typer.Typer()

LAST_EVENTS = 10  # the default span of a trajectory


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig trajectory runs/a --node 7 --plot 7.png", "last events"),
        ("contig trajectory runs/a --node 7 --from 2024-05-01 --plot 7.png", "since May"),
        ("contig trajectory runs/a --node 7 --out 7.parquet", "as numbers"),
        ("contig trajectory runs/a --node 7 --side dst --plot 7.png", "an item"),
    ),
)
def trajectory(
    run: Folder,
    node: Node,
    side: SideOption = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            show_default=False,
            help=f"Start of the span. Without --from and --to: the node's last {LAST_EVENTS} events.",
        ),
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", metavar="TIME", show_default=False, help="End of the span.")
    ] = None,
    points: Annotated[int, typer.Option("--points", metavar="N", min=2, help="Number of times.")] = 200,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PATH.png", help="Draw the path (png, svg or pdf).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the path as numbers (.parquet, .csv or .arrow)."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Follow the embedding of one node through time, between its events too."""
    _check_outputs(plot, out)
    on = parse_side(side)
    opened = open_run(run, device)
    row = opened.stream.ids.find(node, on)
    times = _times(opened.stream, row, start, stop, points)
    with console.status(f"following {node}"):
        path = opened.trajectory(node, times, on)
    if out is not None:
        with outputs.writing(out):
            outputs.write_table(out, path.to_arrow(wide=out.suffix == ".csv"))
    if plot is not None:
        with outputs.writing(plot), console.status(f"drawing {plot}"):
            path.plot(plot)


def _check_outputs(plot: Path | None, out: Path | None) -> None:
    if plot is None and out is None:
        raise ConfigError("Specify --plot PATH.png for a figure or --out FILE for numbers.")
    outputs.check_file("--out", out, *outputs.TABLES)
    outputs.check_figure("--plot", plot)


def _times(
    stream: EventStream, node: int, start: str | None, stop: str | None, points: int
) -> NDArray[np.float64]:
    """Return the times of a trajectory, by default around the node's last events."""
    import numpy as np

    events = np.unique(stream.t[(stream.src == node) | (stream.dst == node)]).astype(np.float64)
    if start is None and stop is None and len(events) > 1:
        return _around_last_events(events, points)
    first, last = parse_time("--from", start, stream), parse_time("--to", stop, stream)
    note_if_nothing_happened("--to", stop, last, stream)
    first = float(stream.t[0]) if first is None else first
    last = float(stream.t[-1]) if last is None else last
    if not first < last:
        given = f"--from {first if start is None else start} --to {last if stop is None else stop}"
        raise ConfigError(f"{given}: the span must end after it starts.")
    return np.linspace(first, last, points)


def _around_last_events(events: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """Choose times around a node's last events, equally many in a short interval and in a long one.

    The time of an event and the next possible time are both included, so that jumps are visible.
    """
    import numpy as np

    last = events[-LAST_EVENTS:]
    usual = np.median(np.diff(last))
    before = events[-LAST_EVENTS - 1] if len(events) > LAST_EVENTS else last[0] - usual
    ends = [max(before, last[0] - usual), *last, last[-1] + usual]
    each = max(2, points // (len(ends) - 1))
    parts = [np.linspace(a, b, each) for a, b in zip(np.nextafter(ends[:-1], np.inf), ends[1:], strict=True)]
    return np.concatenate(parts)
