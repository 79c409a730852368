"""The command ``score``: score pairs at times."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.data import PAIR_OPTIONS, reads_events
from contig.cli.folders import Device, Folder, open_run
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, unknown
from contig.wording import counted

if TYPE_CHECKING:
    from contig.tasks.recommend import AsOf

app = typer.Typer()

COLD_START = "{pairs} a node without earlier events (column cold_start)."
AS_THEY_COME = " To score events that happened as they come: contig evaluate {run} --data {file} --out FILE"


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig score runs/a pairs.csv --out s.csv", "columns src, dst, t"),
        ("contig score runs/a new.parquet --out s.parquet", "as Parquet"),
        ("contig score runs/a log.csv --src who --out s.csv", "own columns"),
        ("contig score runs/a pairs.csv --as-of event --out s.csv", "exact, slower"),
    ),
)
@partial(reads_events, names=PAIR_OPTIONS)
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
    destination), surprise (-log2 of it, in bits), last_event, the time of the last event that
    the score uses, and cold_start, whether a node is unknown or has no events before; heuristics have
    a score only. Every pair is scored from the events strictly before its time.
    """
    outputs.check_file("--out", out, *outputs.TABLES, inputs=[pairs])
    when, opened = _parse_as_of(as_of), open_run(run, device)
    with console.status(f"scoring {pairs}"):
        scores = opened.score_pairs(pairs, reading, as_of=when)
    if cold := int(scores.cold_start.sum()):
        has = f"{counted(cold, 'pair')} of {len(scores):,} {'has' if cold == 1 else 'have'}"
        later = scores.t.min() > opened.stream.t[-1]  # evaluate refuses events that the run knows
        hint = AS_THEY_COME.format(run=run, file=pairs) if later else ""
        console.notice(COLD_START.format(pairs=has) + hint)
    with outputs.writing(out, counted(len(scores), "score")):
        outputs.write_table(out, outputs.with_times_of(opened, scores.table(), out))


def _parse_as_of(given: str) -> AsOf:
    match given:
        case "event" | "batch":
            return given
    raise ConfigError(f"--as-of: {unknown('value', given, ('batch', 'event'))}")
