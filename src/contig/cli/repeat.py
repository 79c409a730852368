"""The command that trains recipes with several seeds: ``repeat``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.jobs import AtOnce, Devices, OnlyDone, PartOption, Seeds, Sweep, Wait, report_failures

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig repeat collegemsg pair/collegemsg", "three seeds"),
        ("contig repeat mine/*.json --at-once 9 --device cuda", "in parallel on a GPU"),
        ("contig repeat mine/*.json --device cuda:0,cuda:1", "on two GPUs"),
        ("contig repeat mine/*.json --part 2/3", "on host 2 of 3"),
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
    device: Devices = "auto",
    at_once: AtOnce = None,
    part: PartOption = None,
    only_done: OnlyDone = False,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Train recipes with several seeds and print the mean results.

    Finished runs are kept and interrupted runs are resumed: after Ctrl-C, repeat the command to continue.
    """
    from contig.cli import tables
    from contig.experiments.comparisons import few_events_notes
    from contig.experiments.evaluations import EvaluationSpec, evaluated, with_evaluations
    from contig.experiments.jobs import plan, runs_in
    from contig.experiments.recipes import heuristics_for, identified, read_recipes
    from contig.experiments.rows import collect

    sweep = Sweep.of(device, at_once, part, only_done)
    specs = [EvaluationSpec.parse(text) for text in dict.fromkeys(evaluate or [])]
    given = [recipe for path in recipes for recipe in read_recipes(path)]
    chosen = identified([*given, *heuristics_for(given)] if heuristics else given)
    jobs = [job for recipe in chosen for job in plan([recipe], seeds, runs_in(out))]
    sweep.use_folder(ctx, out, wait)
    failures = sweep.run("runs", with_evaluations(jobs, specs))
    sweep.end_part(failures)
    rows = collect(jobs, failures)
    others = {str(spec): evaluated(rows, jobs, spec) for spec in specs}
    if json:
        found = [row.as_dict() for row in rows]
        beside = {name: [row.as_dict() for row in found] for name, found in others.items()}
        console.print_json({"runs": found, "evaluations": beside} if specs else found)
    else:
        tables.show(tables.repeat_table(rows))
        console.print_note("per-batch AP and AUC on the test events, %, mean ± standard deviation")
        for note in few_events_notes(rows):
            console.print_note(note)
        for name, evaluated_rows in others.items():
            tables.show_evaluations(name, evaluated_rows)
    report_failures(tables.failures(rows) + tables.evaluation_failures(failures))
