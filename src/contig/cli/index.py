"""The command ``index``: Parquet files of any size, made ready for training without loading them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from contig.cli import console, data
from contig.cli.commands import Command
from contig.data.read_options import INDEX_OPTIONS, ReadOptions
from contig.errors import ConfigError
from contig.ranks import require_one_process
from contig.wording import counted, in_bytes

app = typer.Typer()

FEATURES = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="COLUMN,COLUMN",
        show_default="those found",
        help="Columns of numbers f0, f1, ..., or one of lists of numbers, taken as they are; or none.",
    ),
]
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig index clicks/ --out clicks.index", "a folder of Parquet files"),
        ("contig index clicks/ --out clicks.index --memory 2G", "with less memory"),
        ("contig train clicks.index --out runs/clicks", "use it like a file"),
    ),
)
@partial(data.reads_events, names=INDEX_OPTIONS, own={"features": FEATURES})
def index(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", show_default=False, help="Parquet files, or folders of them."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder of the index.")],
    reading: ReadOptions,
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Memory to use, roughly.")] = "4G",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another index in FOLDER.")] = False,
) -> None:
    """Index Parquet files that are larger than memory; every command then reads the index like a file.

    Events are sorted by time and nodes are numbered on disk. An interrupted build resumes with the same
    command. Needs DuckDB: pip install 'contig\\[index]'.
    """
    require_one_process("contig index")
    size = parse_bytes(memory)
    from contig.data.index_folder import read_head
    from contig.history.building import build_index

    try:
        folder = build_index(files, out, reading=reading, memory=size, overwrite=overwrite)
    except KeyboardInterrupt:
        console.error("interrupted; to resume, repeat the command")
        raise typer.Exit(130) from None
    head = read_head(folder)
    used = sum(file.size for file in head.files.values())
    console.out().print(
        f"{console.plain(folder)}: {counted(head.events, 'event')}, {counted(head.nodes, 'node')}, "
        f"{in_bytes(used)} ({used / head.events:.0f} bytes per event)",
        soft_wrap=True,
    )


def parse_bytes(text: str) -> int:
    """Parse a size such as ``4G`` or ``512MiB``."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if found is None:
        raise ConfigError(f"--memory {text}: expected a size such as 4G or 512M.")
    return int(float(found[1]) * UNITS[found[2].upper()])
