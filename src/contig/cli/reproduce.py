"""The command that makes the paper's tables and figures again: ``reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console
from contig.cli.compare import AtOnce, work_through
from contig.cli.data import Json
from contig.cli.folders import Device

if TYPE_CHECKING:
    from contig.experiments.jobs import Failure
    from contig.reproduction.grids import Sheet, Table
    from contig.reproduction.studies import Plan, Study

app = typer.Typer()

QUICK_SEEDS, FULL_SEEDS = 1, 3


@app.command(
    epilog=console.examples(
        ("contig reproduce all --quick", "all of it, small; a quarter of an hour"),
        ("contig reproduce table2 --datasets mooc --models contig,tgn", "a part of one"),
        ("contig reproduce all --at-once 8 --device cuda", "the real thing on a GPU"),
        ("contig reproduce all --only-done", "what there is so far"),
    )
)
def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            show_default=False,
            help="table2, table3, table4, fig3, fig4, fig5, fig6 or all.",
        ),
    ],
    datasets: Annotated[
        str | None,
        typer.Option(
            "--datasets",
            metavar="NAME,NAME",
            show_default="the paper's that are on this machine",
            help="Names or files of streams, with commas between.",
        ),
    ] = None,
    models: Annotated[
        str, typer.Option("--models", metavar="NAME,NAME", help="Which models, with commas between; or all.")
    ] = "all",
    rules: Annotated[
        bool, typer.Option("--rules/--no-rules", help="Whether rules that learn nothing stand beside.")
    ] = True,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="N", min=1, show_default="3; 1 if quick", help="How many seeds, from 0."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The beginning of each stream, few epochs, small models.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            show_default="runs/reproduce or runs/reproduce-quick",
            help="Where runs, tables, figures and the report are kept.",
        ),
    ] = None,
    configs: Annotated[
        Path,
        typer.Option(
            "--configs", metavar="FOLDER", help="Recipes: DATA.json (of contig) or DATA-MODEL.json."
        ),
    ] = Path("configs"),
    device: Device = "auto",
    at_once: AtOnce = 1,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Count runs that another version of the code has done.")
    ] = False,
    only_done: Annotated[
        bool, typer.Option("--only-done", help="Train and measure nothing; show what is done.")
    ] = False,
    json: Json = False,
) -> None:
    """Make the paper's tables and figures again, each number beside the paper's.

    FOLDER gets every table as .txt, .csv, .tex and .md, every figure as .png and .svg, and report.html.

    What is done is not done again; after Ctrl-C the same command goes on.
    """
    from contig.experiments.lineups import chosen_models
    from contig.reproduction.sources import at_hand, named_sources, open_source
    from contig.reproduction.studies import FULL, QUICK, Study, chosen_items, make_plan

    scale = QUICK if quick else FULL
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    items, names = chosen_items(what), tuple(chosen_models(models, rules))
    if not configs.is_dir():
        console.notice(
            f"--configs {configs} is no folder: every model trains under its own defaults, not under the "
            "published settings, which are in the repository's configs"
        )
    wanted = at_hand() if datasets is None else named_sources(datasets)
    with console.status("reading the streams"):
        sources = tuple(open_source(name, scale.events, folder / "data") for name in wanted)
        study = Study(
            items,
            sources,
            names,
            seeds or (QUICK_SEEDS if quick else FULL_SEEDS),
            folder,
            scale,
            configs,
            any_code,
            as_paper=datasets is None,
        )
        plan = make_plan(study)
    _tell_what_does_not_apply(study, datasets)
    _tell_of_other_code(plan)
    try:
        failed = [] if only_done else _do(plan, device, at_once)
    except KeyboardInterrupt:
        console.notice("what is done so far is shown by the same command with --only-done")
        raise
    tables, glance = _keep(plan, failed)
    if json:
        console.print_json([line for sheet in (*tables, glance) for line in sheet.lines()])
    else:
        _show([*tables, glance] if glance.grids else tables)
    console.notice(f"tables, figures and the report are in {folder / 'report.html'} and beside it")
    for line in failed:
        console.error(line)
    if failed:
        raise typer.Exit(2)


def _tell_what_does_not_apply(study: Study, datasets: str | None) -> None:
    """Wishes that an item cannot fulfil."""
    from contig.reproduction.studies import FOCUS, OF_FOCUS

    own = [item for item in study.items if item in OF_FOCUS]
    if own and FOCUS not in study.models:
        console.notice(f"{', '.join(own)}: of {FOCUS} alone, whatever --models says")
    if "fig6" in study.items and datasets is not None:
        console.notice("fig6: of synthetic streams, whatever --datasets says")
    unlabelled = [source.name for source in study.sources if not source.labelled]
    if "table3" in study.items and len(unlabelled) == len(study.sources):
        console.notice(f"table3: no labels in {', '.join(unlabelled)}")


def _tell_of_other_code(plan: Plan) -> None:
    """What was done before the code changed is not counted without a word."""
    from contig.experiments.identity import finished_by_any_code

    undone = [job.folder for job in [*plan.trainings, *plan.timed] if not job.done]
    if others := sum(bool(finished_by_any_code(folder)) for folder in undone):
        console.notice(
            f"{others:,} of the runs are there by another version of the code; --any-code counts them"
        )


def _do(plan: Plan, device: str, at_once: int) -> list[str]:
    """Train and measure what is not done; what failed, a line each."""
    from contig.experiments.jobs import alone

    failed = work_through("timings", alone(plan.timed), device, 1)  # beside others an epoch takes longer
    others = [plan.chain(job) for job in plan.longest_first]
    return list(map(_told, failed + work_through("trainings, evaluations", others, device, at_once)))


def _told(failure: Failure[Any]) -> str:
    return f"{failure.job.name} failed: {failure.reason} (all it said: {failure.job.log})"


def _keep(plan: Plan, failed: Sequence[str]) -> tuple[list[Table], Sheet]:
    """Write tables, figures and the report."""
    from contig import plots
    from contig.reproduction.caveats import departures, reading
    from contig.reproduction.claims import claims
    from contig.reproduction.figures import figure
    from contig.reproduction.findings import tables
    from contig.reproduction.grids import FORMS
    from contig.reproduction.report import hardware, report

    made, machines, pictures = tables(plan), hardware(plan), {}
    glance = claims(made, departures(plan))
    for sheet in (*made, glance):
        for ending, form in FORMS.items():
            _write(plan.study.out / f"{sheet.name}.{ending}", form(sheet))
    for table in made:
        drawn = figure(table, [_spread(plan, table), *machines])
        for picture in (plan.study.out / f"{table.name}.{ending}" for ending in ("png", "svg")):
            if drawn is None:
                picture.unlink(missing_ok=True)  # of another time
            else:
                plots.save(drawn, picture)
        if (bare := figure(table, None)) is not None:
            pictures[table.name] = plots.inline_svg(bare, table.name)
    _write(plan.study.out / "reading.md", reading(plan))
    _write(plan.study.out / "report.html", report(plan, made, glance, pictures, failed))
    return made, glance


def _spread(plan: Plan, table: Table) -> str:
    seeds = 1 if table.name == "fig6" else plan.study.seeds
    return f"{seeds} seeds, bars are ± one standard deviation" if seeds > 1 else "one seed"


def _write(path: Path, text: str) -> None:
    from contig.files import replacing

    with replacing(path) as part:
        part.write_text(text, "utf-8")


def _show(tables: Sequence[Sheet]) -> None:
    from contig.reproduction.grids import as_text

    for table in tables:
        console.out().print(as_text(table), soft_wrap=True, markup=False)
