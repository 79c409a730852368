"""Results on the terminal: the table of a task and the notes that explain it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contig.cli import console

if TYPE_CHECKING:
    from rich.table import Table

    from contig.tasks import Evaluation, ResultTable, Task
    from contig.tasks.results import R


def print_evaluation(task: Task[Any, R], evaluation: Evaluation[R]) -> None:
    """Print the result of a task."""
    facts, holdout = evaluation.facts, evaluation.result.protocol.holdout
    table = task.table({facts.model: evaluation.result})
    console.out().print(rich_table(table))
    for note in (*table.notes, f"batch size {facts.batch_size:,}, holdout {holdout}"):
        console.out().print(f"  {note}", markup=False)


def rich_table(table: ResultTable) -> Table:
    """Render a table for the terminal."""
    first, *others = table.headings
    rendered = console.new_table(first, *others)
    for column in rendered.columns[: table.names]:
        column.justify = "left"
    for row in table.rows:
        rendered.add_row(*map(console.plain, row))
    return rendered
