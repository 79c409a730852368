"""Panels of curves and of pairs show every number, and can be part of a page."""

from __future__ import annotations

import re
from math import nan
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from support.figures import curves, legend, legend_notes
from support.plotted import drawn_texts, misplaced_texts

from contig import plots
from contig.plots import Curve, Marked, Pair, Panel
from contig.plots.panels import QUIET

ONE = Curve("one", [1.0, 2.0, 4.0], [5.0, nan, 7.0], [0.5, nan, nan])
HEURISTIC = Curve("heuristic", [1.0, 4.0], [3.0, 3.5], [nan, nan], quiet=True)
FIT = Curve("fit", [1.0, 4.0], [2.0, 8.0], [nan, nan], quiet=True, dashed=True, marks=False)


def test_points_deviations_and_gaps() -> None:
    panels = [Panel("a", [ONE, HEURISTIC], "x", "y"), Panel("b", [FIT], "x", "y", log_x=True, log_y=True)]
    figure = plots.curves("Title", ["fact"], panels)
    first, second = figure.axes
    assert [text.get_text() for text in figure.texts] == ["Title", "fact"]
    line, _, [bars] = first.containers[0].lines  # type: ignore[attr-defined]
    assert [list(column) for column in line.get_data()] == [[1.0, 4.0], [5.0, 7.0]]  # without the missing one
    bar, missing = bars.get_segments()
    assert bar.tolist() == [[1.0, 4.5], [1.0, 5.5]]
    assert len(missing) == 0
    heuristic = first.containers[1].lines[0]  # type: ignore[attr-defined]
    assert to_hex(heuristic.get_color()) == QUIET
    assert (second.get_xscale(), second.get_yscale()) == ("log", "log")
    assert legend(figure) == ["one", "heuristic", "fit"]


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


def test_quiet_curves_use_up_no_colors() -> None:
    some = [ONE._replace(name=f"m{i}") for i in range(10)]
    quiet = [HEURISTIC._replace(name=f"h{i}") for i in range(6)]
    [axes] = plots.curves("", [], [Panel("a", [*some, *quiet, ONE], "", "")]).axes
    lines = [mark.lines[0] for mark in axes.containers]  # type: ignore[attr-defined]
    assert len({line.get_color() for line in [*lines[:10], lines[-1]]}) == 11
    assert len({line.get_marker() for line in lines[10:16]}) == 6


def lines_of(figure: Figure) -> dict[str, Line2D]:
    """Return the lines of the first panel by the names of their curves."""
    return {str(m.get_label()): m.lines[0] for m in figure.axes[0].containers}  # type: ignore[attr-defined]


def test_equal_curves_are_all_visible() -> None:
    """Every one is narrower than those below it."""
    some = [ONE, ONE._replace(name="rival", on_top=True), ONE._replace(name="other"), HEURISTIC]
    lines = lines_of(plots.curves("", [], [Panel("a", some, "", "")]))
    lowest_first = sorted(lines, key=lambda name: lines[name].get_zorder())
    assert lowest_first == ["heuristic", "one", "other", "rival"]
    wide = lines["one"]
    for name in ("other", "rival"):
        assert lines[name].get_linewidth() < wide.get_linewidth() / 1.9
        assert lines[name].get_markersize() < wide.get_markersize()
    assert lines["rival"].get_linewidth() > lines["other"].get_linewidth()


def test_equal_error_bars_of_the_curves_in_front_are_side_by_side() -> None:
    """Only they are moved: all points stay where they are, and so do the limits of the axis."""
    front = [ONE, ONE._replace(name="rival", on_top=True), ONE._replace(name="other")]
    figure = plots.curves("", [], [Panel("a", front, "", "")])
    figure.draw_without_rendering()
    [axes] = figure.axes
    places = []
    for mark in axes.containers:
        line, _, [bars] = mark.lines  # type: ignore[attr-defined]
        point = line.get_transform().transform(line.get_xydata()[0])
        bar = bars.get_transform().transform(bars.get_segments()[0][0])
        assert line.get_transform() == axes.transData
        places.append(72 / figure.dpi * (bar - point)[0])
    assert places == [pytest.approx(x) for x in (-1.5, 1.5, 0.0)]
    assert axes.get_xlim() == pytest.approx((0.85, 4.15))


def test_a_curve_may_share_the_color_of_another() -> None:
    fit = Curve("fit", [1.0, 4.0], [5.0, 6.0], [nan, nan], like="two", marks=False)
    some = [ONE, fit, ONE._replace(name="two", line=False), ONE._replace(name="three")]
    lines = lines_of(plots.curves("", [], [Panel("a", some, "", "")]))
    assert lines["fit"].get_color() == lines["two"].get_color()
    assert len({lines[name].get_color() for name in ("one", "two", "three")}) == 3
    assert (lines["fit"].get_marker(), lines["fit"].get_linestyle()) == ("", "-")
    assert (lines["two"].get_marker(), lines["two"].get_linestyle()) == ("s", "None")


