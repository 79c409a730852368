"""Commands that make many runs: ``repeat`` and ``compare``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from contig.cli import console, data
from contig.cli.data import Json
from contig.cli.folders import Device
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError

if TYPE_CHECKING:
    from contig.data.events import EventStream
    from contig.experiments.jobs import Failure, Work
    from contig.experiments.rows import Row

app = typer.Typer()

Seeds = Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="How many seeds, counted from 0.")]
AtOnce = Annotated[
    int,
    typer.Option("--at-once", metavar="N", min=1, help="Trainings side by side; they share the cores."),
]


# --- repeat ------------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig repeat configs/collegemsg.json", "three seeds, one after another"),
        ("contig repeat configs/*.json --at-once 9 --device cuda", "all side by side on a GPU"),
    )
)
def repeat(
    recipes: Annotated[list[Path], typer.Argument(metavar="RECIPE...", help="Recipe files (JSON).")],
    seeds: Seeds = 3,
    out: Annotated[Path, typer.Option("--out", help="Where the runs are kept.")] = Path("runs/repeats"),
    device: Device = "auto",
    at_once: AtOnce = 1,
    json: Json = False,
) -> None:
    """Train recipes with several seeds and print what comes out on average.

    Runs that are done already are not done again; interrupted ones are gone on with.
    """
    from contig.cli import tables
    from contig.data.datasets import open_stream
    from contig.experiments.jobs import alone, plan, runs_in
    from contig.experiments.recipes import read_recipes
    from contig.experiments.rows import collect

    wanted = {recipe.name: recipe for path in recipes for recipe in read_recipes(path)}
    known = {data: open_stream(data).fingerprint() for data in {recipe.data for recipe in wanted.values()}}
    exact = [replace(recipe, fingerprint=known[recipe.data]) for recipe in wanted.values()]
    jobs = [job for recipe in exact for job in plan([recipe], seeds, runs_in(out))]
    rows = collect(jobs, work_through("trainings", alone(jobs), device, at_once))
    if json:
        console.print_json([row.as_dict() for row in rows])
    else:
        tables.show(tables.repeat_table(rows))
        console.out().print("  per-batch AP and AUC on the test events, %, mean ± standard deviation")
    _end(rows)


def work_through(
    what: str, chains: Sequence[Sequence[Work]], device: str, at_once: int
) -> list[Failure[Any]]:
    """Do what is not done, with a bar and a line for each that ends; those that failed."""
    from contig.experiments.jobs import run_jobs

    waiting, count = sum(not work.done for chain in chains for work in chain), itertools.count(1)

    def ended(work: Work, reason: str | None) -> None:
        advance(1)
        told = work.outcome() if reason is None else f"failed: {reason}"
        console.notice(f"{next(count)} of {waiting}, {work.name}: {told}")

    try:
        with console.bar(what, waiting) as advance:
            return run_jobs(chains, device=device, at_once=at_once, ended=ended)
    except KeyboardInterrupt:
        console.notice("interrupted; nothing is lost: the same command goes on from here")
        raise


def _end(rows: Sequence[Row]) -> None:
    """Say what failed, and let the exit code say so too."""
    from contig.cli.tables import failures

    told = failures(rows)
    for line in told:
        console.error(line)
    if told:
        raise typer.Exit(2)


# --- compare -----------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig compare collegemsg", "every model, three seeds"),
        ("contig compare mooc wikipedia --models contig,tgn", "some, on two streams"),
        ("contig compare visits.csv --src who --time when", "a file, its columns"),
        ("contig compare mooc --set dim=64 --set tgn.lr=1e-3", "for all, for one"),
        ("contig compare mooc --at-once 9 --device cuda", "side by side on a GPU"),
    )
)
@data.reads_events
def compare(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...", show_default=False, help="Files of events or names of datasets, as for train."
        ),
    ],
    models: Annotated[
        str,
        typer.Option("--models", metavar="NAME,NAME", help="Which models, with commas between; or all."),
    ] = "all",
    seeds: Seeds = 3,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where the runs and the result are kept.")
    ] = Path("runs/compare"),
    device: Device = "auto",
    at_once: AtOnce = 1,
    epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", help="Passes over the training events at most.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[MODEL.]KEY=VALUE",
            help="An option of one model, or of all that have it, or of their training.",
        ),
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules/--no-rules", help="Whether rules that learn nothing stand beside.")
    ] = True,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table here too, for programs.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PATH.png", help="Draw it here too (png, svg or pdf).")
    ] = None,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Train models on the same events with several seeds and put them side by side, with what they cost.

    The result is kept in FOLDER as compare.txt, .csv, .json and .png.

    Runs that are done already are not done again; interrupted ones are gone on with.
    """
    from contig.experiments.jobs import alone, plan, runs_in
    from contig.experiments.lineups import chosen_models, lineup
    from contig.experiments.rows import collect
    from contig.options import parse_settings

    if plot is not None:
        from contig import plots

        plots.check_target(plot)
    if csv is not None and csv.is_dir():
        raise ConfigError(f"--csv {csv} is a folder; name a file.")
    names = chosen_models(models, rules)
    chosen = parse_settings(settings or []) | ({} if epochs is None else {"epochs": str(epochs)})
    streams = {file: data.read_stream(file, reading) for file in dict.fromkeys(files)}
    jobs = {
        file: plan(lineup(file, stream, names, chosen, reading), seeds, runs_in(out))
        for file, stream in streams.items()
    }
    planned = [job for some in jobs.values() for job in some]
    beside = 1 if all(job.done for job in planned) else at_once  # of runs made earlier nothing is known
    failed = work_through("trainings", alone(planned), device, at_once)
    contests = [_Contest(f, streams[f], seeds, beside, collect(jobs[f], failed)) for f in streams]
    _keep(contests, out, csv, plot)
    if json:
        console.print_json([contest.as_dict() for contest in contests])
    else:
        for contest in contests:
            contest.show()
        console.notice(f"table, numbers and picture are in {out / 'compare.txt'}, .csv, .json and .png")
    _end([row for contest in contests for row in contest.rows])


