"""The command that reproduces the paper: ``reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.jobs import (
    AtOnce,
    Devices,
    Heuristics,
    OnlyDone,
    PartOption,
    Sweep,
    Wait,
    failure_lines,
    report_failures,
)
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from contig.experiments.jobs import Failure, Work
    from contig.reproduction.plan import Plan
    from contig.reproduction.scales import Scale
    from contig.reproduction.tables.layout import Sheet

app = typer.Typer()

What = Annotated[
    list[str],
    typer.Argument(
        metavar="WHAT...",
        show_default=False,
        help="table2, table3, table4, fig3, fig4, fig5, fig6 or all.",
    ),
]
Datasets = Annotated[
    str | None,
    typer.Option(
        "--datasets",
        metavar="NAME,NAME",
        show_default="the paper's datasets on this machine",
        help="Comma-separated dataset names or files.",
    ),
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="NAME,NAME",
        show_default="the paper's models",
        help="Comma-separated models, or all.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option("--seeds", metavar="N", min=1, show_default="3; 1 with --quick", help="Seeds 0 to N-1."),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Smoke test: the first events, few epochs, small models."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        show_default="runs/reproduce or runs/reproduce-quick",
        help="Where to write runs, tables, figures and the report.",
    ),
]
Configs = Annotated[
    Path | None,
    typer.Option(
        "--configs",
        metavar="FOLDER",
        show_default="those of the package",
        help="Recipes: DATASET-MODEL.json, or DATASET.json for contig.",
    ),
]
Archive = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        metavar="FILE.tar.xz",
        show_default=False,
        help="Also write the results of every finished run to one file, without weights: to keep, or to "
        "unpack into FOLDER and continue.",
    ),
]
AnyNumerics = Annotated[
    bool, typer.Option("--any-numerics", help="Also use runs made with another version of the numerics.")
]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig reproduce all --quick", "smoke test"),
        ("contig reproduce table2 --datasets mooc --models contig,tgn", "part of one table"),
        ("contig reproduce all --at-once 8 --device cuda", "on a GPU"),
        ("contig reproduce all --device cuda:0,cuda:1", "on two GPUs"),
        ("contig reproduce all --part 2/3", "on host 2 of 3"),
        ("contig reproduce all --only-done", "results so far"),
        ("contig reproduce all --only-done --archive r.tar.xz", "keep in one file"),
    ),
)
def reproduce(
    ctx: typer.Context,
    what: What,
    datasets: Datasets = None,
    models: Models = None,
    heuristics: Heuristics = True,
    seeds: Seeds = None,
    quick: Quick = False,
    out: Out = None,
    configs: Configs = None,
    device: Devices = "auto",
    at_once: AtOnce = None,
    part: PartOption = None,
    any_numerics: AnyNumerics = False,
    only_done: OnlyDone = False,
    archive: Archive = None,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Reproduce the paper's tables and figures, and check its claims.

    Every number is shown next to the paper's. FOLDER/report.html has everything on one page, that of
    earlier calls included.

    Tables are also written as .txt, .csv, .tex and .md, figures as .png and .svg.

    Finished runs are kept and interrupted runs are resumed: after Ctrl-C, repeat the command to continue.
    """
    from contig.experiments.lineups import choose_models
    from contig.experiments.recipe_files import packaged_folder
    from contig.reproduction.archive import check_archive
    from contig.reproduction.datasets import available_datasets, parse_names
    from contig.reproduction.items import choose_items
    from contig.reproduction.paper import published_models
    from contig.reproduction.scales import FULL, QUICK

    sweep = Sweep.of(device, at_once, part, only_done)
    if configs is not None and not configs.is_dir():
        raise ConfigError(f"--configs {configs} is not a folder; omit it to use the recipes of the package.")
    if archive is not None:
        check_archive(archive)
        if not sweep.part.whole:
            raise ConfigError(
                f"--archive {archive} is written from the results of all parts; leave out --part {part}, or "
                "write it with --only-done when all parts have ended."
            )
    scale = QUICK if quick else FULL
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    chosen = {
        "items": choose_items(what, quick),
        "models": tuple(
            choose_models(",".join(published_models()) if models is None else models, heuristics)
        ),
        "seeds": seeds or scale.seeds,
        "configs": configs or packaged_folder(),
        "any_numerics": any_numerics,
        "every_dataset": datasets is not None,
    }
    names = available_datasets() if datasets is None else parse_names(datasets)
    sweep.use_folder(ctx, folder, wait)
    plan = _plan(names, folder, scale, chosen)
    _print_notices(plan)
    failed = _run(plan, names, sweep)
    sweep.end_part(failed)
    failures = failure_lines(failed)
    sheets = _write(plan, names, failures, archive)
    if json:
        console.print_json([record for sheet in sheets for record in sheet.records()])
    else:
        _print_tables(sheets)
    console.notice(f"wrote {folder / 'report.html'}, tables and figures")
    report_failures(failures)


