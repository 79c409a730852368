"""Tables of what came out of many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from contig.cli import console

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from contig.experiments.rows import Row


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _bytes(number: float) -> str:
    return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:,.0f} MB"


class Column(NamedTuple):
    """A number of each row, how it is written, and which of them is the best."""

    heading: str
    value: Callable[[Row], float]
    written: Callable[[float], str] = _count
    best: Callable[[Iterable[float]], float] | None = None
    spread: Callable[[Row], float] = lambda row: nan
    rules_compete: bool = False  # a rule learns at no cost, which is no merit

    def cell(self, row: Row, rivals: Sequence[Row]) -> str:
        value, spread = self.value(row), self.spread(row)
        if isnan(value):
            return "-"
        text = self.written(value) + ("" if isnan(spread) else f" ± {self.written(spread)}")
        return f"[bold]{text}[/bold]" if self._is_best(row, rivals) else text

    def _is_best(self, row: Row, rivals: Sequence[Row]) -> bool:
        """Whether nobody is better by what can be read, of two or more."""
        field = [one for one in rivals if self.rules_compete or one.learns]
        known = [x for one in field if not isnan(x := self.value(one))]
        if self.best is None or row not in field or len(known) < 2:
            return False
        return self.written(self.value(row)) == self.written(self.best(known))


def _quality(heading: str, selection: str, measure: str) -> Column:
    def mean(row: Row) -> float:
        return float(getattr(row, selection)[measure].mean)

    def std(row: Row) -> float:
        return float(getattr(row, selection)[measure].std)

    return Column(heading, mean, _percent, max, std, rules_compete=True)


QUALITY = (
    _quality("AP trans.", "transductive", "ap"),
    _quality("AP ind.", "inductive", "ap"),
    _quality("AUC trans.", "transductive", "auc"),
    _quality("AUC ind.", "inductive", "auc"),
)
COST = (
    Column("parameters", lambda row: row.cost.parameters),
    Column("train ev/s", lambda row: row.cost.train_speed, best=max),
    Column("score ev/s", lambda row: row.cost.score_speed, best=max),
    Column("peak memory", lambda row: row.cost.peak_memory, _bytes, best=min),
)
LENGTH = (
    Column("epochs", lambda row: row.cost.epochs),
    Column("s/epoch", lambda row: row.cost.epoch_seconds, lambda seconds: f"{seconds:.2f}"),
)


def comparison_table(rows: Sequence[Row], columns: Sequence[Column] = (*QUALITY, *COST)) -> Table:
    """A line for each model, the rules in a section of their own; the best of a column is bold."""
    table = console.new_table("model", *(column.heading for column in columns))
    rules = [row for row in rows if not row.learns]
    for row in rows:
        if rules and row is rules[0]:
            table.add_section()
            table.add_row("[dim]rules[/dim]")
        table.add_row(console.plain(row.label), *_cells(row, rows, columns))
    return table


def repeat_table(rows: Sequence[Row]) -> Table:
    """A line for each recipe; the best of a column is bold among those on the same data."""
    columns = (*QUALITY, *LENGTH)
    table = console.new_table("data", "model", "variant", "seeds", *(column.heading for column in columns))
    for column in table.columns[1:3]:
        column.justify = "left"
    for row in rows:
        recipe, rivals = row.recipe, [one for one in rows if one.recipe.data == row.recipe.data]
        names = map(console.plain, (recipe.data, recipe.model, recipe.variant, row.seeds))
        table.add_row(*names, *_cells(row, rivals, columns))
    return table


def _cells(row: Row, rivals: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    if not row.seeds:
        return ["[red]failed[/red]", *["-"] * (len(columns) - 1)]
    return [column.cell(row, rivals) for column in columns]


def failures(rows: Sequence[Row]) -> list[str]:
    """What went wrong, one line for each training; nothing where all went well."""
    return [
        f"{row.label} failed with seed {failure.job.seed}: {failure.reason} (all it said: {failure.job.log})"
        for row in rows
        for failure in row.failures
    ]


def as_text(block: RenderableType) -> str:
    """What a table or text looks like without colours, as wide as it needs to be."""
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=1000, color_system=None, highlight=False).print(block)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def show(whole: Table, parts: Sequence[Table] = ()) -> None:
    """Print a table; in ``parts`` where a terminal is too narrow for it."""
    text, out = as_text(whole), console.out()
    if not out.is_terminal:
        out.print(text, end="", soft_wrap=True, markup=False)
        return
    narrow = max(map(len, text.splitlines())) > out.width
    for table in parts if narrow and parts else [whole]:
        out.print(table)
