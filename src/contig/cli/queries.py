"""Commands that ask a trained run: ``embed``, ``recommend`` and ``trajectory``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console
from contig.cli.data import Json
from contig.cli.folders import Device, Folder, open_run
from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contig.data.events import EventStream
    from contig.data.ids import Side
    from contig.runs.trained_model import Trajectory

app = typer.Typer()

LAST_EVENTS = 10  # that a trajectory shows if nobody says from when to when

Node = Annotated[str, typer.Option("--node", metavar="ID", show_default=False, help="The node, by its id.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        show_default="just after the last event",
        help="The time asked about: a number as in the events, or a date such as 2024-05-01T12:00.",
    ),
]
SideOption = Annotated[
    str | None,
    typer.Option("--side", metavar="src|dst", help="On which side the node is, where ids occur on both."),
]


# --- embed -------------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig embed runs/first --out now.parquet", "all nodes, now"),
        ("contig embed runs/first --at 2024-05-01 --out may.npy", "earlier"),
        ("contig embed runs/first --nodes ann,bob --out two.npy", "two nodes"),
        ("contig embed runs/first --nodes ids.txt --out x.parquet", "an id a line"),
    )
)
def embed(
    run: Folder,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            show_default=False,
            help="A .parquet file; or a .npy file, with the ids in a .ids.json beside it.",
        ),
    ],
    at: At = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="FILE|IDS", help="Ids with commas between, or a file of them."),
    ] = None,
    side: SideOption = None,
    device: Device = "auto",
) -> None:
    """Write the embeddings of nodes at any time, from the events strictly before it."""
    _check_kind(out, ".parquet", ".npy")
    on = _side(side)
    opened = open_run(run, device)
    stream = opened.stream
    asked, when = _asked(stream, nodes, on), _when("--at", at, stream)
    _say_if_too_early("--at", at, when, stream)
    with console.status("embedding"):
        vectors = opened.embed(asked, when, on)
    with _writing(out):
        _write_embeddings(out, _id_columns(stream, asked, on), vectors)
    console.notice(f"{len(vectors):,} embeddings of width {vectors.shape[1]} are in {out}")


def _asked(stream: EventStream, nodes: str | None, side: Side | None) -> list[int | str] | None:
    """The ids the user means; None is every node."""
    labels, is_dst = stream.ids.labels, stream.ids.is_dst
    if nodes is None:
        if side is None or is_dst is None:
            return None
        chosen: list[int | str] = labels[is_dst == (side == "dst")].tolist()
        return chosen
    try:
        text = Path(nodes).read_text("utf-8").splitlines() if Path(nodes).is_file() else nodes.split(",")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--nodes {nodes}: the file cannot be read ({error}).") from None
    asked: list[int | str] = [name for line in text if (name := line.strip())]
    if not asked:
        raise ConfigError(f"--nodes {nodes}: there is no id in it; give ids with commas between, or a file.")
    return asked


def _id_columns(
    stream: EventStream, asked: list[int | str] | None, side: Side | None
) -> dict[str, NDArray[Any]]:
    """Who the rows are: the user's ids and, in a bipartite stream, the sides."""
    import numpy as np

    ids = stream.ids
    rows = np.arange(len(ids)) if asked is None else np.array([ids.find(node, side) for node in asked])
    columns = {"node": ids.labels[rows]}
    if ids.is_dst is not None:
        columns["side"] = np.where(ids.is_dst[rows], "dst", "src")
    return columns


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
    """The columns, and the vectors as a column of lists of one length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from contig.files import replacing

    arrays = {name: pa.array(column) for name, column in columns.items()}
    arrays["embedding"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    with replacing(path) as part:
        pq.write_table(pa.table(arrays), part)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error}); name another place.") from error


def _check_kind(path: Path, *kinds: str) -> None:
    """Refuse a file to be written now rather than after the work is done."""
    if path.suffix not in kinds:
        raise ConfigError(f"{path}: {unknown('kind of file', path.suffix, kinds)} Let the name end so.")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file.")


def _side(given: str | None) -> Side | None:
    match given:
        case None | "src" | "dst":
            return given
    raise ConfigError(f"--side: {unknown('side', given, ('src', 'dst'))}")


def _when(option: str, given: str | None, stream: EventStream) -> float | None:
    """A time as the stream counts it, from a number or a date."""
    from contig.data.clock import parse_time

    return None if given is None else parse_time(given, stream.t, f"{option} {given}")


def _say_if_too_early(option: str, given: str | None, when: float | None, stream: EventStream) -> None:
    """Tell why an answer says nothing."""
    if when is not None and when <= stream.t[0]:
        console.notice(f"{option} {given}: nothing has happened by then; the first event is later")


# --- recommend ---------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig recommend runs/first --node ann", "whom ann meets next"),
        ("contig recommend runs/first --node ann --at 2024-05-01", "as of then"),
        ("contig recommend runs/first --node ann --json", "for programs"),
    )
)
def recommend(
    run: Folder,
    node: Node,
    at: At = None,
    k: Annotated[int, typer.Option("-k", "--k", metavar="K", min=1, help="How many.")] = 10,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Say which destinations a source is most likely to meet at a time, best first."""
    opened = open_run(run, device)
    when = _when("--at", at, opened.stream)
    _say_if_too_early("--at", at, when, opened.stream)
    with console.status("scoring every destination"):
        found = opened.recommend(node, when, k)
    if json:
        rows = [one._asdict() for one in found]
        console.print_json({"node": node, "at": when, "recommendations": rows})
        return
    table = console.new_table("rank", "node", "probability" if opened.model.learns else "score")
    for rank, one in enumerate(found, 1):
        likely = one.score if one.probability is None else one.probability
        table.add_row(str(rank), console.plain(one.node), f"{likely:.3f}")
    console.out().print(table)


