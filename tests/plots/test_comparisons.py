"""The picture of a comparison shows every number where it belongs."""

from __future__ import annotations

from itertools import pairwise
from math import nan
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from contig import plots
from contig.plots import Contestant

FIELD = [
    Contestant("slow", True, (0.7, 0.02), (0.65, 0.03), 900.0),
    Contestant("quick", True, (0.9, nan), (nan, nan), 40_000.0),
    Contestant("lost", True, (nan, nan), (nan, nan), nan),
    Contestant("rule", False, (0.8, nan), (0.85, nan), nan),
    Contestant("other rule", False, (0.6, nan), (0.5, nan), nan),
]


def panels(*fields: list[Contestant]) -> list[Axes]:
    names = ("mooc", "wikipedia")[: len(fields)]
    return plots.comparison(dict(zip(names, fields, strict=True)), ["2 seeds"]).axes[1:]


def bars(axes: Axes) -> list[tuple[float, float, float]]:
    """Place and half-width of every mark."""
    found = []
    for mark in axes.containers:
        line, _, [bar] = mark.lines  # type: ignore[attr-defined]
        [(start, stop)] = bar.get_segments()
        found.append((float(line.get_xdata()[0]), float(line.get_ydata()[0]), abs(stop - start).max() / 2))
    return found


def test_models_are_ranked_and_marked() -> None:
    ranks, _ = panels(FIELD)
    assert [label.get_text() for label in ranks.get_yticklabels()] == [
        "quick",
        "rule",
        "slow",
        "other rule",
    ]
    assert ranks.get_ylim()[0] > ranks.get_ylim()[1]  # the first on top
    found = sorted((round(y), x, wide) for x, y, wide in bars(ranks))
    expected = [(0, 90, 0), (1, 80, 0), (1, 85, 0), (2, 65, 3), (2, 70, 2), (3, 50, 0), (3, 60, 0)]
    assert found == [pytest.approx(one) for one in expected]
    written = sorted(text.get_text() for text in ranks.texts)
    assert written == ["50.0", "60.0", "65.0", "70.0", "80.0", "85.0", "90.0"]


def test_those_that_learn_stand_by_their_speed_above_or_below_the_best_rule() -> None:
    _, speeds = panels(FIELD)
    assert speeds.get_xscale() == "log"
    assert sorted(bars(speeds)) == [pytest.approx((900, 70, 2)), pytest.approx((40_000, 90, 0))]
    assert {text.get_text() for text in speeds.texts} == {"slow", "quick", "best rule: rule"}
    lines = [line for line in speeds.get_lines() if list(line.get_xdata()) == [0, 1]]
    assert [line.get_ydata()[0] for line in lines] == pytest.approx([80])  # type: ignore[index]


def test_names_of_neighbours_do_not_lie_over_each_other() -> None:
    near = [Contestant(f"m{i}", True, (0.9 + 0.0001 * i, 0.0), (nan, nan), 1000.0 + i) for i in range(5)]
    _, speeds = panels([*near, FIELD[0]])
    heights = sorted(text.get_position()[1] for text in speeds.texts if text.get_text()[0] == "m")
    assert all(b - a > 0.05 for a, b in pairwise(heights))


@pytest.mark.parametrize("field", [FIELD, FIELD[:1], FIELD[3:]], ids=["all", "one", "rules-only"])
def test_odd_fields_are_drawn(field: list[Contestant], tmp_path: Path) -> None:
    figure = plots.comparison({"a_b $x$": field}, ["one seed"])
    plots.save(figure, tmp_path / "compare.png")
    assert imread(tmp_path / "compare.png").shape[2] == 4


def test_each_stream_has_its_row() -> None:
    titles = [axes.get_title(loc="left") for axes in panels(FIELD, FIELD[:2])]
    assert titles[0::2] == ["Test AP on mooc, %", "Test AP on wikipedia, %"]
