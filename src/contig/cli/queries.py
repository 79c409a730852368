"""Commands that query a trained run, and ``update``, which gives it new events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.data import File, Json, reads_events
from contig.cli.folders import Device, Folder, open_run
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from contig.data.events import EventStream
    from contig.data.ids import Side
    from contig.runs.answers import RecommendationList, Trajectory
    from contig.tasks.recommend import AsOf

app = typer.Typer()

LAST_EVENTS = 10  # the default span of a trajectory

Node = Annotated[str, typer.Option("--node", metavar="ID", show_default=False, help="The id of the node.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        show_default="just after the last event",
        help="A number as in the events, or a date such as 2024-05-01T12:00.",
    ),
]
SideOption = Annotated[
    str | None,
    typer.Option("--side", metavar="src|dst", help="The side of the node, if its id occurs on both."),
]


# --- embed -------------------------------------------------------------------------------------------


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig embed runs/first --out now.parquet", "all nodes"),
        ("contig embed runs/first --at 2024-05-01 --out may.npy", "at an earlier time"),
        ("contig embed runs/first --nodes ann,bob --out two.npy", "two nodes"),
        ("contig embed runs/first --nodes ids.txt --out x.parquet", "one id per line"),
    ),
)
def embed(
    run: Folder,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            show_default=False,
            help="A .parquet file, or a .npy file with the ids next to it in .ids.json.",
        ),
    ],
    at: At = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="FILE|IDS", help="Comma-separated ids, or a file of ids."),
    ] = None,
    side: SideOption = None,
    device: Device = "auto",
) -> None:
    """Write the embeddings of nodes at any time, from the events strictly before it."""
    outputs.check_file("--out", out, ".parquet", ".npy")
    on = _parse_side(side)
    opened = open_run(run, device)
    stream = opened.stream
    ids, time = _parse_ids(stream, nodes, on), _parse_time("--at", at, stream)
    _note_if_nothing_happened("--at", at, time, stream)
    with console.status("embedding"):
        vectors = opened.embed(ids, time, on)
    with outputs.writing(out, f"{len(vectors):,} embeddings of width {vectors.shape[1]}"):
        _write_embeddings(out, _id_columns(stream, ids, on), vectors)


def _parse_ids(stream: EventStream, nodes: str | None, side: Side | None) -> list[int | str] | None:
    """Parse the ids to embed; None means every node."""
    labels, is_dst = stream.ids.labels, stream.ids.is_dst
    if nodes is None:
        if side is None or is_dst is None:
            return None
        on_side: list[int | str] = labels[is_dst == (side == "dst")].tolist()
        return on_side
    return _read_ids("--nodes", nodes)


def _read_ids(option: str, given: str) -> list[int | str]:
    """Read comma-separated ids, or a file with one id per line."""
    try:
        text = Path(given).read_text("utf-8").splitlines() if Path(given).is_file() else given.split(",")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{option} {given}: the file cannot be read ({error}).") from None
    ids: list[int | str] = [name for line in text if (name := line.strip())]
    if not ids:
        raise ConfigError(f"{option} {given}: no ids found; give comma-separated ids, or a file of ids.")
    return ids


def _id_columns(
    stream: EventStream, ids: list[int | str] | None, side: Side | None
) -> dict[str, NDArray[Any]]:
    """Return the ids of the rows and, in a bipartite stream, their sides."""
    import numpy as np

    known = stream.ids
    rows = np.arange(len(known)) if ids is None else np.array([known.find(node, side) for node in ids])
    columns = {"node": known.labels[rows]}
    if known.is_dst is not None:
        columns["side"] = np.where(known.is_dst[rows], "dst", "src")
    return columns


# --- score -------------------------------------------------------------------------------------------


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig score runs/a pairs.csv --out s.csv", "columns src, dst, t"),
        ("contig score runs/a new.parquet --out s.parquet", "surprising?"),
        ("contig score runs/a log.csv --src who --out s.csv", "own columns"),
        ("contig score runs/a pairs.csv --as-of event --out s.csv", "exact, slower"),
    ),
)
@reads_events
def score(
    run: Folder,
    pairs: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            show_default=False,
            help="A file with a source, a destination and a time in each row (Parquet, CSV, TSV, ...).",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", show_default=False, help="A .csv, .parquet or .arrow file to write."
        ),
    ],
    reading: ReadOptions,
    as_of: Annotated[
        str,
        typer.Option(
            "--as-of",
            metavar="batch|event",
            help="Read node states at the start of a pair's batch, as evaluation does, or at its own time.",
        ),
    ] = "batch",
    device: Device = "auto",
) -> None:
    """Score pairs at times: how likely each is, and how surprising.

    Writes src, dst, t, score (a logit), probability (of a true pair rather than one with a random
    destination), surprise (-log2 of it, in bits) and last_event, the time of the last event that
    the score uses; heuristics have a score only. Every pair is scored from the events strictly
    before its time.
    """
    outputs.check_file("--out", out, *outputs.TABLES)
    from contig.data.readers import read_pairs

    with console.status(f"reading {pairs}"):
        table = read_pairs(pairs, reading)
    opened = open_run(run, device)
    with console.status("scoring"):
        scores = opened.score_columns(table.columns, table.place, _parse_as_of(as_of))
    with outputs.writing(out, f"{len(scores):,} scores"):
        outputs.write_table(out, scores.table())


def _parse_as_of(given: str) -> AsOf:
    match given:
        case "event" | "batch":
            return given
    raise ConfigError(f"--as-of: {unknown('value', given, ('batch', 'event'))}")


# --- recommend ---------------------------------------------------------------------------------------


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig recommend runs/first --node ann", "the next destinations"),
        ("contig recommend runs/first --node ann --at 2024-05-01", "at an earlier time"),
        ("contig recommend runs/first --node ann --exclude-seen", "new ones only"),
        ("contig recommend runs/first --nodes ids.txt --out x.csv", "many sources"),
        ("contig recommend runs/first --out x.csv", "every source"),
        ("contig recommend runs/first --node tea --side dst", "its next sources"),
    ),
)
def recommend(
    run: Folder,
    node: Annotated[
        str | None, typer.Option("--node", metavar="ID", show_default=False, help="The id of one node.")
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes",
            metavar="FILE|IDS",
            show_default="every node on its side",
            help="Comma-separated ids, or a file of ids, one per line; needs --out.",
        ),
    ] = None,
    at: At = None,
    k: Annotated[int, typer.Option("-k", "--k", metavar="K", min=1, help="Length of a list.")] = 10,
    exclude_seen: Annotated[
        bool, typer.Option("--exclude-seen", help="Leave out what the node has met before.")
    ] = False,
    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates",
            metavar="FILE|IDS",
            show_default="all destinations so far",
            help="What may be recommended: comma-separated ids, or a file of ids.",
        ),
    ] = None,
    side: Annotated[
        str,
        typer.Option("--side", metavar="src|dst", help="dst: recommend sources to destinations."),
    ] = "src",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A .parquet, .csv or .arrow file for the lists."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """List the destinations that sources are most likely to meet at a time, best first.

    A source without events before that time gets the most popular destinations, marked as a cold start.
    """
    if node is not None and nodes is not None:
        raise ConfigError("Specify --node for one node or --nodes for many, not both.")
    if node is None and out is None:
        raise ConfigError("Specify --node for one node, or --out FILE for the lists of many.")
    outputs.check_file("--out", out, *outputs.TABLES)
    on = _parse_side(side) or "src"
    opened = open_run(run, device)
    time = _parse_time("--at", at, opened.stream)
    among = None if candidates is None else _read_ids("--candidates", candidates)
    many = [node] if node is not None else _nodes_to_serve(opened.stream, nodes, on)
    with console.status("scoring every candidate"):
        lists = opened.recommend(many, time, k, exclude_seen=exclude_seen, candidates=among, side=on)
    _note_cold_starts(lists, at)
    if out is not None:
        with outputs.writing(out, f"{len(lists):,} lists"):
            outputs.write_table(out, _list_table(lists))
    elif json:
        rows = [one._asdict() for one in lists[0]]
        about = {"node": node, "at": time, "last_event": lists[0].last_event}
        console.print_json({**about, "cold_start": lists[0].cold_start, "recommendations": rows})
    elif lists[0]:
        _print_list(lists[0])


def _nodes_to_serve(stream: EventStream, given: str | None, side: Side) -> list[int | str]:
    if given is not None:
        return _read_ids("--nodes", given)
    import numpy as np

    found: list[int | str] = stream.ids.labels[
        np.unique(stream.src if side == "src" else stream.dst)
    ].tolist()
    return found


def _note_cold_starts(lists: list[RecommendationList], at: str | None) -> None:
    when = "" if at is None else f"--at {at}: "
    if lists[0].last_event is None:
        console.notice(f"{when}nothing to recommend, there is no event before this time")
        return
    if empty := sum(not one for one in lists):
        console.notice(
            f"{when}nothing to recommend to {empty:,} of {len(lists):,} nodes: no candidate is left"
        )
    cold = [one.node for one in lists if one.cold_start]
    if cold:
        shown = ", ".join(map(str, cold[:3])) + (", ..." if len(cold) > 3 else "")
        console.notice(
            f"{when}no events of {shown} ({len(cold):,} of {len(lists):,} nodes) are known; cold start: the "
            "most popular candidates, scored by their number of events"
        )


def _print_list(found: RecommendationList) -> None:
    table = console.new_table("rank", "node", "score" if found[0].probability is None else "probability")
    for rank, one in enumerate(found, 1):
        value = one.score if one.probability is None else one.probability
        table.add_row(str(rank), console.plain(one.node), f"{value:.3f}")
    console.out().print(table)


def _list_table(lists: list[RecommendationList]) -> pa.Table:
    """Return one row per recommendation."""
    import pyarrow as pa

    rows = [(of, rank, one) for of in lists for rank, one in enumerate(of, 1)]
    return pa.table(
        {
            "node": [of.node for of, _, _ in rows],
            "rank": [rank for _, rank, _ in rows],
            "recommended": [one.node for _, _, one in rows],
            "score": [one.score for _, _, one in rows],
            "probability": pa.array([one.probability for _, _, one in rows], pa.float64()),
            "cold_start": [of.cold_start for of, _, _ in rows],
            "at": [of.at for of, _, _ in rows],
            "last_event": [of.last_event for of, _, _ in rows],
        }
    )


# --- trajectory --------------------------------------------------------------------------------------


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
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write the path as numbers.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Follow the embedding of one node through time, between its events too."""
    _check_outputs(plot, out)
    on = _parse_side(side)
    opened = open_run(run, device)
    row = opened.stream.ids.find(node, on)
    times = _times(opened.stream, row, start, stop, points)
    with console.status(f"following {node}"):
        path = opened.trajectory(node, times, on)
    if out is not None:
        with outputs.writing(out):
            _write_parquet(out, {"t": path.times}, path.embeddings)
    if plot is not None:
        with outputs.writing(plot):
            _draw(opened.stream, row, path, plot)


