"""Tables of numbers beside the paper's, written as text, Markdown, LaTeX, CSV and HTML.

Every form but CSV shows the same cells: of each measure what was found here and, where the paper has it,
the paper's number and the difference. CSV has a line for each number, as exact as it is, or for each line of
words.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from math import isnan, nan
from typing import Any, NamedTuple, Protocol

from contig.experiments.rows import Spread
from contig.reproduction.paper import MISSING

NOTHING = "-"
DELTA = "Δ"


class Value(NamedTuple):
    """One number in the unit it is printed in, beside the paper's; NaN stands for what there is not."""

    here: Spread = MISSING
    paper: Spread = MISSING
    seeds: int = 0

    @property
    def difference(self) -> float:
        return self.here.mean - self.paper.mean

    @property
    def verdict(self) -> str:
        """``up`` or ``down`` from the paper's; ``even`` where both deviations together cover it."""
        spread = sum(0.0 if isnan(s.std) else s.std for s in (self.here, self.paper))
        if isnan(self.difference):
            return ""
        return "even" if abs(self.difference) <= spread else "up" if self.difference > 0 else "down"


class Line(NamedTuple):
    """The numbers of one model, variant or size."""

    label: str
    values: tuple[Value, ...]
    section: str = ""


class Cell(NamedTuple):
    """What stands in one place of a table, and how: best, paper, up, down, even or plain."""

    text: str
    kind: str = ""


RULES = "rules"  # stand in a section beside, and compete all the same


def _task(section: str) -> str:
    return section.removesuffix(RULES).removesuffix(", ")


class Part(Protocol):
    """What a sheet is made of."""

    @property
    def title(self) -> str: ...

    @property
    def of_words(self) -> bool: ...

    def head(self) -> list[str]:
        """What stands above the columns, the first above the labels."""

    def body(self) -> Iterator[tuple[str, str, list[Cell]]]:
        """Section, label and cells of each line."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Everything in it for programs; None for a number there is not."""


@dataclass(frozen=True)
class Grid:
    """A part that holds numbers: one stream's, as a rule."""

    title: str
    corner: str  # heads the labels
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    digits: tuple[int, ...] = ()  # of each column; 2 unless said
    rank: bool = False  # whether the highest of a section is marked
    signed: bool = False  # whether the numbers are differences
    judged: bool = True  # whether more than the paper's is better
    of_words = False

    def head(self) -> list[str]:
        parts = [[c, "paper", DELTA] if self._beside(i) else [c] for i, c in enumerate(self.columns)]
        return [self.corner, *(name for part in parts for name in part)]

    def body(self) -> Iterator[tuple[str, str, list[Cell]]]:
        for line in self.lines:
            cells = [cell for i in range(len(self.columns)) for cell in self._cells(line, i)]
            yield line.section, line.label, cells

    def _beside(self, column: int) -> bool:
        return any(not isnan(line.values[column].paper.mean) for line in self.lines)

    def _cells(self, line: Line, column: int) -> Iterator[Cell]:
        value, digits = line.values[column], self.digits[column] if self.digits else 2
        best = "best" if self._is_best(line, column) else ""
        yield Cell(_written(value.here, digits, self.signed), best)
        if self._beside(column):
            yield Cell(_written(value.paper, digits, self.signed), "paper")
            verdict = value.verdict if self.judged else ""
            yield Cell(_written(Spread(value.difference, nan), digits, signed=True), verdict)

    def _is_best(self, line: Line, column: int) -> bool:
        task = _task(line.section)
        rivals = [x.values[column].here.mean for x in self.lines if _task(x.section) == task]
        known = [x for x in rivals if not isnan(x)]
        return self.rank and len(known) > 1 and line.values[column].here.mean == max(known)

    def records(self) -> Iterator[dict[str, Any]]:
        for line in self.lines:
            for column, value in zip(self.columns, line.values, strict=True):
                told = {
                    **{"here": value.here.mean, "here_std": value.here.std, "seeds": value.seeds},
                    **{"paper": value.paper.mean, "paper_std": value.paper.std},
                    "difference": value.difference,
                }
                known = {name: None if isnan(x) else x for name, x in told.items()}
                yield {"section": line.section, "label": line.label, "measure": column, **known}


@dataclass(frozen=True)
class Words:
    """A part that holds words: section, label and cells of each line."""

    title: str
    corner: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, str, tuple[Cell, ...]], ...]
    of_words = True

    def head(self) -> list[str]:
        return [self.corner, *self.columns]

    def body(self) -> Iterator[tuple[str, str, list[Cell]]]:
        return ((section, label, list(cells)) for section, label, cells in self.lines)

    def records(self) -> Iterator[dict[str, Any]]:
        for section, label, cells in self.lines:
            told = {name: cell.text for name, cell in zip(self.columns, cells, strict=True)}
            yield {"section": section, "label": label, **told}


@dataclass(frozen=True)
class Sheet:
    """Parts with a title, and with what must be said of them."""

    name: str  # table2
    title: str
    grids: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    warning: str = ""  # that this is not the real thing

    def lines(self) -> Iterator[dict[str, Any]]:
        """Everything in it for programs."""
        for grid in self.grids:
            for record in grid.records():
                scale = "quick" if self.warning else "full"
                yield {"item": self.name, "part": grid.title, **record, "scale": scale}


@dataclass(frozen=True)
class Table(Sheet):
    """All grids of one of the paper's tables or figures."""

    grids: tuple[Grid, ...]


def _written(spread: Spread, digits: int, signed: bool = False) -> str:
    if isnan(spread.mean):
        return NOTHING
    deviation = "" if isnan(spread.std) else f" ± {spread.std:.{digits}f}"
    mean = round(spread.mean, digits) + 0.0  # no -0.00
    return f"{mean:{'+' if signed else ''},.{digits}f}{deviation}"


