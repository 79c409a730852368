"""Panels of curves and of pairs show every number, and can be part of a page."""

from __future__ import annotations

import re
from math import nan
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex
from support.plotted import misplaced_texts

from contig import plots
from contig.plots import Curve, Pair, Panel
from contig.plots.panels import QUIET

ONE = Curve("one", [1.0, 2.0, 4.0], [5.0, nan, 7.0], [0.5, nan, nan])
HEURISTIC = Curve("heuristic", [1.0, 4.0], [3.0, 3.5], [nan, nan], quiet=True)
FIT = Curve("fit", [1.0, 4.0], [2.0, 8.0], [nan, nan], quiet=True, dashed=True)


def test_points_deviations_and_gaps() -> None:
    panels = [Panel("a", [ONE, HEURISTIC], "x", "y"), Panel("b", [FIT], "x", "y", log=True)]
    figure = plots.curves("Title", ["fact"], panels)
    first, second = figure.axes
    assert [text.get_text() for text in figure.texts] == ["Title", "fact"]
    line, _, [bars] = first.containers[0].lines  # type: ignore[attr-defined]
    assert [list(column) for column in line.get_data()] == [[1.0, 4.0], [5.0, 7.0]]  # without the missing one
    heights = [float(abs(stop - start)[1]) for start, stop in bars.get_segments()]
    assert heights == [1.0, 0.0]
    heuristic = first.containers[1].lines[0]  # type: ignore[attr-defined]
    assert to_hex(heuristic.get_color()) == QUIET
    assert (second.get_xscale(), second.get_yscale()) == ("log", "log")
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "heuristic", "fit"]


def test_a_name_has_one_color_in_all_panels() -> None:
    other = ONE._replace(name="other")
    figure = plots.curves("", [], [Panel("a", [other, ONE], "", ""), Panel("b", [ONE], "", "")])
    first, second = figure.axes
    ours = [first.containers[1], second.containers[0]]
    colors = {mark.lines[0].get_color() for mark in ours}  # type: ignore[attr-defined]
    assert len(colors) == 1


def test_twelve_names_have_twelve_looks() -> None:
    some = [ONE._replace(name=f"m{i}") for i in range(12)]
    [axes] = plots.curves("", [], [Panel("a", some, "", "")]).axes
    lines = [mark.lines[0] for mark in axes.containers]  # type: ignore[attr-defined]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 12
    assert lines[0].get_zorder() > max(line.get_zorder() for line in lines[1:])


def test_quiet_curves_use_up_no_colors() -> None:
    some = [ONE._replace(name=f"m{i}") for i in range(10)]
    quiet = [HEURISTIC._replace(name=f"h{i}") for i in range(6)]
    [axes] = plots.curves("", [], [Panel("a", [*some, *quiet, ONE], "", "")]).axes
    lines = [mark.lines[0] for mark in axes.containers]  # type: ignore[attr-defined]
    assert len({line.get_color() for line in [*lines[:10], lines[-1]]}) == 11
    assert len({line.get_marker() for line in lines[10:16]}) == 6


def test_categories_are_labeled() -> None:
    figure = plots.curves("", [], [Panel("a", [Curve("c", range(3), [1, 2, 3], [nan] * 3)], "", "", "xyz")])
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["x", "y", "z"]


def test_every_pair_has_a_row() -> None:
    some = [Pair("m", 90.0, 1.0, 80.0, nan), Pair("n", nan, nan, 70.0, 2.0), Pair("o", 60.0, nan, nan, nan)]
    figure = plots.pairs("", [], {"g": some, "none": []}, "AP")
    [axes] = figure.axes
    marks = [mark.lines[0].get_data() for mark in axes.containers]  # type: ignore[attr-defined]
    assert [(float(x[0]), float(y[0])) for x, y in marks] == [(80, 0), (90, 0), (70, 1), (60, 2)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["m", "n", "o"]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_no_text_overlaps_or_leaves_the_figure(count: int) -> None:
    names = [f"model {i} with a long name" for i in range(9)]
    some = [Curve(name, [5, 10, 20, 40], [70 + i, 80, 75, 72], [1.0] * 4) for i, name in enumerate(names)]
    panels = [Panel(f"dataset {i}", some, "neighbors", "AP, %") for i in range(count)]
    facts = ["3 seeds", "a description of the hardware", "batches of 200"]
    assert misplaced_texts(plots.curves("AP by number of neighbors", facts, panels)) == []
    groups = {f"dataset {i}": [Pair(name, 90.0, 1.0, 80.0, nan) for name in names] for i in range(count)}
    assert misplaced_texts(plots.pairs("Results and those of the paper", facts, groups, "AP, %")) == []


@pytest.fixture
def svg() -> str:
    panels = [Panel(f"$a_{i}$ & b", [ONE, HEURISTIC, FIT], "x", "y") for i in range(4)]
    return plots.inline_svg(plots.curves("Title", ["fact"], panels), "fig9")


def test_a_figure_in_a_page_refers_to_nothing_outside_itself(svg: str) -> None:
    root = ElementTree.fromstring(svg)  # well-formed, without any namespace
    ids = [e.attrib["id"] for e in root.iter() if "id" in e.attrib]
    assert all(name.startswith("fig9-") for name in ids)
    refers = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', svg)
    assert refers
    assert {a or b for a, b in refers} <= set(ids)
    assert "http" not in svg


def test_its_colors_follow_the_page(svg: str) -> None:
    assert all(f"var({name})" in svg for name in ("--ink", "--soft", "--grid", "--card"))
    assert "#1f2933" not in svg
    assert "#ffffff" not in svg


def test_it_is_the_same_every_time(svg: str) -> None:
    panels = [Panel(f"$a_{i}$ & b", [ONE, HEURISTIC, FIT], "x", "y") for i in range(4)]
    assert plots.inline_svg(plots.curves("Title", ["fact"], panels), "fig9") == svg