# --- trajectory --------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig trajectory runs/first --node ann --plot ann.png", "her last events"),
        ("contig trajectory runs/first --node ann --from 2024-05-01 --plot x.png", "since"),
        ("contig trajectory runs/first --node ann --out ann.parquet", "as numbers"),
        ("contig trajectory runs/first --node 7 --side dst --plot x.png", "an item"),
    )
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
            help=f"Where it begins. Without --from and --to: the node's last {LAST_EVENTS} events.",
        ),
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", metavar="TIME", show_default=False, help="Where it ends.")
    ] = None,
    points: Annotated[int, typer.Option("--points", metavar="N", min=2, help="Times in between.")] = 200,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PATH.png", help="Draw the path (png, svg or pdf).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write the path as numbers.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Follow one node's embedding through time, between its events too."""
    if plot is None and out is None:
        raise ConfigError("Nothing to make: give --plot PATH.png for a figure or --out FILE.parquet.")
    if out is not None:
        _check_kind(out, ".parquet")
    if plot is not None:
        from contig import plots

        plots.check_target(plot)
    on = _side(side)
    opened = open_run(run, device)
    number = opened.stream.ids.find(node, on)
    times = _moments(opened.stream, number, start, stop, points)
    with console.status(f"following {node}"):
        path = opened.trajectory(node, times, on)
    if out is not None:
        with _writing(out):
            _write_parquet(out, {"t": path.times}, path.embeddings)
        console.notice(f"the path is in {out}")
    if plot is not None:
        _draw(opened.stream, number, path, plot)
        console.notice(f"the figure is in {plot}")


def _moments(
    stream: EventStream, node: int, start: str | None, stop: str | None, points: int
) -> NDArray[np.float64]:
    import numpy as np

    met = np.unique(stream.t[(stream.src == node) | (stream.dst == node)]).astype(np.float64)
    if start is None and stop is None and len(met) > 1:
        return _around_last(met, points)
    first, last = _when("--from", start, stream), _when("--to", stop, stream)
    _say_if_too_early("--to", stop, last, stream)
    first = float(stream.t[0]) if first is None else first
    last = float(stream.t[-1]) if last is None else last
    if not first < last:
        raise ConfigError(f"--from {first:,} --to {last:,}: the path must end after it begins.")
    return np.linspace(first, last, points)


def _around_last(met: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """Times around a node's last events, as many in a short interval as in a long one.

    Both sides of every jump are among them: the time of an event and the moment after it.
    """
    import numpy as np

    last = met[-LAST_EVENTS:]
    usual = np.median(np.diff(last))
    before = met[-LAST_EVENTS - 1] if len(met) > LAST_EVENTS else last[0] - usual
    ends = [max(before, last[0] - usual), *last, last[-1] + usual]
    each = max(2, points // (len(ends) - 1))
    parts = [np.linspace(a, b, each) for a, b in zip(np.nextafter(ends[:-1], np.inf), ends[1:], strict=True)]
    return np.concatenate(parts)


def _draw(stream: EventStream, node: int, path: Trajectory, target: Path) -> None:
    from contig import plots
    from contig.data.summary import summarise

    with console.status(f"drawing {target}"):
        title = f"{path.node} in {Path(stream.origin).name}"
        figure = plots.trajectory(stream, summarise(stream), node, path.times, path.embeddings, title)
        plots.save(figure, target)
