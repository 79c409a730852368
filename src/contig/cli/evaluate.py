"""The command that measures a trained run: ``evaluate``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, latex, outputs, results
from contig.cli.data import NEW_EVENT_OPTIONS, Json, reads_events
from contig.cli.folders import Device, Folder, Heuristics, open_run
from contig.cli.repeated import Repeated, parse_known_policy
from contig.cli.task_options import TaskCommand, chosen_task
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from contig.runs.evaluation_periods import EvaluationPeriod, EventEvaluation
    from contig.runs.repeated_events import KnownPolicy
    from contig.runs.run import Run

app = typer.Typer()

FORMATS = (".json", *outputs.TABLES)

TaskName = Annotated[str, typer.Option("--task", metavar="TASK", help="What to measure.")]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE",
        show_default="the test events of the run",
        help="Later events to evaluate instead; new nodes are allowed.",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size", metavar="N", min=1, show_default="as in training", help="Events scored at once."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write a prediction for each event (.csv, .parquet, .arrow), or the result with them (.json).",
    ),
]


@app.command(
    cls=TaskCommand,
    epilog=console.examples(
        ("contig evaluate runs/first", "as after training"),
        ("contig evaluate runs/first --negatives historical", "harder negatives"),
        ("contig evaluate runs/first --task recommend", "rank destinations"),
        ("contig evaluate runs/first --task recommend --as-of batch", "much faster"),
        ("contig evaluate runs/first --task classify", "predict labels"),
        ("contig evaluate runs/first --data june.csv --out p.csv", "later events"),
        ("contig evaluate runs/first --no-heuristics --json", "for programs"),
    ),
)
@partial(reads_events, names=NEW_EVENT_OPTIONS)
def evaluate(
    ctx: typer.Context,
    run: Folder,
    task: TaskName = "link",
    data: Data = None,
    repeated: Repeated = "reject",
    batch_size: BatchSize = None,
    out: Out = None,
    latex_file: latex.LatexFile = None,
    heuristics: Heuristics = True,
    device: Device = "auto",
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Evaluate a trained run on its test events, or on later ones.

    AP and AUC are means over batches, as in published tables; "all" is over all events at once. Later events
    are scored batch by batch and observed, as a test period is; the run does not change.
    """
    outputs.check_file("--out", out, *FORMATS, inputs=[data])
    latex.check_file(latex_file)
    chosen = chosen_task(ctx, task)
    policy, trained = parse_known_policy(repeated), open_run(run, device)
    period = _period(trained, data, reading, policy)
    measured = trained.evaluate_each(chosen, data=period, batch_size=batch_size)
    evaluation = measured.evaluation
    others = results.measure_heuristics(trained, chosen, heuristics, batch_size, period)
    lost = results.losses(trained, type(chosen), evaluation, others)
    if json:  # before it is written, so that a full disk does not lose it
        console.print_json({**evaluation.as_dict(), **results.heuristics_json(others, lost)})
    else:
        results.print_evaluation(chosen, evaluation, others, lost)
    if out is not None:
        _write(trained, measured, out)
    if latex_file is not None:
        table = results.evaluation_table(chosen, evaluation, others)
        latex.write(latex_file, {f"{evaluation.facts.data.origin}, {chosen.name}": table})


def _period(run: Run, data: str | None, reading: ReadOptions, repeated: KnownPolicy) -> EvaluationPeriod:
    """Return what to evaluate; options of reading need a file."""
    given = reading.as_dict()
    if data is None and given:
        raise ConfigError(f"{next(iter(given))} is an option for reading a file; name the file with --data.")
    with console.status("reading the events" if data is None else f"reading {data}"):
        return run.evaluation_period(data, reading, repeated)


def _write(run: Run, measured: EventEvaluation, path: Path) -> None:
    """Write the predictions as a table, or together with the result as JSON."""
    from contig.files import write_json

    table = outputs.with_times_of(run, measured.table(), path)
    with outputs.writing(path, counted(len(table), "prediction")):
        if path.suffix == ".json":
            write_json(path, {**measured.evaluation.as_dict(), "predictions": table.to_pylist()})
        else:
            outputs.write_table(path, table)
