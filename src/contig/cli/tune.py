"""The command ``tune``: choose settings by the validation events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, data
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.jobs import AtOnce, Devices, PartOption, Sweep, Wait, failure_lines, report_failures
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError

if TYPE_CHECKING:
    from contig.data.events import EventStream
    from contig.experiments.recipes import Recipe
    from contig.experiments.tuning import Study

app = typer.Typer()


EventsFile = Annotated[
    str,
    typer.Argument(metavar="DATA", show_default=False, help="A file of events or the name of a dataset."),
]
Grid = Annotated[
    list[str],
    typer.Option(
        "--grid",
        metavar="KEY=VALUES",
        show_default=False,
        help="What to try: KEY=A,B,C or KEY=LOW..HIGH. May be repeated.",
    ),
]
Trials = Annotated[int, typer.Option("--trials", metavar="N", min=1, help="Trials in all.")]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", show_default="that of train", help="The model.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="Maximum number of epochs.")]
Fixed = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option that stays the same in all trials."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write the study and its runs.")]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig tune mooc --grid lr=1e-4,3e-4 --grid dim=64,172", "all four"),
        ("contig tune mooc --grid lr=1e-5..1e-2 --trials 30", "a range"),
        ("contig tune mooc --grid lr=1e-4,1e-3 --at-once 4 --device cuda", "in parallel"),
        ("contig tune mooc --grid lr=1e-4,1e-3 --part 1/2", "on host 1 of 2"),
        ("contig train --config runs/tune/best.json", "train the best"),
    ),
)
@data.reads_events
def tune(
    ctx: typer.Context,
    file: EventsFile,
    grid: Grid,
    trials: Trials = 20,
    model: ModelName = None,
    epochs: Epochs = None,
    settings: Fixed = None,
    out: Out = Path("runs/tune"),
    device: Devices = "auto",
    at_once: AtOnce = None,
    part: PartOption = None,
    wait: Wait = False,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Choose settings by the AP on the validation events, or by --set monitor=METRIC, with Optuna.

    A grid of values is tried completely if --trials allows it; ranges are searched. Test events have no
    influence on the choice. FOLDER gets tune.csv, tune.png and best.json, the recipe of the best trial.

    After Ctrl-C, repeat the command to continue; with more --trials it goes on.
    """
    from contig.experiments.jobs import as_chains
    from contig.experiments.tuning import Study, check_tunable, grid_jobs, parse_grid, save
    from contig.models import DEFAULT_MODEL
    from contig.options import parse_settings

    sweep, parameters = Sweep.of(device, at_once, part), parse_grid(grid)
    fixed = parse_settings(settings or []) | ({} if epochs is None else {"epochs": str(epochs)})
    if doubled := [one.name for one in parameters if one.name in fixed]:
        raise ConfigError(f"{doubled[0]} is in --grid and fixed with --set; use one of them.")
    stream = data.read_stream(file, reading)
    recipe = _recipe(file, model or DEFAULT_MODEL, fixed, reading, stream)
    check_tunable(recipe, parameters)
    planned = [] if sweep.part.whole else grid_jobs(recipe, parameters, trials, out)
    sweep.use_folder(ctx, out, wait)
    if not sweep.part.whole:
        sweep.end_part(sweep.run("trials", as_chains(planned)))
    study = Study(recipe, parameters, out)
    failures = _search(study, trials, sweep)
    if not study.finished:
        report_failures(failures)
    save(study)
    if json:
        best, rows = study.best(), [vars(one) for one in study.trials()]
        console.print_json({"monitor": study.monitor, "best": vars(best), "trials": rows})
    else:
        _print(study)
    console.notice(f"wrote {out / 'best.json'}, tune.csv and tune.png")
    report_failures(failures)


def _recipe(
    file: str, model: str, fixed: dict[str, str], reading: ReadOptions, stream: EventStream
) -> Recipe:
    from contig.experiments.recipes import Recipe, settings_on
    from contig.runs.config import RunConfig

    config = RunConfig.of(model, fixed).as_dict()
    given = {**config["options"], **config["train"]}
    chosen = settings_on(stream, model, {name: given[name] for name in fixed})
    return Recipe(file, model, chosen, reading=reading, fingerprint=stream.fingerprint())


def _search(study: Study, trials: int, sweep: Sweep) -> list[str]:
    """Run trials until enough have finished; stop at the first failure."""
    from contig.experiments.jobs import as_chains

    every = study.size <= trials
    while (left := int(min(trials, study.size)) - study.finished) > 0:
        jobs = study.ask(min(sweep.at_once, left), every=every)
        failures = sweep.run("trials", as_chains(list(jobs.values())))
        without = study.tell(jobs)
        if failures:
            return failure_lines(failures)
        if without:
            return [
                f"{one.name} has no {study.metric}: there are too few validation events" for one in without
            ]
    return []


def _print(study: Study) -> None:
    best = study.best()
    names = [one.name for one in study.grid]
    table = console.new_table("trial", *names, study.metric)
    for one in sorted(study.trials(), key=lambda one: -one.value):
        cells = [str(one.number + 1), *(f"{one.settings[name]}" for name in names), f"{100 * one.value:.2f}"]
        table.add_row(*(f"[bold]{cell}[/bold]" if one.number == best.number else cell for cell in cells))
    console.out().print(table)
