"""The command that measures how fast contig is: ``bench``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, data
from contig.cli.data import Json
from contig.cli.folders import Device
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from contig.benchmarks.timing import Measurement

app = typer.Typer()

DEFAULT_DATA = "wikipedia"


@app.command(
    epilog=console.examples(
        ("contig bench wikipedia --neighbors 10 --device cpu", "everything"),
        ("contig bench --only contig-step,tgn-step --out speed.json", "some, kept"),
        ("contig bench --from speed.json --markdown speed.md", "a kept one as a table"),
        ("contig bench --quick", "whether it works, in seconds"),
    )
)
def bench(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", show_default=DEFAULT_DATA, help="A file of events or the name of a dataset."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="NAME,NAME", help="Which measurements, with commas between."),
    ] = None,
    neighbors: Annotated[int | None, typer.Option("--neighbors", metavar="K", help="Neighbours; 10.")] = None,
    dim: Annotated[int | None, typer.Option("--dim", metavar="D", help="Width of everything; 172.")] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", help="Events of a step; 200.")
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option("--steps", metavar="A:B", help="Steps of the first epoch that are timed; 200:400."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", help="Blocks or rounds behind a median; 10.")
    ] = None,
    ranked: Annotated[
        int | None,
        typer.Option("--ranked", metavar="N", help="Test events to rank; all on a GPU, 40 on a CPU."),
    ] = None,
    compile: Annotated[
        str | None, typer.Option("--compile", metavar="WHEN", help="auto, on or off, as in training.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small stream and few repeats: figures mean nothing.")
    ] = False,
    device: Device = "auto",
    data_dir: data.DataDir = None,
    kept: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Measure nothing; show this JSON.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the result here as JSON.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table here as Markdown.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure contig's speed and memory beside peers, in turns in one run, as ratios.

    A ratio is the peer's figure over ours: above 1 ours is better. Measurements: contig-step, tgn-step,
    contig-plain, tgn-plain, epoch, host, scoring, ranking, lookup, ode, startup, memory, roofline.
    """
    for option, path in (("--out", out), ("--markdown", markdown)):
        if path is not None and path.is_dir():
            raise ConfigError(f"{option} {path} is a folder; name a file.")
    from contig.benchmarks.report import read_report, rows_of, write_markdown
    from contig.files import write_json

    if kept is not None:
        report = read_report(kept)
        if out is not None:
            write_json(out, report)
    else:
        given = {
            **{"neighbors": neighbors, "dim": dim, "batch_size": batch_size, "repeats": repeats},
            **{"ranked": ranked, "compile": compile, **_steps(steps)},
        }
        said = {name: value for name, value in given.items() if value is not None}
        report = {}
        for report in _measured(file, only, said, quick=quick, device=device, data_dir=data_dir):
            if out is not None:  # after every measurement: the whole takes minutes
                write_json(out, report)
    if markdown is not None:
        write_markdown(report, markdown)
    if json:
        console.print_json(report)
    else:
        _show(report, rows_of(report))


def _command(words: Sequence[str]) -> str:
    """What was typed, without where its result and the data lie on this machine."""
    places = {"--out", "--markdown", "--data-dir"}
    kept = [w for before, w in zip(["", *words], words, strict=False) if not {w, before} & places]
    return " ".join(["contig", *(w for w in kept if w.split("=")[0] not in places)])


def _steps(given: str | None) -> dict[str, int]:
    """``A:B`` as the first and the last step."""
    if given is None:
        return {}
    first, _, last = given.partition(":")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ConfigError(f"--steps {given}: write two numbers, the smaller first, for instance 200:400.")
    return {"first": int(first), "last": int(last)}


def _measured(
    file: str | None,
    only: str | None,
    given: dict[str, Any],
    *,
    quick: bool,
    device: str,
    data_dir: Path | None,
) -> Iterator[dict[str, Any]]:
    """The report so far, each time that a measurement is done."""
    from contig.benchmarks.measurements import (
        QUICK,
        QUICK_DATA,
        Bench,
        Settings,
        chosen,
        measure,
    )
    from contig.benchmarks.report import as_report
    from contig.options import set_options

    names = chosen(only)
    settings = set_options(Settings(), {**(QUICK if quick else {}), **given})
    reading = ReadOptions(features=False, data_dir=data_dir)
    stream = data.read_stream(file or (QUICK_DATA if quick else DEFAULT_DATA), reading)
    bench = Bench(stream, settings, device)
    rows = []
    for name in names:
        with console.status(f"measuring {name}"):
            rows += measure(bench, name)
        yield as_report(bench.about(), _command(sys.argv[1:]), rows)


def _show(report: dict[str, Any], rows: Sequence[Measurement]) -> None:
    from contig.benchmarks.report import amount, between, times

    table = console.new_table("measurement", "ours against the peer's", "ours", "peer's", "ratio", "range")
    table.columns[1].justify, table.columns[1].overflow = "left", "fold"
    for row in rows:
        against = f"{row.what}; {row.peer_name}" if row.peer_name else f"{row.what}: {row.note}"
        figures = amount(row.ours, row.unit), amount(row.peer, row.unit)
        ratio = "-" if row.ratio is None else times(row.ratio)
        table.add_row(row.name, console.plain(against), *figures, ratio, between(row.ratio_range))
    console.out().print(table)
    told = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = [f"{row.name}, {row.what}: {row.note}" for row in rows if row.note and row.peer_name]
    lines += [f"{report['data']}: {report['events']:,} events", report["hardware"], report["cpu"], told]
    for line in [*lines, "ratio: the peer's figure over ours, median and range; above 1 ours is better"]:
        console.out().print(f"  {console.plain(line)}", soft_wrap=True)
