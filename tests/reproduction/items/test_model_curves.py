"""Curves of many models leave room for the comparison that the paper makes."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pytest
from matplotlib.figure import Figure
from support.figures import curves, legend, legend_notes

from contig.experiments.rows import Spread
from contig.plots import Panel
from contig.reproduction.items.model_curves import draw_models
from contig.reproduction.tables.numbers import Line, Value

K = (5, 10, 15, 20)


def line(
    label: str,
    *means: float,
    std: float = 0.5,
    heuristic: bool = False,
    excluded: bool = False,
    other_events: bool = False,
) -> Line:
    values = tuple(Value(Spread(mean, nan if heuristic else std), seeds=3) for mean in (*means, 1.0))
    return Line(label, values, "", heuristic, excluded, other_events)


CONTIG = line("contig", 79, 82, 84, 86, std=2.0)
TGN = line("tgn", 80, 83, 85, 87)
TGAT = line("tgat", 70, 74, 76, 78)
GAT = line("gat", 32, 39, 43, 45)
GAE = line("gae", 69, 75, 77, 79, other_events=True)
ACTIVITY = line("contig, activity", 78, 81, 83, 85, excluded=True)
RECENCY = line("recency", 86, 87, 88, 88, heuristic=True)
WINDOW = line("popularity, window", 5, 7, 10, 12, heuristic=True, excluded=True)


def draw(*panels: Sequence[Line]) -> Figure:
    rows = [{f"dataset {i}": lines} for i, lines in enumerate(panels)]
    figure = draw_models(rows, K, Panel("", (), "K", "Recall@K, %"), "", ())
    assert figure is not None
    return figure


def test_only_the_numbers_over_x_are_drawn() -> None:
    """The last number of a line is another metric."""
    [axes] = draw([CONTIG]).axes
    assert curves(axes) == {"contig": [(5, 79), (10, 82), (15, 84), (20, 86)]}
    assert axes.get_ylim() == pytest.approx((77 - 0.55, 88 + 0.55))  # error bars and a margin


def test_the_legend_begins_with_the_compared_models() -> None:
    figure = draw([GAT, TGAT, WINDOW, TGN, CONTIG], [GAT, TGAT, TGN, CONTIG, ACTIVITY, RECENCY])
    names = [
        "contig",
        "contig, activity",
        "tgn",
        "tgat",
        "recency (heuristic)",
        "popularity, window (heuristic)",
    ]
    assert [name for name in legend(figure) if name in names[:4]] == names[:4]
    assert set(legend(figure)[4:]) <= {"gat", *names[4:]}


def test_a_weak_model_does_not_stretch_the_axis() -> None:
    """The axis goes down to the best of the models that are not compared; the heuristic is far below."""
    [axes] = draw([CONTIG, GAT, TGAT, TGN, WINDOW]).axes
    assert axes.get_ylim() == pytest.approx((69.5 - 0.925, 88 + 0.925))
    assert list(curves(axes)) == ["contig", "tgn", "tgat"]
    text = " ".join(axes.get_xlabel().split())
    assert text == "K most points below the axis: gat, popularity, window (heuristic)"


def test_the_compared_models_have_a_third_of_the_axis_at_least() -> None:
    [axes] = draw([CONTIG, GAT, TGN]).axes
    low, high = axes.get_ylim()
    assert (88 - 77) / (high - low) == pytest.approx(1 / 3 / 1.1)
    assert list(curves(axes)) == ["contig", "tgn"]


def test_models_on_other_events_are_marked_and_do_not_set_the_axis() -> None:
    low = line("vgae", 20, 20, 20, 20, other_events=True)
    figure = draw([CONTIG, TGN, GAE, low])
    [axes] = figure.axes
    assert axes.get_ylim() == pytest.approx((77 - 0.55, 88 + 0.55))
    assert list(curves(axes)) == ["contig", "tgn", "gae*"]
    assert axes.get_xlabel().endswith("below the axis: vgae*")
    assert legend_notes(figure).startswith("* only on test events between nodes seen in training")
    assert legend_notes(draw([CONTIG, TGN])) == ""


def test_only_the_best_heuristic_of_a_dataset_is_drawn() -> None:
    weak = line("edgebank", 75, 80, 88.5, 88.5, heuristic=True)  # better only in part
    first, second = draw([CONTIG, weak, RECENCY], [CONTIG, weak]).axes
    assert list(curves(first)) == ["contig", "recency (heuristic)"]
    assert list(curves(second)) == ["contig", "edgebank (heuristic)"]
    assert "only the best on each dataset" in legend_notes(draw([CONTIG, weak, RECENCY]))
    assert legend_notes(draw([CONTIG, RECENCY])) == ""


def test_the_best_heuristic_is_in_view_although_it_is_above_all_models() -> None:
    [axes] = draw([CONTIG, line("recency", 99, 99, 99, 99, heuristic=True)]).axes
    assert axes.get_ylim()[1] > 99


def test_panels_of_a_row_share_heuristic_and_axis() -> None:
    other = line("edgebank", 88, 88.5, 88.5, 88.5, heuristic=True)
    worse = line("edgebank", 60, 60, 60, 60, heuristic=True)
    lower = line("contig", 50, 51, 52, 53)
    row = {"a": [CONTIG, RECENCY, other], "b": [lower, RECENCY, worse]}
    figure = draw_models([row], K, Panel("", (), "K", "y"), "", ())
    assert figure is not None
    first, second = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] < 49.5
    assert list(curves(first)) == list(curves(second)) == ["contig", "recency (heuristic)"]


def test_a_variant_is_a_dashed_curve_in_the_color_of_its_model() -> None:
    figure = draw([TGN, CONTIG, ACTIVITY])
    lines = {str(m.get_label()): m.lines[0] for m in figure.axes[0].containers}  # type: ignore[attr-defined]
    assert lines["contig, activity"].get_color() == lines["contig"].get_color() != lines["tgn"].get_color()
    assert [lines[name].is_dashed() for name in ("contig", "contig, activity", "tgn")] == [False, True, False]


def test_a_variant_without_its_model_has_a_color_of_its_own() -> None:
    [axes] = draw([ACTIVITY, TGN]).axes
    assert len({mark.lines[0].get_color() for mark in axes.containers}) == 2  # type: ignore[attr-defined]


def test_lines_without_numbers_are_left_out() -> None:
    empty = line("contig", nan, nan, nan, nan)
    figure = draw([empty, line("recency", nan, nan, nan, nan, heuristic=True)])
    assert list(figure.axes[0].containers) == []
    assert draw_models([{"a": ()}], K, Panel("", (), "K", "y"), "", ()) is None
