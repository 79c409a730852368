"""Tables of the results of many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from math import isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple

from contig.cli import console
from contig.wording import in_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from contig.experiments.comparisons import Comparison
    from contig.experiments.evaluations import EvaluatedRow
    from contig.experiments.jobs import Failure
    from contig.experiments.rows import Row
    from contig.tasks import ResultTable


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _seconds(number: float) -> str:
    return f"{number:.2f}"


class Column(NamedTuple):
    """A number of each row: how to format it, and which one is the best."""

    heading: str
    value: Callable[[Row], tuple[float, float]]  # the number, and its standard deviation
    format: Callable[[float], str] = _count
    best: Callable[[Iterable[float]], float] | None = None
    heuristics_compete: bool = False  # not in cost: training nothing is no achievement
    events: Callable[[Row], int] | None = None  # how many the number rests on

    def cell(self, row: Row, rivals: Sequence[Row]) -> str:
        from contig.tasks.tables import few_mark

        value, deviation = self.value(row)
        if isnan(value):
            return "-"
        text = self.format(value) + ("" if isnan(deviation) else f" ± {self.format(deviation)}")
        mark = "" if self.events is None else few_mark(self.events(row))
        return f"[bold]{text}[/bold]{mark}" if self._is_best(row, rivals) else f"{text}{mark}"

    def _is_best(self, row: Row, rivals: Sequence[Row]) -> bool:
        """Return whether no rival has a better number as it is printed; a single number is not the best."""
        competing = [one for one in rivals if self.heuristics_compete or one.learns]
        known = [x for one in competing if not isnan(x := self.value(one)[0])]
        if self.best is None or not any(one is row for one in competing) or len(known) < 2:
            return False
        return self.format(self.value(row)[0]) == self.format(self.best(known))


def _metric(heading: str, selection: str, metric: str) -> Column:
    return Column(
        heading,
        lambda row: row.selection(selection).each()[metric],
        _percent,
        max,
        heuristics_compete=True,
        events=lambda row: row.selection(selection).events,
    )


PRECISION = (
    _metric("AP trans.", "transductive", "ap"),
    _metric("AP ind. ours", "inductive", "ap"),
    _metric("AP ind. dyglib", "inductive_dyglib", "ap"),
)
AREA = (
    _metric("AUC trans.", "transductive", "auc"),
    _metric("AUC ind. ours", "inductive", "auc"),
    _metric("AUC ind. dyglib", "inductive_dyglib", "auc"),
)
METRICS = (*PRECISION, *AREA)
COST = (
    Column("parameters", lambda row: (row.cost.parameters, nan)),
    Column("train ev/s", lambda row: (row.cost.train_speed, nan), best=max),
    Column("score ev/s", lambda row: (row.cost.score_speed, nan), best=max),
    Column("peak memory", lambda row: (row.cost.peak_memory, nan), in_bytes, best=min),
)
DURATION = (
    Column("epochs", lambda row: (row.cost.epochs, nan)),
    Column("s/epoch", lambda row: (row.cost.epoch_seconds, nan), _seconds),
)


def comparison_table(rows: Sequence[Row], columns: Sequence[Column] = (*METRICS, *COST)) -> Table:
    """Return a line for each model, heuristics last; the best number of a column is bold."""
    table = console.new_table("model", *(column.heading for column in columns))
    heuristics = [row for row in rows if not row.learns]
    for row in rows:
        if heuristics and row is heuristics[0]:
            table.add_section()
            table.add_row("[dim]heuristics[/dim]")
        table.add_row(console.plain(row.label), *_cells(row, rows, columns))
    return table


def repeat_table(rows: Sequence[Row]) -> Table:
    """Return a line for each recipe; the best number of a column among recipes on the same data is bold."""
    columns = (*METRICS, *DURATION)
    table = console.new_table("data", "model", "variant", "seeds", *(column.heading for column in columns))
    for column in table.columns[1:3]:
        column.justify = "left"
    for row in rows:
        recipe, rivals = row.recipe, [one for one in rows if one.recipe.data == row.recipe.data]
        names = map(console.plain, (recipe.data, row.model, recipe.variant, row.seeds))
        table.add_row(*names, *_cells(row, rivals, columns))
    return table


def evaluation_table(rows: Sequence[EvaluatedRow]) -> Table:
    """Return a line for each recipe with a task's metric; the best number on the same data is bold."""
    selections = list(dict.fromkeys(name for row in rows for name in row.spreads))
    table = console.new_table("data", "model", "variant", "seeds", *selections)
    for column in table.columns[1:3]:
        column.justify = "left"
    for one in rows:
        rivals = [other for other in rows if other.row.recipe.data == one.row.recipe.data]
        names = (one.row.recipe.data, one.row.model, one.row.recipe.variant, one.seeds)
        cells = [_spread_cell(one, rivals, name) for name in selections]
        table.add_row(*map(console.plain, names), *cells)
    return table


