"""The command ``embed``: write the embeddings of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import At, SideOption, note_if_nothing_happened, parse_side, parse_time, read_ids

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contig.data.events import EventStream
    from contig.data.ids import Side

app = typer.Typer()


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
    on = parse_side(side)
    opened = open_run(run, device)
    stream = opened.stream
    ids, time = _parse_ids(stream, nodes, on), parse_time("--at", at, stream)
    note_if_nothing_happened("--at", at, time, stream)
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
    return read_ids("--nodes", nodes)


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


def _write_embeddings(path: Path, ids: dict[str, NDArray[Any]], vectors: NDArray[np.float32]) -> None:
    import numpy as np

    from contig.files import replacing, write_json

    if path.suffix == ".parquet":
        outputs.write_vectors(path, ids, vectors)
        return
    write_json(path.with_suffix(".ids.json"), {name: column.tolist() for name, column in ids.items()})
    with replacing(path) as part:
        np.save(part, vectors)
