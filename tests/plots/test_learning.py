"""The learning curve shows every epoch."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import NamedTuple

import pytest
from matplotlib.image import imread
from support.plotted import drawn_texts, misplaced_texts

from contig import plots


class Epoch(NamedTuple):
    epoch: int
    loss: float
    val_ap: float
    val_ap_inductive: float


def log(precision: list[float], inductive: list[float]) -> list[Epoch]:
    pairs = zip(precision, inductive, strict=True)
    return [Epoch(i + 1, 0.7 - 0.1 * i, ap, new) for i, (ap, new) in enumerate(pairs)]


def test_the_learning_curve_shows_every_epoch() -> None:
    figure = plots.learning_curve(log([0.5, 0.8, 0.7], [0.4, 0.6, 0.65]), "contig on wikipedia", 2)
    loss, precision = figure.axes
    curve, cut = loss.get_lines()
    assert curve.get_xdata().tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert curve.get_ydata() == pytest.approx([0.7, 0.6, 0.5])
    assert list(cut.get_xdata()) == [2, 2]
    transductive, inductive, best, _ = precision.get_lines()
    assert transductive.get_ydata() == pytest.approx([50, 80, 70])
    assert inductive.get_ydata() == pytest.approx([40, 60, 65])
    assert (best.get_xdata()[0], best.get_ydata()[0]) == (2, pytest.approx(80))  # type: ignore[index]
    title, facts = (text.get_text() for text in figure.texts)
    assert title == "contig on wikipedia"
    assert "best epoch 2 of 3" in facts


@pytest.mark.parametrize("inductive", [nan, 0.3])
def test_one_epoch_is_drawn_too(inductive: float, tmp_path: Path) -> None:
    figure = plots.learning_curve(log([0.5], [inductive]), "a_b $x$", 1)
    for axes in figure.axes:
        low, high = axes.get_xlim()
        assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1]
    assert ("inductive" in [text.text for text in drawn_texts(figure)]) is (inductive == 0.3)
    plots.save(figure, tmp_path / "curve.png")
    assert imread(tmp_path / "curve.png").shape[2] == 4


def test_long_titles_are_wrapped() -> None:
    figure = plots.learning_curve(log([0.5, 0.6], [0.4, 0.3]), "a model on " + "a file of events " * 6, 2)
    assert misplaced_texts(figure) == []
    assert figure.texts[0].get_text().count("\n") == 1
