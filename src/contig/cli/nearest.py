"""The command ``nearest``: find the nodes most similar to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import (
    At,
    Node,
    SideOption,
    note_if_nothing_happened,
    note_time,
    parse_side,
    parse_time,
    times_json,
)
from contig.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from contig.runs.answers import SimilarNodes

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig nearest runs/first --node ann", "the most similar nodes"),
        ("contig nearest runs/first --node ann --at 2024-05-01", "at an earlier time"),
        ("contig nearest runs/a --node 7 --side dst --out x.csv", "of an item"),
    ),
)
def nearest(
    run: Folder,
    node: Node,
    side: SideOption = None,
    at: At = None,
    k: Annotated[int, typer.Option("-k", "--k", metavar="K", min=1, help="Length of the list.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A .parquet, .csv or .arrow file for the list."),
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """List the nodes whose embeddings are most similar to that of a node at a time, by cosine.

    In a bipartite stream they are on the same side. Only nodes with events before that time count.
    """
    outputs.check_file("--out", out, *outputs.TABLES)
    opened = open_run(run, device)
    time = parse_time("--at", at, opened.stream)
    note_if_nothing_happened("--at", at, time, opened.stream)
    with console.status("embedding"):
        found = opened.nearest(node, k, time, parse_side(side))
    if out is not None:
        with outputs.writing(out, counted(len(found), "node")):
            outputs.write_table(out, outputs.with_times_of(opened, _table(found), out))
    elif json:
        rows = [one._asdict() for one in found]
        times = times_json(opened.stream, at=found.at, last_event=found.last_event)
        console.print_json({"node": node, **times, "nearest": rows})
    else:
        _print(found)
        note_time(opened.stream, found.at, found.last_event)


def _print(found: SimilarNodes) -> None:
    table = console.new_table("rank", "node", "similarity")
    for rank, one in enumerate(found, 1):
        table.add_row(str(rank), console.plain(one.node), f"{one.similarity:.5f}")
    console.out().print(table)


def _table(found: SimilarNodes) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "node": [found.node] * len(found),
            "rank": list(range(1, len(found) + 1)),
            "nearest": [one.node for one in found],
            "similarity": [one.similarity for one in found],
            "at": [found.at] * len(found),
            "last_event": [found.last_event] * len(found),
        }
    )
