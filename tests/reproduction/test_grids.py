"""Tables say the same in every form, and what is written can be read back."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from io import StringIO
from math import isnan, nan

import pytest

from contig.experiments.rows import Spread
from contig.reproduction.grids import (
    Cell,
    Grid,
    Line,
    Sheet,
    Table,
    Value,
    Words,
    as_csv,
    as_html,
    as_latex,
    as_markdown,
    as_text,
    slug,
    tex,
)

FULL = Value(Spread(94.08, 0.034), Spread(90.54, 1.2), 3)
ALONE = Value(Spread(88.125, nan), seeds=1)
GRID = Grid(
    "mooc_1 & more, 5%",
    "model",
    ("AUC", "MRR"),
    (
        Line("contig", (FULL, ALONE), "transductive"),
        Line("edge|bank", (Value(Spread(91.0, nan), seeds=1), Value()), "transductive, rules"),
        Line("contig", (Value(paper=Spread(85.37, nan)), Value(Spread(-3.5, 0.1), seeds=2)), "inductive"),
    ),
    rank=True,
)
TABLE = Table("table2", "Table 2: link_prediction", (GRID, GRID), ("One # note.",), "QUICK: small")
HEAD = ["model", "AUC", "paper", "Δ", "MRR"]
ROWS = [
    ["transductive: contig", "94.08 ± 0.03", "90.54 ± 1.20", "+3.54", "88.12"],
    ["transductive, rules: edge|bank", "91.00", "-", "-", "-"],
    ["inductive: contig", "-", "85.37", "-", "-3.50 ± 0.10"],
]


def test_the_paper_stands_beside_where_it_has_the_measure() -> None:
    assert GRID.head() == HEAD
    kinds = [[cell.kind for cell in cells] for _, _, cells in GRID.body()]
    assert kinds == [["best", "paper", "up", ""], ["", "paper", "", ""], ["", "paper", "", ""]]


@pytest.mark.parametrize(
    ("here", "paper", "verdict"),
    [
        ((90.0, 0.5), (90.9, 0.5), "even"),
        ((90.0, 0.5), (91.1, 0.5), "down"),
        ((91.1, nan), (91.0, nan), "up"),
        ((90.0, nan), (90.0, nan), "even"),
        ((nan, nan), (90.0, nan), ""),
    ],
)
def test_verdicts(here: tuple[float, float], paper: tuple[float, float], verdict: str) -> None:
    assert Value(Spread(*here), Spread(*paper)).verdict == verdict


def test_rules_compete_for_the_best_place_wherever_they_stand() -> None:
    for task in ("", "inductive"):
        lines = tuple(
            Line(name, (Value(Spread(x, nan), seeds=1),), section)
            for name, x, section in (
                ("a", 1, task),
                ("b", 2, f"{task}, rules".removeprefix(", ")),
                ("c", 3, "other"),
            )
        )
        kinds = [cells[0].kind for _, _, cells in Grid("", "", ("x",), lines, rank=True).body()]
        assert kinds == ["", "best", ""]


def test_where_more_is_not_better_nothing_is_up_or_down() -> None:
    value = Value(Spread(1.2, 0.1), Spread(1.0, nan), 1)
    kinds = []
    for judged in (True, False):
        [(_, _, cells)] = Grid("", "", ("x",), (Line("", (value,)),), judged=judged).body()
        kinds.append(cells[2].kind)
    assert kinds == ["up", ""]


def test_differences_have_a_sign_and_nothing_is_less_than_nothing() -> None:
    values = tuple(Value(Spread(x, nan), Spread(x, nan), 1) for x in (0.25, -0.25, -0.001))
    grid = Grid("lead", "", ("a", "b", "c"), (Line("x", values),), signed=True)
    [(_, _, cells)] = grid.body()
    for side in (cells[::3], cells[1::3]):
        assert [cell.text for cell in side] == ["+0.25", "-0.25", "+0.00"]
    assert {cell.text for cell in cells[2::3]} == {"+0.00"}


SHEET = Sheet(
    "claims",
    "Claims",
    (Words("all_1", "where", ("paper", "here"), (("one", "x|y", (Cell("a & b", "up"), Cell("<c>"))),)),),
    ("A note.",),
)


def test_words_stand_in_every_form() -> None:
    assert "| one: x\\|y | a & b | <c> |" in as_markdown(SHEET)
    assert "| --- | --- | --- |" in as_markdown(SHEET)
    assert r"one: x|y & a \& b & <c> \\" in as_latex(SHEET)
    assert r"\begin{tabular}{lll}" in as_latex(SHEET)
    top, _, section, line = as_text(SHEET).splitlines()[3:7]
    assert (section.strip(), top.rindex("here")) == ("one", line.index("<c>"))  # aligned at the left
    [row] = csv.DictReader(StringIO(as_csv(SHEET)))
    assert (row["item"], row["section"], row["label"]) == ("claims", "one", "x|y")
    assert (row["paper"], row["here"], row["scale"]) == ("a & b", "<c>", "full")
    assert '<td class="up">a &amp; b</td><td>&lt;c&gt;</td>' in as_html(SHEET.grids[0])


def test_markdown_is_read_back() -> None:
    text = as_markdown(TABLE)
    rows = [line[2:-2].replace("\\|", "\0").split(" | ") for line in text.splitlines() if line[:1] == "|"]
    plain = [[cell.replace("\0", "|").strip("*") for cell in row] for row in rows]
    assert plain == [HEAD, ["---", *["---:"] * 4], *ROWS] * 2
    assert "**94.08 ± 0.03**" in text
    assert "**QUICK: small**" in text
    assert text.endswith("\nBold: the best of all.\n")
    assert "Bold" not in as_markdown(SHEET)


def test_latex_is_read_back() -> None:
    text = as_latex(TABLE)
    rows = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    back = {r"$\pm$": "±", r"$\Delta$": "Δ", r"\_": "_", r"\%": "%", r"\&": "&"}
    found = []
    for row in rows:
        cells = re.split(r" (?<!\\)& ", row)
        for written, plain in back.items():
            cells = [cell.replace(written, plain) for cell in cells]
        found.append([re.sub(r"\\textbf\{(.*)\}", r"\1", cell) for cell in cells])
    assert found == [HEAD, *ROWS] * 2
    assert text.count(r"\begin{tabular}{lrrrr}") == text.count(r"\end{tabular}") == 2
    assert r"\caption{Table 2: link\_prediction: mooc\_1 \& more, 5\%. QUICK: small}" in text
    assert r"\textbf{94.08 $\pm$ 0.03}" in text


def test_latex_escapes_whatever_it_is_given() -> None:
    assert tex(r"a\b{c}~^") == r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}"


def test_csv_is_read_back_exactly() -> None:
    rows = list(csv.DictReader(StringIO(as_csv(TABLE))))
    assert len(rows) == 2 * 3 * 2
    first, empty = rows[0], rows[3]
    assert (first["item"], first["part"], first["label"]) == ("table2", GRID.title, "contig")
    assert (float(first["here"]), float(first["here_std"]), first["seeds"]) == (94.08, 0.034, "3")
    assert float(first["difference"]) == 94.08 - 90.54
    assert (empty["measure"], empty["here"], empty["paper"], empty["difference"]) == ("MRR", "", "", "")
    assert {row["scale"] for row in rows} == {"quick"}


def test_text_is_aligned() -> None:
    lines = as_text(TABLE).splitlines()
    [top, *_] = [line for line in lines if "AUC" in line]
    [first, *_] = [line for line in lines if "94.08" in line]
    assert top.index("AUC") + 3 == first.index("94.08 ± 0.03") + len("94.08 ± 0.03")
    assert len(top) == len(first)
    assert lines[1] == "QUICK: small"
    assert lines[-1] == "  One # note."


class Cells(HTMLParser):
    """The cells of a table, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1].append(data)


def test_html_is_read_back() -> None:
    reader = Cells()
    reader.feed(as_html(GRID))
    sections = [["transductive"], ["transductive, rules"], ["inductive"]]
    rows = [[row[0].rpartition(": ")[2], *row[1:]] for row in ROWS]
    assert reader.rows == [HEAD, *(row for pair in zip(sections, rows, strict=True) for row in pair)]


def test_a_table_without_lines_can_be_written() -> None:
    empty = Table("fig3", "Fig. 3", ())
    assert as_csv(empty).strip() == ""
    assert as_text(empty) == "Fig. 3\n"


def test_slugs_are_plain() -> None:
    assert slug("Table 2: link, AP (%)") == "table-2-link-ap"
    assert isnan(Value().difference)