def _check_outputs(plot: Path | None, out: Path | None) -> None:
    if plot is None and out is None:
        raise ConfigError("Specify --plot PATH.png for a figure or --out FILE.parquet for numbers.")
    outputs.check_file("--out", out, ".parquet")
    outputs.check_figure("--plot", plot)


def _times(
    stream: EventStream, node: int, start: str | None, stop: str | None, points: int
) -> NDArray[np.float64]:
    """Return the times of a trajectory, by default around the node's last events."""
    import numpy as np

    events = np.unique(stream.t[(stream.src == node) | (stream.dst == node)]).astype(np.float64)
    if start is None and stop is None and len(events) > 1:
        return _around_last_events(events, points)
    first, last = _parse_time("--from", start, stream), _parse_time("--to", stop, stream)
    _note_if_nothing_happened("--to", stop, last, stream)
    first = float(stream.t[0]) if first is None else first
    last = float(stream.t[-1]) if last is None else last
    if not first < last:
        raise ConfigError(f"--from {first:,} --to {last:,}: the span must end after it starts.")
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


def _draw(stream: EventStream, node: int, path: Trajectory, target: Path) -> None:
    from contig import plots
    from contig.data.summary import summarize

    with console.status(f"drawing {target}"):
        title = f"Node {path.node} in {Path(stream.origin).name}"
        figure = plots.trajectory(stream, summarize(stream), node, path.times, path.embeddings, title)
        plots.save(figure, target)


