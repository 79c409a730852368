"""Figures hold the numbers of their tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from studied import fill, planned

from contig.experiments.figures import figure
from contig.experiments.findings import tables
from contig.experiments.grids import Table


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
    measured = [(70.0, 0.5), (140.0, 1.1), (280.0, 1.9)]
    points = drawn(found.axes[0])
    assert points[:6] == measured * 2  # the same for both ways to grow
    slope, offset = np.polyfit(*np.log(measured).T, 1)
    fitted = [(x, np.exp(offset) * x**slope) for x, _ in measured]
    assert points[6:9] == [pytest.approx(point) for point in fitted]
    said = [text.get_text() for text in found.legends[0].get_texts()]
    assert sum(text.startswith(("same nodes: time", "more nodes: time")) for text in said) == 2


def test_a_quick_one_says_so_and_an_empty_one_is_not_drawn(tmp_path: Path, made: dict[str, Table]) -> None:
    quick = Table("fig6", "Fig. 6", made["fig6"].grids, warning="QUICK: small")
    found = figure(quick, [])
    assert found is not None
    assert "QUICK" in found.axes[0].texts[1].get_text()
    assert all(figure(table, None) is None for table in tables(planned(tmp_path)))