# --- plain text --------------------------------------------------------------------------------------


def as_text(table: Sheet) -> str:
    """Aligned columns for a terminal."""
    parts = [f"{table.title}\n", *([f"{table.warning}\n"] if table.warning else [])]
    for grid in table.grids:
        parts += [f"\n{grid.title}\n", _aligned(grid)]
    notes = [f"  {note}\n" for note in table.notes]
    return "".join([*parts, *(["\n"] if notes else []), *notes])


def _aligned(grid: Part) -> str:
    rows = [(section, [label, *(cell.text for cell in cells)]) for section, label, cells in grid.body()]
    head = grid.head()
    wide = [max(map(len, column)) for column in zip(head, *(row for _, row in rows), strict=True)]

    def line(cells: Sequence[str]) -> str:
        align = str.ljust if grid.of_words else str.rjust
        rest = [align(cell, width) for cell, width in zip(cells[1:], wide[1:], strict=True)]
        return "  ".join([f"  {cells[0].ljust(wide[0])}", *rest]).rstrip() + "\n"

    text, before = [line(head), "  " + "─" * (sum(wide) + 2 * len(wide) - 2) + "\n"], ""
    for section, row in rows:
        if section != before:
            text.append(f"  {section}\n")
            before = section
        text.append(line(row))
    return "".join(text)


# --- Markdown ----------------------------------------------------------------------------------------


def as_markdown(table: Sheet) -> str:
    """A Markdown table for each grid; the best is bold."""
    parts = [f"# {table.title}\n"] + ([f"\n**{table.warning}**\n"] if table.warning else [])
    for grid in table.grids:
        head, side = grid.head(), "---" if grid.of_words else "---:"
        parts += [f"\n## {grid.title}\n\n", _bar(head), _bar(["---", *[side] * (len(head) - 1)])]
        for section, label, cells in grid.body():
            parts.append(_bar([_joined(section, label), *(_bold(cell, "**{}**") for cell in cells)]))
    bold = ["Bold: the best of all."] if any("best" in _kinds(grid) for grid in table.grids) else []
    return "".join([*parts, *(f"\n{note}\n" for note in (*table.notes, *bold))])


def _kinds(grid: Part) -> set[str]:
    return {cell.kind for _, _, cells in grid.body() for cell in cells}


def _bar(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _joined(section: str, label: str) -> str:
    return f"{section}: {label}" if section else label


def _bold(cell: Cell, form: str) -> str:
    return form.format(cell.text) if cell.kind == "best" else cell.text


# --- LaTeX -------------------------------------------------------------------------------------------

_TEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}"}
_TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"±": r"$\pm$", DELTA: r"$\Delta$"}


def tex(text: str) -> str:
    """Text as LaTeX wants it."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def as_latex(table: Sheet) -> str:
    """A ``tabular`` for each grid in a ``table``, for a document that loads booktabs."""
    parts = [f"% {table.title}\n"] + ([f"% {table.warning}\n"] if table.warning else [])
    for grid in table.grids:
        head, side = grid.head(), "l" if grid.of_words else "r"
        caption = " ".join(filter(None, [f"{table.title}: {grid.title}.", table.warning]))
        parts += ["\\begin{table}\n\\centering\n", f"\\caption{{{tex(caption)}}}\n"]
        parts += [f"\\begin{{tabular}}{{l{side * (len(head) - 1)}}}\n\\toprule\n", _row(map(tex, head))]
        parts.append("\\midrule\n")
        for section, label, cells in grid.body():
            written = [_bold(Cell(tex(cell.text), cell.kind), "\\textbf{{{}}}") for cell in cells]
            parts.append(_row([tex(_joined(section, label)), *written]))
        parts.append("\\bottomrule\n\\end{tabular}\n\\end{table}\n")
    return "".join([*parts, *(f"% {note}\n" for note in table.notes)])


def _row(cells: Any) -> str:
    return " & ".join(cells) + " \\\\\n"


# --- CSV ---------------------------------------------------------------------------------------------


def as_csv(table: Sheet) -> str:
    """A line for each number with the paper's, or for each line of words."""
    file = StringIO()
    lines = list(table.lines())
    writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


# --- HTML --------------------------------------------------------------------------------------------


def as_html(grid: Part) -> str:
    """One grid as a ``table`` element; the cells carry their kind as a class."""
    head = "".join(f"<th>{escape(name)}</th>" for name in grid.head())
    kind = ' class="words"' if grid.of_words else ""
    caption = f"<caption>{escape(grid.title)}</caption>"
    parts, before = [f"<table{kind}>{caption}<thead><tr>{head}</tr></thead><tbody>"], ""
    for section, label, cells in grid.body():
        if section != before:
            parts.append(f'<tr class="section"><th colspan="{len(cells) + 1}">{escape(section)}</th></tr>')
            before = section
        columns = "".join(_cell(cell) for cell in cells)
        parts.append(f"<tr><th>{escape(label)}</th>{columns}</tr>")
    return "".join([*parts, "</tbody></table>"])


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    return f"<td{kind}>{escape(cell.text)}</td>"


FORMS: dict[str, Callable[[Sheet], str]] = {
    "txt": as_text,
    "md": as_markdown,
    "tex": as_latex,
    "csv": as_csv,
}


def slug(text: str) -> str:
    """Text as part of an address or a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def percent(spread: Spread) -> Spread:
    """Shares as per cent."""
    return Spread(100 * spread.mean, 100 * spread.std)


def plain(number: float) -> Spread:
    """A number without a deviation."""
    return Spread(number, nan)
