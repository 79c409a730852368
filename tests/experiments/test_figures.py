"""Figures hold the numbers of their tables."""

from __future__ import annotations

from pathlib import Path

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
    [("table2", 4), ("table3", 2), ("table4", 4), ("fig3", 2), ("fig4", 4), ("fig5", 5), ("fig6", 1)],
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


def test_sweeps_have_a_curve_for_each_stream_and_selection(made: dict[str, Table]) -> None:
    found = figure(made["fig5"], None)
    assert found is not None
    points = drawn(found.axes[0])
    assert [x for x, _ in points] == [0.6, 1.0] * 4
    lines = [line for line in made["fig5"].grids[1].lines if line.section == "horizon"]
    assert [y for _, y in points[4:6]] == pytest.approx([line.values[0].here.mean for line in lines])


def test_a_quick_one_says_so_and_an_empty_one_is_not_drawn(tmp_path: Path, made: dict[str, Table]) -> None:
    quick = Table("fig6", "Fig. 6", made["fig6"].grids, warning="QUICK: small")
    found = figure(quick, [])
    assert found is not None
    assert "QUICK" in found.axes[0].texts[1].get_text()
    assert all(figure(table, None) is None for table in tables(planned(tmp_path)))