def test_quiet_curves_have_different_dashes() -> None:
    quiet = [HEURISTIC._replace(name=f"h{i}") for i in range(4)]
    svg = plots.inline_svg(plots.curves("", [], [Panel("a", quiet, "", "")]), "a")
    assert len(set(re.findall("stroke-dasharray: ([^;]+)", svg))) == 3  # and one is solid


def test_the_legend_keeps_the_order_within_every_panel() -> None:
    for drawn, names in (("adz abdy acyz", "acbdyz"), ("bc abc", "abc"), ("bc yz", "bcyz")):
        panels = [Panel("", [ONE._replace(name=name) for name in some], "", "") for some in drawn.split()]
        assert legend(plots.curves("", [], panels)) == list(names)


LIMITED = [
    Curve("above", [1, 2, 3, 4], [80, 81, 82, 83], [1.0] * 4),
    Curve("rising", [1, 2, 3, 4], [60, 65, 75, 76], [1.0, 9.0, 1.0, 1.0]),
    Curve("late", [1, 2, 3, 4], [50, 60, nan, 71], [1.0] * 4),
    Curve("low", [1, 2, 3, 4], [10, 20, 30, 40], [1.0] * 4),
]


def test_curves_below_the_limits_are_named_instead() -> None:
    limited = Panel("a", LIMITED, "K", "AP", y_limits=(70.0, 85.0))
    figure = plots.curves("", [], [limited, Panel("b", LIMITED[:3], "K", "AP")])
    first, second = figure.axes
    assert first.get_ylim() == (70.0, 85.0)
    assert list(curves(first)) == ["above", "rising"]
    assert " ".join(first.get_xlabel().split()) == "K most points below the axis: late, low"
    assert list(curves(second)) == ["above", "rising", "late"]
    assert second.get_xlabel() == "K"
    assert legend(figure) == ["above", "rising", "late"]  # not the one that no panel shows


def test_a_point_below_the_limits_has_no_error_bar_that_reaches_into_the_panel() -> None:
    [axes] = plots.curves("", [], [Panel("a", LIMITED, "", "", y_limits=(70.0, 85.0))]).axes
    _, _, [bars] = axes.containers[1].lines  # type: ignore[attr-defined]
    assert [float(bar[0][0]) for bar in bars.get_segments() if len(bar)] == [3.0, 4.0]


def test_a_marked_value_is_in_the_legend() -> None:
    panels = [Panel("a", [ONE], "", "", marked=Marked(2.0, "default")), Panel("b", [ONE], "", "")]
    figure = plots.curves("", [], panels)
    assert legend(figure) == ["one", "default"]
    first, second = ([x for x in axes.lines if len(set(x.get_xdata())) == 1] for axes in figure.axes)
    assert [list(line.get_xdata()) for line in first] == [[2.0, 2.0]]
    assert second == []


@pytest.mark.parametrize(
    ("x", "labels"),
    [
        ((20_552, 421_114), ["20,000", "50,000", "100,000", "200,000", "500,000"]),
        ((1, 1), ["1"]),
        ((0.0003, 0.02), ["0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01", "0.02"]),
    ],
)
def test_a_logarithmic_axis_has_labels_on_both_sides_of_the_data(
    x: tuple[float, float], labels: list[str]
) -> None:
    figure = plots.curves("", [], [Panel("", [Curve("c", x, [96.0, 99.0], [nan] * 2)], "", "", log_x=True)])
    [axes] = figure.axes
    shown = {text.text for text in drawn_texts(figure)}
    assert [label.get_text() for label in axes.get_xticklabels() if label.get_text() in shown] == labels
    assert axes.get_yscale() == "linear"


def test_without_numbers_a_logarithmic_panel_is_empty() -> None:
    empty = Curve("c", [0.1, 1.0], [nan, nan], [nan, nan])
    [axes] = plots.curves("", [], [Panel("", [empty], "", "", log_x=True, log_y=True)]).axes
    assert list(axes.containers) == []


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
    notes = [
        "A note that explains the marks of the names in the legend, in more words than fit in a line.",
        "B.",
    ]
    figure = plots.curves("AP by number of neighbors", facts, panels, notes=notes)
    assert misplaced_texts(figure) == []
    assert legend_notes(figure) == " ".join(notes)
    limited = [panel._replace(y_limits=(74.5, 80.0)) for panel in panels]
    assert misplaced_texts(plots.curves("AP by number of neighbors", facts, limited)) == []
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