# --- update ------------------------------------------------------------------------------------------


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig update runs/first today.csv", "later events"),
        ("contig update runs/first new.csv --src user --dst item", "own columns"),
    ),
)
@reads_events
def update(run: Folder, file: File, reading: ReadOptions, device: Device = "auto") -> None:
    """Add new events and nodes to a trained run without retraining.

    Answers are the same however the events are divided into files. Events must not be older than
    the last known one; otherwise the row is reported and nothing changes. Evaluation still uses the
    events the run was trained on.
    """
    opened = open_run(run, device)
    nodes = opened.stream.num_nodes
    with console.status(f"observing {file}"):
        added = opened.observe(file, reading)
    stream = opened.stream
    console.notice(
        f"{run} observed {added:,} events and {stream.num_nodes - nodes:,} new nodes; it knows "
        f"{len(stream):,} events up to {stream.t[-1]}"
    )


# --- sides and times ---------------------------------------------------------------------------------


def _parse_side(given: str | None) -> Side | None:
    match given:
        case None | "src" | "dst":
            return given
    raise ConfigError(f"--side: {unknown('side', given, ('src', 'dst'))}")


def _parse_time(option: str, given: str | None, stream: EventStream) -> float | None:
    """Parse a number or a date into the stream's unit of time."""
    from contig.data.clock import parse_time

    return None if given is None else parse_time(given, stream.t, f"{option} {given}")


def _note_if_nothing_happened(
    option: str, given: str | None, time: float | None, stream: EventStream
) -> None:
    """Say why the answer for such an early time is empty."""
    if time is not None and time <= stream.t[0]:
        console.notice(f"{option} {given}: there is no event before this time")


# --- files -------------------------------------------------------------------------------------------


def _write_embeddings(path: Path, ids: dict[str, NDArray[Any]], vectors: NDArray[np.float32]) -> None:
    import numpy as np

    from contig.files import replacing, write_json

    if path.suffix == ".parquet":
        _write_parquet(path, ids, vectors)
        return
    write_json(path.with_suffix(".ids.json"), {name: column.tolist() for name, column in ids.items()})
    with replacing(path) as part:
        np.save(part, vectors)


def _write_parquet(path: Path, columns: dict[str, NDArray[Any]], vectors: NDArray[np.float32]) -> None:
    """Write the columns, and the vectors as a column of fixed-size lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from contig.files import replacing

    arrays = {name: pa.array(column) for name, column in columns.items()}
    arrays["embedding"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    with replacing(path) as part:
        pq.write_table(pa.table(arrays), part)
