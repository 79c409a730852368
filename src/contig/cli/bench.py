"""The command that measures speed and memory: ``bench``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, data, outputs
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.folders import Device
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from contig.benchmarks.report import Report

app = typer.Typer()

DEFAULT_DATA = "wikipedia"
MEASUREMENTS = (
    "contig-step, tgn-step, contig-plain, tgn-plain, epoch, host, disk, scoring, ranking, ranking-times, "
    "departures, scopes, pair-step, pair-ranking, evidence, read, index, append, lookup, lookup-loop, ode, "
    "live, live-hour, serve, bulk, startup, memory, roofline"
)

DataArgument = Annotated[
    str | None,
    typer.Argument(metavar="DATA", show_default=DEFAULT_DATA, help="A dataset name or a file of events."),
]
Only = Annotated[
    str | None,
    typer.Option("--only", metavar="NAME,NAME", help=f"Comma-separated measurements: {MEASUREMENTS}."),
]
Neighbors = Annotated[
    int | None, typer.Option("--neighbors", metavar="K", show_default="10", help="Neighbors per query.")
]
Dim = Annotated[
    int | None,
    typer.Option("--dim", metavar="D", show_default="172", help="Width of states and embeddings."),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", metavar="N", show_default="200", help="Events per step.")
]
Steps = Annotated[
    str | None,
    typer.Option("--steps", metavar="A:B", show_default="200:400", help="Timed steps of the first epoch."),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        metavar="N",
        show_default="10",
        help="Timed repetitions; the median is reported.",
    ),
]
Ranked = Annotated[
    int | None,
    typer.Option("--ranked", metavar="N", show_default="depends on the device", help="Test events to rank."),
]
Events = Annotated[
    int | None,
    typer.Option(
        "--events", metavar="N", show_default="10,000,000", help="Events to index; a tenth is read."
    ),
]
Compile = Annotated[
    str | None, typer.Option("--compile", metavar="WHEN", help="auto, on or off, as in training.")
]
Recipe = Annotated[
    str | None,
    typer.Option("--recipe", metavar="RECIPE", show_default="departures", help="For departures."),
]
Runs = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="RUN", help="Trained run for ranking-times. May be repeated."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Smoke test only: a small dataset and few repeats.")]
SavedReport = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="Show this report; measure nothing.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the report here as JSON.")]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table here as Markdown.")
]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig bench wikipedia --neighbors 10 --device cpu", "all measurements"),
        ("contig bench --only contig-step,tgn-step --out speed.json", "two of them, saved"),
        ("contig bench --from speed.json --markdown speed.md", "a saved report"),
        ("contig bench --quick", "smoke test"),
    ),
)
def bench(
    file: DataArgument = None,
    only: Only = None,
    neighbors: Neighbors = None,
    dim: Dim = None,
    batch_size: BatchSize = None,
    steps: Steps = None,
    repeats: Repeats = None,
    ranked: Ranked = None,
    events: Events = None,
    compile: Compile = None,
    recipe: Recipe = None,
    run: Runs = None,
    quick: Quick = False,
    device: Device = "auto",
    data_dir: data.DataDir = None,
    saved: SavedReport = None,
    out: Out = None,
    markdown: Markdown = None,
    json: Json = False,
) -> None:
    """Measure speed and memory, compared with peers in the same run.

    A ratio is the peer's figure divided by ours: above 1, ours is better.
    """
    outputs.check_file("--out", out, inputs=[file])
    outputs.check_file("--markdown", markdown, inputs=[file, saved])
    from contig.benchmarks.report import Report

    options = {
        **{"neighbors": neighbors, "dim": dim, "batch_size": batch_size, "repeats": repeats},
        **{"ranked": ranked, "events": events, "compile": compile, "recipe": recipe, "runs": run},
        **_steps(steps),
    }
    if saved is not None:
        reports = iter([Report.read(saved)])
    else:
        settings = {name: value for name, value in options.items() if value is not None}
        reports = _measure(file, only, settings, quick=quick, device=device, data_dir=data_dir)
    report = _save_each(reports, out)
    if markdown is not None:
        with outputs.writing(markdown):
            report.write_markdown(markdown)
    if json:
        console.print_json(report.to_dict())
    else:
        _show(report)


def _save_each(reports: Iterator[Report], out: Path | None) -> Report:
    """Write every report that is yielded to ``out``; return the last.

    All measurements together take minutes, so that the file is renewed after each of them.
    """
    from contig.files import write_json

    for report in reports:
        if out is not None:
            write_json(out, report.to_dict())
    if out is not None:
        console.notice(f"wrote {out}")
    return report


def _measure(
    file: str | None,
    only: str | None,
    settings: dict[str, Any],
    *,
    quick: bool,
    device: str,
    data_dir: Path | None,
) -> Iterator[Report]:
    """Yield the report so far after each measurement."""
    from contig.benchmarks.bench import QUICK, QUICK_DATA, Bench, Settings
    from contig.benchmarks.report import Report
    from contig.benchmarks.suite import measure, select
    from contig.options import set_options

    names = select(only)
    options = set_options(Settings(), {**(QUICK if quick else {}), **settings})
    dataset = file if file is not None else QUICK_DATA if quick else DEFAULT_DATA
    stream = data.read_stream(dataset, ReadOptions(features=False, data_dir=data_dir))
    bench = Bench.prepare(stream, options, device)
    rows = []
    for name in names:
        with console.status(f"measuring {name}"):
            rows += measure(bench, name)
        yield Report.create(bench, _command(sys.argv[1:]), rows)


def _steps(text: str | None) -> dict[str, int]:
    """Parse ``A:B`` into the first and the last timed step."""
    if text is None:
        return {}
    first, _, last = text.partition(":")
    short = max(len(first), len(last)) <= data.MAX_DIGITS
    if not (short and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ConfigError(f"--steps {text}: expected A:B with A < B, for example 200:400.")
    return {"first": int(first), "last": int(last)}


def _command(arguments: Sequence[str]) -> str:
    """Return the command line without the paths that are specific to this machine."""
    local = {"--out", "--markdown", "--data-dir"}
    kept = [w for before, w in zip(["", *arguments], arguments, strict=False) if not {w, before} & local]
    return " ".join(["contig", *(w for w in kept if w.split("=")[0] not in local)])


def _show(report: Report) -> None:
    from contig.benchmarks.report import format_range, format_ratio, format_value

    table = console.new_table("measurement", "what", "ours", "theirs", "ratio", "range")
    table.columns[1].justify, table.columns[1].overflow = "left", "fold"
    for row in report.measurements:
        what = f"{row.what} vs {row.peer_name}" if row.peer_name else row.what
        figures = format_value(row.ours, row.unit), format_value(row.peer, row.unit)
        ratios = format_ratio(row.ratio), format_range(row.ratio_range)
        table.add_row(row.name, console.plain(what), *figures, *ratios)
    console.out().print(table)
    packages = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    lines = [f"{row.name}, {row.what}: {row.note}" for row in report.measurements if row.note]
    lines += [f"{report.data}: {counted(report.events, 'event')}", report.hardware, report.cpu, packages]
    for line in [
        *lines,
        "ratio: the peer's figure divided by ours, median and range; above 1, ours is better",
    ]:
        console.out().print(f"  {console.plain(line)}", soft_wrap=True)
