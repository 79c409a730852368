"""Results on the terminal: the table of a task and the notes that explain it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from contig.cli import console, tables

if TYPE_CHECKING:
    from contig.runs.evaluation_periods import EvaluationPeriod
    from contig.runs.run import Run
    from contig.tasks import Evaluation, ResultTable, Task
    from contig.tasks.baselines import Loss
    from contig.tasks.results import R

Evaluations = dict[str, "Evaluation[Any]"]


def print_evaluation(
    task: Task[Any, R], evaluation: Evaluation[R], heuristics: Evaluations, lost: Sequence[Loss]
) -> None:
    """Print the result of a task, next to those of heuristics."""
    from contig.data.splits import DEFAULT_DESCRIPTION
    from contig.models import model_label

    facts, protocol = evaluation.facts, evaluation.result.protocol
    table = evaluation_table(task, evaluation, heuristics)
    tables.show(tables.rich_table(table))
    about = f"batch size {facts.batch_size:,}, holdout {protocol.holdout}"
    print_notes((*table.notes, about, *task.notes(evaluation)))
    if protocol.split != DEFAULT_DESCRIPTION:
        print_notes((f"split: {protocol.split}",))
    print_losses(model_label(facts.model), lost)


def evaluation_table(task: Task[Any, R], evaluation: Evaluation[R], heuristics: Evaluations) -> ResultTable:
    """Return the table of a task's results: a model's, and those of heuristics."""
    from contig.models import model_label

    measured = (evaluation, *heuristics.values())
    return task.table({model_label(one.facts.model): one.result for one in measured})


def print_notes(notes: Sequence[str]) -> None:
    """Print what explains a table."""
    for note in notes:
        console.print_note(note)


def print_losses(model: str, lost: Sequence[Loss]) -> None:
    """Print where a model loses to a heuristic."""
    for loss in lost:
        console.print_note(loss.text(model), style="bold red")


def measure_heuristics(
    run: Run,
    task: Task[Any, Any],
    wanted: bool,
    batch_size: int | None = None,
    period: EvaluationPeriod | None = None,
) -> Evaluations:
    """Measure heuristics next to a learned model, where the task can measure them."""
    if not (wanted and task.scores_heuristics() and run.model.learns):
        return {}
    with console.status("testing heuristics"):
        return run.evaluate_heuristics(task, data=period, batch_size=batch_size, show=False)


def losses(
    run: Run, task: type[Task[Any, Any]], evaluation: Evaluation[Any], heuristics: Evaluations
) -> list[Loss]:
    """Find where a run's model loses to a heuristic."""
    from contig.tasks import baselines

    others = {name: one.result for name, one in heuristics.items()}
    return baselines.losses(task, evaluation.result, others, inductive=run.model.inductive)


def heuristics_json(heuristics: Evaluations, lost: Sequence[Loss]) -> dict[str, Any]:
    """Return what JSON output adds about heuristics; nothing if they were not tested."""
    if not heuristics:
        return {}
    return {
        "heuristics": {name: one.as_dict() for name, one in heuristics.items()},
        "loses_to": [loss.as_dict() for loss in lost],
    }