def _spread_cell(one: EvaluatedRow, rivals: Sequence[EvaluatedRow], name: str) -> str:
    known = [row.spreads[name].mean for row in rivals if name in row.spreads]
    spread = one.spreads.get(name)
    if spread is None or isnan(spread.mean):
        return "-"
    text = _percent(spread.mean) + ("" if isnan(spread.std) else f" ± {_percent(spread.std)}")
    best = max((x for x in known if not isnan(x)), default=nan)
    return f"[bold]{text}[/bold]" if len(known) > 1 and _percent(best) == _percent(spread.mean) else text


def _cells(row: Row, rivals: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    if not row.results:
        return ["[red]failed[/red]", *["-"] * (len(columns) - 1)]
    return [column.cell(row, rivals) for column in columns]


def failures(rows: Sequence[Row]) -> list[str]:
    """Return a line for each run that failed."""
    return [
        f"{row.label} failed with seed {failure.job.seed}: {failure.reason} (full log: {failure.job.log})"
        for row in rows
        for failure in row.failures
    ]


def evaluation_failures(failed: Sequence[Failure[Any]]) -> list[str]:
    """Return a line for each evaluation that failed."""
    from contig.experiments.evaluations import Evaluation

    return [
        f"{failure.job.name} failed: {failure.reason} (full log: {failure.job.log})"
        for failure in failed
        if isinstance(failure.job, Evaluation)
    ]


# --- printing ----------------------------------------------------------------------------------------


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison as plain text: title, table, notes and failures."""
    table = as_text(comparison_table(comparison.rows))
    lines = [f"  {line}\n" for line in (*comparison.notes(), *failures(comparison.rows))]
    return "".join([f"{comparison.title}\n", table, *lines, *_task_text(comparison)])


def _task_text(comparison: Comparison) -> list[str]:
    """Return the table of the task that was evaluated in addition, with its notes."""
    table = comparison.task_table()
    if table is None:
        return []
    return ["\n", as_text(rich_table(table)), *(f"  {note}\n" for note in table.notes)]


def rich_table(table: ResultTable) -> Table:
    """Render a table of results for the terminal."""
    first, *others = table.headings
    rendered = console.new_table(first, *others)
    for column in rendered.columns[: table.names]:
        column.justify = "left"
    for row in table.rows:
        rendered.add_row(*map(console.plain, row))
    return rendered


def show_comparison(comparison: Comparison) -> None:
    """Print a comparison: title, table and notes."""
    console.out().print(f"\n[bold]{console.plain(comparison.title)}[/bold]")
    parts = [comparison_table(comparison.rows, columns) for columns in (PRECISION, AREA, COST)]
    show(comparison_table(comparison.rows), parts)
    for note in comparison.notes():
        console.print_note(note, style="dim")


def show_evaluations(name: str, rows: Sequence[EvaluatedRow]) -> None:
    """Print the metric of a task over seeds, with the protocol."""
    if not rows:
        return
    console.out().print(f"\n[bold]{console.plain(name)}[/bold]")
    show(evaluation_table(rows))
    console.print_note(f"{rows[0].metric} on the test events, %, mean ± standard deviation")


def as_text(block: RenderableType) -> str:
    """Render a table or text without colors, as wide as it needs to be."""
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=1000, color_system=None, highlight=False).print(block)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def show(whole: Table, parts: Sequence[Table] = ()) -> None:
    """Print a table, in ``parts`` where the terminal is too narrow for it; no cell is ever cut."""
    text, out = as_text(whole), console.out()
    if not out.is_terminal:
        out.print(text, end="", soft_wrap=True, markup=False)
        return
    needed = max(map(len, text.splitlines()))
    if parts and needed > out.width:
        for table in parts:
            show(table)
    else:
        out.print(whole, width=max(needed, out.width), crop=False)