class _Contest(NamedTuple):
    """Models side by side on one stream."""

    data: str
    stream: EventStream
    seeds: int
    at_once: int
    rows: list[Row]

    @property
    def name(self) -> str:
        return Path(self.data).name

    @property
    def title(self) -> str:
        return f"{self.name}: {len(self.stream):,} events, {self.stream.num_nodes:,} nodes"

    def notes(self) -> list[str]:
        """What a reader must know to compare the numbers."""
        from contig.data.clock import duration
        from contig.data.summary import summarise
        from contig.experiments.lineups import WINDOW, span_of_test

        done = [row for row in self.rows if row.seeds]
        if not done:
            return []
        notes = [f"Test events, {_protocol(done)}.", f"AP and AUC in %, mean over batches; {self._spread()}."]
        if any(row.recipe.variant == WINDOW for row in done):
            span = span_of_test(self.stream) / summarise(self.stream).time.per_second
            notes.append(f"{WINDOW}: only the last {duration(span)} count, as long as the test lasts.")
        return [*notes, f"Speed and memory: {self._machine(done)}."]

    def _spread(self) -> str:
        if self.seeds == 1:
            return "one seed"
        rules = "" if all(row.learns for row in self.rows) else " (rules learn nothing and need none)"
        return f"mean ± standard deviation over {self.seeds} seeds{rules}"

    def _machine(self, done: Sequence[Row]) -> str:
        hardware = " and ".join(dict.fromkeys(row.about["hardware"] for row in done))
        beside = f", {self.at_once} trainings at once" if self.at_once > 1 else ""
        peak = " and ".join(dict.fromkeys(row.about["peak_memory_of"] for row in done))
        return f"{hardware}{beside}; the peak memory is of {peak}"

    def text(self) -> str:
        """All of it, plain."""
        from contig.cli import tables

        table = tables.as_text(tables.comparison_table(self.rows))
        lines = [f"  {line}\n" for line in (*self.notes(), *tables.failures(self.rows))]
        return "".join([f"{self.title}\n", table, *lines])

    def show(self) -> None:
        from contig.cli import tables

        console.out().print(f"\n[bold]{console.plain(self.title)}[/bold]")
        parts = [tables.comparison_table(self.rows, some) for some in (tables.QUALITY, tables.COST)]
        tables.show(tables.comparison_table(self.rows), parts)
        for note in self.notes():
            console.out().print(f"  [dim]{console.plain(note)}[/dim]", soft_wrap=True)

    def as_dict(self) -> dict[str, Any]:
        about = {"data": self.data, "events": len(self.stream), "nodes": self.stream.num_nodes}
        return {**about, "seeds": self.seeds, "rows": [row.as_dict() for row in self.rows]}


def _protocol(done: Sequence[Row]) -> str:
    sizes = sorted({row.about["batch_size"] for row in done})
    protocol = done[0].about["protocol"]
    return (
        f"{protocol['negatives']} negatives, batches of {' or '.join(f'{size:,}' for size in sizes)}, "
        f"new nodes by holdout {protocol['holdout']}"
    )


def _keep(contests: Sequence[_Contest], out: Path, csv: Path | None, plot: Path | None) -> None:
    """Write the result in all its forms."""
    from contig import plots
    from contig.experiments.rows import write_csv
    from contig.files import replacing, write_json

    rows = [row for contest in contests for row in contest.rows]
    for path in (out / "compare.csv", csv):
        if path is not None:
            write_csv(rows, path)
    write_json(out / "compare.json", [contest.as_dict() for contest in contests])
    with replacing(out / "compare.txt") as part:
        part.write_text("\n".join(contest.text() for contest in contests))
    fields = {
        contest.name: [_compared_model(row) for row in contest.rows if row.seeds] for contest in contests
    }
    if not all(fields.values()):
        return
    done = [row for row in rows if row.seeds]
    seeds = contests[0].seeds
    facts = (
        f"{seeds} seeds, bars are ± one standard deviation" if seeds > 1 else "one seed",
        _protocol(done),
        done[0].about["hardware"],
    )
    figure = plots.comparison(fields, facts)
    for path in (out / "compare.png", plot):
        if path is not None:
            plots.save(figure, path)


def _compared_model(row: Row) -> Any:
    from contig.plots import ComparedModel

    return ComparedModel(
        row.label, row.learns, row.transductive["ap"], row.inductive["ap"], row.cost.train_speed
    )
