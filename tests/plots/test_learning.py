"""The picture of a training shows its epochs."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.image import imread

from contig import plots


def learned(precision: list[float], inductive: list[float]) -> list[dict[str, float]]:
    return [
        {"epoch": i + 1, "loss": 0.7 - 0.1 * i, "val_ap": ap, "val_ap_inductive": new}
        for i, (ap, new) in enumerate(zip(precision, inductive, strict=True))
    ]


def test_the_learning_curve_shows_every_epoch() -> None:
    figure = plots.learning_curve(learned([0.5, 0.8, 0.7], [0.4, 0.6, 0.65]), "contig on wikipedia")
    _, loss, precision = figure.axes
    curve, cut = loss.get_lines()
    assert curve.get_xdata().tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert curve.get_ydata() == pytest.approx([0.7, 0.6, 0.5])
    assert list(cut.get_xdata()) == [2, 2]
    known, new, best, _ = precision.get_lines()
    assert known.get_ydata() == pytest.approx([50, 80, 70])
    assert new.get_ydata() == pytest.approx([40, 60, 65])
    assert (best.get_xdata()[0], best.get_ydata()[0]) == (2, pytest.approx(80))  # type: ignore[index]
    told = [text.get_text() for text in figure.axes[0].texts]
    assert told[0] == "contig on wikipedia"
    assert "best epoch 2 of 3" in told[1]


@pytest.mark.parametrize("inductive", [float("nan"), 0.3])
def test_one_epoch_is_drawn_too(inductive: float, tmp_path: Path) -> None:
    figure = plots.learning_curve(learned([0.5], [inductive]), "a_b $x$")
    for axes in figure.axes[1:]:
        low, high = axes.get_xlim()
        assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1]
    plots.save(figure, tmp_path / "curve.png")
    assert imread(tmp_path / "curve.png").shape[2] == 4
