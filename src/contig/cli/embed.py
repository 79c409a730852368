"""The command ``embed``: write the embeddings of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import At, SideOption, note_if_nothing_happened, parse_side, parse_time, read_ids
from contig.wording import counted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig embed runs/first --out now.parquet", "all nodes"),
        ("contig embed runs/first --at 2024-05-01 --out may.csv", "at an earlier time"),
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
            help="A .parquet, .arrow or .csv file, or a .npy file with the ids next to it in .ids.json.",
        ),
    ],
    at: At = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="FILE|IDS", help="Comma-separated ids, or a file of ids."),
    ] = None,
    side: SideOption = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="A column for each component, as in every .csv, instead of lists.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Write the embeddings of nodes at any time, from the events strictly before it.

    A table has the columns node, side (src or dst, in a bipartite stream), t, the time they are for,
    last_event, that of the last event they know, and embedding.
    """
    outputs.check_file("--out", out, *outputs.TABLES, ".npy", inputs=[nodes])
    on = parse_side(side)
    opened = open_run(run, device)
    ids = None if nodes is None else read_ids("--nodes", nodes, opened.stream)
    time = parse_time("--at", at, opened.stream)
    note_if_nothing_happened("--at", at, time, opened.stream)
    with console.status("embedding"):
        table = opened.embed_table(ids, time, on, wide=wide or out.suffix == ".csv")
        table = outputs.with_times_of(opened, table, out)
    with outputs.writing(out, counted(len(table), "embedding")):
        if out.suffix == ".npy":
            _write_array(out, table)
        else:
            outputs.write_table(out, table)


def _write_array(path: Path, table: pa.Table) -> None:
    """Write the vectors as an array, and the other columns as JSON next to it."""
    import numpy as np

    from contig.files import replacing, write_json

    named = [name for name in ("node", "side", "t", "last_event") if name in table.column_names]
    write_json(path.with_suffix(".ids.json"), table.select(named).to_pydict())
    with replacing(path) as part:
        np.save(part, vectors_of(table.drop_columns(named)))


def vectors_of(table: pa.Table) -> NDArray[np.float32]:
    """Return the vectors ``[rows, width]`` of a column of lists, or of a column for each component."""
    import numpy as np

    if table.column_names == ["embedding"]:
        lists = table.column(0).combine_chunks()
        flat: NDArray[np.float32] = lists.flatten().to_numpy()
        return flat.reshape(len(table), -1)
    return np.column_stack([column.to_numpy() for column in table.columns])
