"""Commands that train many runs and tabulate them: ``repeat`` and ``compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, data, outputs
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.folders import Device
from contig.cli.jobs import AtOnce, Seeds, Wait, report_failures, run_with_progress, use_folder
from contig.data.read_options import ReadOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from contig.experiments.comparisons import Comparison, PlannedComparison

app = typer.Typer()


# --- repeat ------------------------------------------------------------------------------------------


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig repeat collegemsg pair/collegemsg", "three seeds"),
        ("contig repeat mine/*.json --at-once 9 --device cuda", "in parallel on a GPU"),
        ("contig repeat mooc --evaluate recommend", "also rank"),
        ("contig repeat mooc --evaluate link:negatives=historical", "a task with options"),
    ),
)
def repeat(
    ctx: typer.Context,
    recipes: Annotated[
        list[str], typer.Argument(metavar="RECIPE...", help="Files (JSON or TOML) or names (contig recipes).")
    ],
    seeds: Seeds = 3,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write the runs.")] = Path(
        "runs/repeats"
    ),
    evaluate: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluate", metavar="TASK[:OPTION=VALUE,...]", help="Also evaluate every run on this task."
        ),
    ] = None,
    heuristics: Annotated[
        bool, typer.Option("--heuristics", help="Include heuristic baselines on the same data.")
    ] = False,
    device: Device = "auto",
    at_once: AtOnce = 1,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Train recipes with several seeds and print the mean results.

    Finished runs are kept and interrupted runs are resumed: after Ctrl-C, repeat the command to continue.
    """
    from contig.cli import tables
    from contig.experiments.evaluations import EvaluationSpec, evaluated, with_evaluations
    from contig.experiments.jobs import plan, runs_in
    from contig.experiments.recipes import heuristics_for, identified, read_recipes
    from contig.experiments.rows import collect

    specs = [EvaluationSpec.parse(text) for text in dict.fromkeys(evaluate or [])]
    given = [recipe for path in recipes for recipe in read_recipes(path)]
    chosen = identified([*given, *heuristics_for(given)] if heuristics else given)
    jobs = [job for recipe in chosen for job in plan([recipe], seeds, runs_in(out))]
    use_folder(ctx, out, wait)
    failures = run_with_progress("runs", with_evaluations(jobs, specs), device, at_once)
    rows = collect(jobs, failures)
    others = {str(spec): evaluated(rows, jobs, spec) for spec in specs}
    if json:
        found = [row.as_dict() for row in rows]
        beside = {name: [row.as_dict() for row in found] for name, found in others.items()}
        console.print_json({"runs": found, "evaluations": beside} if specs else found)
    else:
        tables.show(tables.repeat_table(rows))
        console.out().print("  per-batch AP and AUC on the test events, %, mean ± standard deviation")
        for name, evaluated_rows in others.items():
            tables.show_evaluations(name, evaluated_rows)
    report_failures(tables.failures(rows) + tables.evaluation_failures(failures))


# --- compare -----------------------------------------------------------------------------------------


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig compare collegemsg", "every model, three seeds"),
        ("contig compare mooc wikipedia --models contig,tgn", "two models on two datasets"),
        ("contig compare visits.csv --src who --time when", "a file, its columns"),
        ("contig compare mooc --set dim=64 --set tgn.lr=1e-3", "options of all, of one"),
        ("contig compare mooc --at-once 9 --device cuda", "in parallel on a GPU"),
    ),
)
@data.reads_events
def compare(
    ctx: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...", show_default=False, help="Files of events or names of datasets, as for train."
        ),
    ],
    models: Annotated[
        str, typer.Option("--models", metavar="NAME,NAME", help="Comma-separated models, or all.")
    ] = "all",
    seeds: Seeds = 3,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where to write the runs and the results.")
    ] = Path("runs/compare"),
    device: Device = "auto",
    at_once: AtOnce = 1,
    epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", help="Maximum number of epochs.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[MODEL.]KEY=VALUE",
            help="An option of one model, or of all models that have it, or of training.",
        ),
    ] = None,
    heuristics: Annotated[
        bool, typer.Option("--heuristics/--no-heuristics", help="Include heuristic baselines.")
    ] = True,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table to this CSV file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PATH.png", help="Also draw it here (png, svg or pdf).")
    ] = None,
    wait: Wait = False,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Train models on the same events with several seeds, and compare their results and costs.

    The results are written to FOLDER as compare.txt, .csv, .json and .png.

    Finished runs are kept and interrupted runs are resumed: after Ctrl-C, repeat the command to continue.
    """
    from contig.cli import tables
    from contig.experiments.comparisons import plan_comparison, save
    from contig.experiments.jobs import runs_in
    from contig.experiments.lineups import choose_models
    from contig.options import parse_settings

    outputs.check_file("--csv", csv)
    outputs.check_figure("--plot", plot)
    names = choose_models(models, heuristics)
    chosen = parse_settings(settings or []) | ({} if epochs is None else {"epochs": str(epochs)})
    planned = [
        plan_comparison(file, data.read_stream(file, reading), names, chosen, seeds, runs_in(out), reading)
        for file in dict.fromkeys(files)
    ]
    use_folder(ctx, out, wait)
    comparisons = _train(planned, device, at_once)
    if json:  # before anything is written, so that a full disk does not lose it
        console.print_json([one.as_dict() for one in comparisons])
    else:
        for one in comparisons:
            tables.show_comparison(one)
    figure = save(comparisons, out, "\n".join(map(tables.comparison_text, comparisons)))
    rows = [row for one in comparisons for row in one.rows]
    if csv is not None:
        from contig.experiments.rows import write_csv

        with outputs.writing(csv):
            write_csv(rows, csv)
    if plot is not None:
        _write_figure(figure, plot)
    console.notice(f"wrote {out / 'compare.txt'}, .csv, .json{'' if figure is None else ' and .png'}")
    report_failures(tables.failures(rows))


def _train(planned: Sequence[PlannedComparison], device: str, at_once: int) -> list[Comparison]:
    """Train what is missing and gather the results of each stream."""
    from contig.experiments.jobs import as_chains

    jobs = [job for one in planned for job in one.jobs]
    shared = 1 if all(job.done for job in jobs) else at_once  # how earlier runs were trained is not known
    failed = run_with_progress("runs", as_chains(jobs), device, at_once)
    return [one.collect(failed, shared) for one in planned]


def _write_figure(figure: Figure | None, path: Path) -> None:
    from contig import plots

    if figure is None:
        console.notice(f"{path} was not drawn: no run is finished on one of the streams")
        return
    with outputs.writing(path):
        plots.save(figure, path)
