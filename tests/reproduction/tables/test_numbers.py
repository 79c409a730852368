"""Grids: which cells there are, how numbers are written, and what is marked."""

from __future__ import annotations

from math import isnan, nan

import pytest

from contig.experiments.rows import Spread
from contig.reproduction.tables.numbers import Grid, Line, Table, Value

BOTH = Value(Spread(94.08, 0.034), Spread(90.54, 1.2), 3)
OURS = Value(Spread(88.125, nan), seeds=1)
GRID = Grid(
    "mooc",
    "model",
    ("AUC", "MRR"),
    (
        Line("contig", (BOTH, OURS), "transductive"),
        Line("edgebank", (Value(Spread(91.0, nan), seeds=1), Value()), "transductive", heuristic=True),
        Line("contig", (Value(paper=Spread(85.37, nan)), OURS), "inductive"),
    ),
    rank=True,
)


def styles(grid: Grid) -> list[list[str]]:
    return [[cell.style for cell in row.cells] for row in grid.layout().rows]


def texts(grid: Grid) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in grid.layout().rows]


def test_the_paper_is_shown_in_columns_it_has_numbers_for() -> None:
    assert GRID.layout().header == ("model", "AUC", "paper", "Δ", "MRR")
    assert styles(GRID) == [["best", "paper", "up", ""], ["", "paper", "", ""], ["", "paper", "", ""]]


def test_lines_by_section() -> None:
    assert [line.label for line in GRID.section("transductive")] == ["contig", "edgebank"]
    assert GRID.models("transductive") == {"contig": (BOTH, OURS)}
    assert [row.section for row in GRID.layout().rows] == [
        *("transductive", "transductive, heuristics", "inductive")
    ]


@pytest.mark.parametrize("section", ["", "inductive"])
def test_heuristics_compete_with_the_models_of_their_section(section: str) -> None:
    lines = tuple(
        Line(name, (Value(Spread(x, nan), seeds=1),), where, heuristic)
        for name, x, where, heuristic in (
            ("a", 1, section, False),
            ("b", 2, section, True),
            ("c", 3, "other", False),
        )
    )
    assert styles(Grid("", "", ("x",), lines, rank=True)) == [[""], ["best"], [""]]


def test_lines_on_other_events_compete_with_nothing() -> None:
    lines = tuple(
        Line(name, (Value(Spread(x, nan), seeds=1),), other_events=x > 2)
        for name, x in (("a", 1), ("b", 2), ("c", 3), ("d", 4))
    )
    grid = Grid("", "", ("x",), lines, rank=True)
    assert styles(grid) == [[""], ["best"], [""], [""]]
    assert (list(grid.models()), list(grid.on_other_events())) == (["a", "b"], ["c", "d"])


def test_one_line_alone_is_not_the_best() -> None:
    lines = tuple(
        Line(name, (Value(Spread(1, nan), seeds=1),), other_events=name == "b") for name in ("a", "b")
    )
    assert styles(Grid("", "", ("x",), lines, rank=True)) == [[""], [""]]


def test_differences_have_a_sign_and_zero_is_positive() -> None:
    values = tuple(Value(Spread(x, nan), Spread(x, nan), 1) for x in (0.25, -0.25, -0.001))
    [cells] = texts(Grid("lead", "", ("a", "b", "c"), (Line("x", values),), signed=True))
    assert cells[::3] == cells[1::3] == ["+0.25", "-0.25", "+0.00"]
    assert set(cells[2::3]) == {"+0.00"}


def test_digits_and_deviations() -> None:
    values = (Value(Spread(1234.5678, 0.056)), Value(Spread(1234.5678, nan)), Value())
    [cells] = texts(Grid("", "", ("a", "b", "c"), (Line("x", values),), digits=(1, 3, 0)))
    assert cells == ["1,234.6 ± 0.1", "1,234.568", "-"]


def test_records_are_unrounded() -> None:
    first, *_, last = GRID.layout().records
    assert first == {
        **{"section": "transductive", "label": "contig", "measure": "AUC", "seeds": 3},
        **{"ours": 94.08, "ours_std": 0.034, "paper": 90.54, "paper_std": 1.2, "difference": 94.08 - 90.54},
    }
    assert (last["ours"], last["ours_std"], last["paper"], last["difference"]) == (88.125, None, None, None)


def test_derived_grids_are_apart() -> None:
    gain = Grid("gain", "dataset", ("gain",), (), derived=True)
    table = Table("fig3", "Fig. 3", (GRID, gain), ("A note.",), "QUICK: small")
    assert (table.measured, table.derived) == ((GRID,), (gain,))
    sheet = table.sheet()
    assert [layout.title for layout in sheet.layouts] == ["mooc", "gain"]
    assert (sheet.name, sheet.title, sheet.notes, sheet.warning) == (
        *("fig3", "Fig. 3", ("A note.",), "QUICK: small"),
    )


def test_a_missing_number_has_no_difference() -> None:
    assert isnan(Value().difference)
    assert Value().direction == ""
