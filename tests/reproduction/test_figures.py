"""Figures hold the numbers of their tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from support.studies import SECONDS, fill, planned

from contig.reproduction.figures import figure
from contig.reproduction.findings import OPTIONS, tables
from contig.reproduction.grids import Table


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return {table.name: table for table in tables(fill(planned(tmp_path_factory.mktemp("study"))))}


def drawn(axes: Axes) -> list[tuple[float, float]]:
    """Every point of every curve or mark."""
    lines = [mark.lines[0] for mark in axes.containers]  # type: ignore[attr-defined]
    return [(float(x), float(y)) for line in lines for x, y in zip(*line.get_data(), strict=True)]


@pytest.mark.parametrize(
    ("name", "panels"),
    [("table2", 4), ("table3", 2), ("table4", 4), ("fig3", 2), ("fig4", 4), ("fig5", 10), ("fig6", 1)],
)
def test_every_item_is_drawn(name: str, panels: int, made: dict[str, Table]) -> None:
    bare, headed = figure(made[name], None), figure(made[name], ["3 seeds"])
    assert bare is not None
    assert headed is not None
    assert (len(bare.axes), len(headed.axes)) == (panels, panels + 1)
    assert [text.get_text() for text in headed.axes[0].texts] == [made[name].title, "3 seeds"]


def test_recalls_are_curves_over_k(made: dict[str, Table]) -> None:
    found = figure(made["fig3"], None)
    assert found is not None
    grid = made["fig3"].grids[1]
    expected = [
        (k, v.here.mean) for line in grid.lines for k, v in zip((5, 10, 15, 20), line.values[:4], strict=True)
    ]
    assert drawn(found.axes[1]) == [pytest.approx(point) for point in expected]


def test_here_and_the_paper_stand_side_by_side(made: dict[str, Table]) -> None:
    found = figure(made["table2"], None)
    assert found is not None
    lines = [line for line in made["table2"].grids[0].lines if line.section.startswith("inductive")]
    expected = [
        (x, float(place))
        for place, line in enumerate(lines)
        for x in (line.values[1].paper.mean, line.values[1].here.mean)
        if x == x
    ]
    assert drawn(found.axes[1]) == [pytest.approx(point) for point in expected]


def test_sweeps_have_a_row_for_each_stream_and_a_curve_for_each_selection(made: dict[str, Table]) -> None:
    found = figure(made["fig5"], None)
    assert found is not None
    for place, grid in ((0, made["fig5"].grids[0]), (5, made["fig5"].grids[1])):
        points = drawn(found.axes[place])
        lines = [line for line in grid.lines if line.section == "horizon"]
        expected = [
            (x, line.values[i].here.mean) for i in (0, 1) for x, line in zip((0.6, 1.0), lines, strict=True)
        ]
        assert points == [pytest.approx(point) for point in expected]


def test_times_are_curves_over_training_events_and_their_laws(made: dict[str, Table]) -> None:
    found = figure(made["fig6"], None)
    assert found is not None
    longer, larger = ([(0.7 * n, s) for n, s in seconds.items()] for seconds in SECONDS.values())
    points = drawn(found.axes[0])
    assert points[:6] == [pytest.approx(point) for point in longer + larger]
    for measured, law in ((longer, points[6:9]), (larger, points[9:])):
        slope, offset = np.polyfit(*np.log(measured).T, 1)
        assert law == [pytest.approx((x, np.exp(offset) * x**slope)) for x, _ in measured]
    said = [text.get_text() for text in found.legends[0].get_texts()]
    assert [text.partition(" ~")[0] for text in said] == ["as many nodes: time", "more nodes: time", "fitted"]


def test_in_a_row_of_sweeps_what_is_not_done_keeps_its_place(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig5"))
    for job in plan.sweeps["wikipedia"]["heads"]:
        (job.folder / "metrics.json").unlink(missing_ok=True)
    [table] = tables(plan)
    found = figure(table, None)
    assert found is not None
    assert [axes.get_title("left") for axes in found.axes[5:]] == [f"mooc: {s}" for s in OPTIONS.values()]


def test_a_quick_one_says_so_and_an_empty_one_is_not_drawn(tmp_path: Path, made: dict[str, Table]) -> None:
    quick = Table("fig6", "Fig. 6", made["fig6"].grids, warning="QUICK: small")
    found = figure(quick, [])
    assert found is not None
    assert "QUICK" in found.axes[0].texts[1].get_text()
    assert all(figure(table, None) is None for table in tables(planned(tmp_path)))