def _plan(names: Sequence[str], folder: Path, scale: Scale, chosen: dict[str, Any]) -> Plan:
    """Read the datasets and plan what to train; ``chosen`` are the other fields of the study."""
    from contig.reproduction.datasets import open_dataset
    from contig.reproduction.plan import make_plan
    from contig.reproduction.study import Study

    with console.status("reading the datasets"):
        datasets = tuple(open_dataset(name, scale.events, folder / "data") for name in names)
        return make_plan(Study(datasets=datasets, out=folder, scale=scale, **chosen))


def _print_notices(plan: Plan) -> None:
    """Point out choices that do not apply, and results that are not used."""
    from contig.experiments.identity import finished_otherwise, finished_with_any_numerics

    study = plan.study
    for notice in (line for item in study.items for line in item.notices(study)):
        console.notice(notice)
    missing = [job.folder for job in plan.jobs if not job.done]
    if others := sum(bool(finished_with_any_numerics(folder)) for folder in missing):
        verb = "is" if others == 1 else "are"
        console.notice(
            f"{counted(others, 'run')} made with other numerics {verb} not used; use them with --any-numerics"
        )
    planned = {job.folder for job in plan.jobs}
    for dataset in study.datasets:
        lacking = {job.folder for job in plan.jobs if job.recipe.data == dataset.data and not job.done}
        if unused := {other for folder in lacking for other in finished_otherwise(folder, planned)}:
            verb = "was" if len(unused) == 1 else "were"
            console.notice(
                f"{counted(len(unused), 'finished run')} called {dataset.name} {verb} made with other "
                f"settings or events and cannot be shown: the events are now {dataset.describe()}"
            )


def _run(plan: Plan, names: Sequence[str], sweep: Sweep) -> list[Failure[Any]]:
    """Train and evaluate what is missing; return the failures."""
    chains = _chains(plan, names)
    try:
        # Timed runs come first, one at a time: side by side an epoch takes longer.
        failed = sweep.run_timed("timed runs", [chains[job.name] for job in plan.timed])
        return failed + sweep.run("runs and evaluations", [chains[job.name] for job in plan.longest_first])
    except KeyboardInterrupt:
        console.notice("to see the results so far, repeat the command with --only-done")
        raise


def _chains(plan: Plan, names: Sequence[str]) -> dict[str, list[Work]]:
    """Return the chain of each run by its name; one that is trained again is evaluated for all items.

    Its new weights replace the results of earlier calls, whose tables must not lose them.
    """
    from contig.experiments.jobs import is_trained_again
    from contig.reproduction.earlier import with_earlier

    chains = {job.name: plan.chain(job) for job in plan.jobs}
    if again := [job for job in plan.jobs if is_trained_again(chains[job.name])]:
        whole, _ = with_earlier(plan, names)
        for job in again:
            chains[job.name] += whole.chain(job)[1:]
    return chains


def _write(plan: Plan, names: Sequence[str], failures: Sequence[str], archive: Path | None) -> list[Sheet]:
    """Write all results, those of earlier calls included, and return the sheets of this call."""
    from contig.reproduction.archive import write_archive
    from contig.reproduction.earlier import record, with_earlier
    from contig.reproduction.output import write_results

    record(plan, names)
    shown, left_out = with_earlier(plan, names)
    for line in left_out:
        console.notice(line)
    if archive is not None:
        console.notice(f"wrote {archive} ({counted(write_archive(plan.study.out, archive), 'finished run')})")
    requested = {"claims", *plan.groups}
    return [sheet for sheet in write_results(shown, failures) if sheet.name in requested]


def _print_tables(sheets: Sequence[Sheet]) -> None:
    from contig.reproduction.tables.text import as_text

    for sheet in sheets:
        if sheet.layouts or sheet.name != "claims":
            console.out().print(as_text(sheet), soft_wrap=True, markup=False)
