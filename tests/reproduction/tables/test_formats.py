"""Every format holds the same cells, and what is written can be read back."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from io import StringIO
from math import nan

from contig.experiments.rows import Spread
from contig.reproduction.tables import FORMATS
from contig.reproduction.tables.csv import as_csv
from contig.reproduction.tables.html import as_html
from contig.reproduction.tables.latex import as_latex, escape
from contig.reproduction.tables.layout import Cell, Layout, Row, Sheet
from contig.reproduction.tables.markdown import as_markdown
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.tables.text import as_text

FULL = Value(Spread(94.08, 0.034), Spread(90.54, 1.2), 3)
ALONE = Value(Spread(88.125, nan), seeds=1)
GRID = Grid(
    "mooc_1 & more, 5%",
    "model",
    ("AUC", "MRR"),
    (
        Line("contig", (FULL, ALONE), "transductive"),
        Line("edge|bank", (Value(Spread(91.0, nan), seeds=1), Value()), "transductive", heuristic=True),
        Line("contig", (Value(paper=Spread(85.37, nan)), Value(Spread(-3.5, 0.1), seeds=2)), "inductive"),
    ),
    rank=True,
)
NOTES, WARNING = ("One # note.",), "QUICK: small"
SHEET = Table("table2", "Table 2: link_prediction", (GRID, GRID), NOTES, WARNING).sheet()
HEAD = ["model", "AUC", "paper", "Δ", "MRR"]
ROWS = [
    ["transductive: contig", "94.08 ± 0.03", "90.54 ± 1.20", "+3.54", "88.12"],
    ["transductive, heuristics: edge|bank", "91.00", "-", "-", "-"],
    ["inductive: contig", "-", "85.37", "-", "-3.50 ± 0.10"],
]


PROSE = Sheet(
    "claims",
    "Claims",
    (
        Layout(
            "all_1",
            ("where", "paper", "ours"),
            (Row("one", "x|y", (Cell("a & b", "up"), Cell("<c>"))),),
            ({"section": "one", "label": "x|y", "paper": "a & b", "ours": "<c>"},),
            prose=True,
        ),
    ),
    ("A note.",),
)


def test_text_cells_in_every_format() -> None:
    assert "| one: x\\|y | a & b | <c> |" in as_markdown(PROSE)
    assert "| --- | --- | --- |" in as_markdown(PROSE)
    assert r"one: x|y & a \& b & <c> \\" in as_latex(PROSE)
    assert r"\begin{tabular}{lll}" in as_latex(PROSE)
    top, _, section, line = as_text(PROSE).splitlines()[3:7]
    assert (section.strip(), top.rindex("ours")) == ("one", line.index("<c>"))  # aligned left
    [row] = csv.DictReader(StringIO(as_csv(PROSE)))
    assert (row["item"], row["section"], row["label"]) == ("claims", "one", "x|y")
    assert (row["paper"], row["ours"], row["scale"]) == ("a & b", "<c>", "full")
    assert '<td class="up">a &amp; b</td><td>&lt;c&gt;</td>' in as_html(PROSE.layouts[0])


def test_markdown_is_read_back() -> None:
    text = as_markdown(SHEET)
    rows = [line[2:-2].replace("\\|", "\0").split(" | ") for line in text.splitlines() if line[:1] == "|"]
    plain = [[cell.replace("\0", "|").strip("*") for cell in row] for row in rows]
    assert plain == [HEAD, ["---", *["---:"] * 4], *ROWS] * 2
    assert "**94.08 ± 0.03**" in text
    assert "**QUICK: small**" in text
    assert text.endswith("\nBold marks the best result.\n")
    assert "Bold" not in as_markdown(PROSE)


def test_latex_is_read_back() -> None:
    text = as_latex(SHEET)
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


def test_latex_escapes() -> None:
    assert escape(r"a\b{c}~^") == r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}"


def test_csv_is_read_back_exactly() -> None:
    rows = list(csv.DictReader(StringIO(as_csv(SHEET))))
    assert len(rows) == 2 * 3 * 2
    first, empty = rows[0], rows[3]
    assert (first["item"], first["part"], first["label"]) == ("table2", GRID.title, "contig")
    assert (float(first["ours"]), float(first["ours_std"]), first["seeds"]) == (94.08, 0.034, "3")
    assert float(first["difference"]) == 94.08 - 90.54
    assert (empty["measure"], empty["ours"], empty["paper"], empty["difference"]) == ("MRR", "", "", "")
    assert {row["scale"] for row in rows} == {"quick"}


def test_text_is_aligned() -> None:
    lines = as_text(SHEET).splitlines()
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
    reader.feed(as_html(GRID.layout()))
    sections = [["transductive"], ["transductive, heuristics"], ["inductive"]]
    rows = [[row[0].rpartition(": ")[2], *row[1:]] for row in ROWS]
    assert reader.rows == [HEAD, *(row for pair in zip(sections, rows, strict=True) for row in pair)]


def test_a_sheet_without_grids() -> None:
    empty = Sheet("fig3", "Fig. 3", ())
    assert as_csv(empty).strip() == ""
    assert as_text(empty) == "Fig. 3\n"
    assert all(isinstance(render(empty), str) for render in FORMATS.values())
