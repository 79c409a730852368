"""The figure that compares models shows every number, and its texts do not overlap."""

from __future__ import annotations

from math import nan
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread
from support.plotted import drawn_texts, misplaced_texts

from contig import plots
from contig.plots import ComparedModel

MODELS = [
    ComparedModel("slow", True, (0.7, 0.02), (0.65, 0.03), 900.0),
    ComparedModel("quick", True, (0.9, nan), (nan, nan), 40_000.0),
    ComparedModel("failed", True, (nan, nan), (nan, nan), nan),
    ComparedModel("heuristic", False, (0.8, nan), (0.85, nan), nan),
    ComparedModel("other heuristic", False, (0.6, nan), (0.5, nan), nan),
]
FACTS = (
    "3 seeds, bars are ± one standard deviation",
    "random negatives, batches of 200, held-out nodes by holdout tgn",
    "Intel(R) Xeon(R) Processor CPU @ 2.20GHz, 2 threads",
)


def panels(models: list[ComparedModel]) -> tuple[Axes, Axes]:
    precision, speed = plots.comparison({"mooc": models}, ["2 seeds"]).axes
    return precision, speed


def marks(axes: Axes) -> list[tuple[float, float, float]]:
    """Return x, y and the length of the error bar (each way, NaN for none) of every mark."""
    found = []
    for container in axes.containers:
        line, _, [bars] = container.lines  # type: ignore[attr-defined]
        for x, y, bar in zip(*line.get_data(), bars.get_segments(), strict=True):
            found.append((float(x), float(y), float(bar[1][0] - bar[0][0]) / 2 if len(bar) else nan))
    return found


def test_models_are_ranked() -> None:
    precision, _ = panels(MODELS)
    names = [label.get_text() for label in precision.get_yticklabels()]
    assert names == ["quick", "heuristic", "slow", "other heuristic"]
    assert precision.get_ylim()[0] > precision.get_ylim()[1]  # the first on top
    assert [label.get_fontstyle() == "italic" for label in precision.get_yticklabels()] == [
        False,
        True,
        False,
        True,
    ]


def test_every_ap_has_its_mark_and_its_value() -> None:
    precision, _ = panels(MODELS)
    found = sorted((round(y), x, length) for x, y, length in marks(precision))
    expected = [(0, 90, nan), (1, 80, nan), (1, 85, nan), (2, 65, 3), (2, 70, 2), (3, 50, nan), (3, 60, nan)]
    assert found == [pytest.approx(mark, nan_ok=True) for mark in expected]
    values = sorted((text.xy[1], text.get_text()) for text in precision.texts)  # type: ignore[attr-defined]
    assert values == [
        *((0, "90.0"), (1, "80.0"), (1, "85.0"), (2, "65.0"), (2, "70.0"), (3, "50.0"), (3, "60.0"))
    ]


def test_a_line_marks_the_best_heuristic() -> None:
    precision, _ = panels(MODELS)
    lines = [line for line in precision.get_lines() if list(line.get_ydata()) == [0, 1]]
    assert [line.get_xdata()[0] for line in lines] == pytest.approx([80])  # type: ignore[index]


def test_speeds_are_in_the_rows_of_their_models() -> None:
    precision, speed = panels(MODELS)
    assert speed.get_xscale() == "log"
    [line] = speed.get_lines()
    assert sorted(zip(*line.get_data(), strict=True)) == [(900, 2), (40_000, 0)]
    assert {text.get_text() for text in speed.texts} == {"900", "40k"}
    assert speed.get_ylim() == precision.get_ylim()


def made_up(count: int, name: str, rng: np.random.Generator, *, inductive: bool) -> list[ComparedModel]:
    """Models, the last of them heuristics, with APs that are close to each other."""
    models = []
    for number in range(count):
        ap, learns = float(rng.uniform(0.9, 0.99)), number < count - 1 - count // 6
        new = (ap - 0.02, 0.01) if inductive else (nan, nan)
        speed = float(10 ** rng.uniform(2.5, 5)) if learns else nan
        models.append(ComparedModel(name.format(number), learns, (ap, 0.01), new, speed))
    return models


NAMES = ("my_package.models.continuous_time:ModelNumber{}", "model {}")
COUNTS = (18, 3, 11, 5, 3, 14)  # models on each of six streams


@pytest.mark.parametrize("streams", range(1, 7))
def test_no_text_overlaps_or_leaves_the_figure(streams: int) -> None:
    rng = np.random.default_rng(streams)
    data = {
        f"{'a long name of events ' * (3 * i % 7)}{i}.parquet": made_up(
            COUNTS[i], NAMES[i % 2], rng, inductive=i % 3 != 1
        )
        for i in range(streams)
    }
    figure = plots.comparison(data, FACTS)
    drawn = drawn_texts(figure)
    assert misplaced_texts(figure, drawn) == []
    texts = [text for text, _, _ in drawn]
    assert texts.count("test AP, %") == texts.count("training events per second") == streams
    assert f"Link prediction on {'0.parquet' if streams == 1 else f'{streams} datasets'}" in texts
    assert texts.count("transductive") == texts.count("inductive") == 1


@pytest.mark.parametrize("models", [MODELS, MODELS[:1], MODELS[3:]], ids=["all", "one", "heuristics-only"])
def test_odd_sets_of_models_are_drawn(models: list[ComparedModel], tmp_path: Path) -> None:
    figure = plots.comparison({"a_b $x$": models}, ["one seed"])
    assert misplaced_texts(figure) == []
    plots.save(figure, tmp_path / "compare.png")
    assert imread(tmp_path / "compare.png").shape[2] == 4


def test_each_stream_has_its_panels() -> None:
    figure = plots.comparison({"mooc": MODELS, "wikipedia": MODELS[:2], "lastfm": MODELS[1:]}, ["one seed"])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["mooc", "", "wikipedia", "", "lastfm", ""]
    rows = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes[::2]]
    assert rows[1:] == [["quick", "slow"], ["quick", "heuristic", "other heuristic"]]
