"""The learning curve of a training run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from contig.plots.style import DASHED, INK, SPLIT_COLORS, legend_above, new_figure
from contig.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class EpochResult(Protocol):
    """What the curve shows of an epoch; epochs are counted from 1, and AP is between 0 and 1."""

    @property
    def epoch(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def val_ap(self) -> float: ...
    @property
    def val_ap_inductive(self) -> float: ...


def learning_curve(log: Sequence[EpochResult], title: str, best_epoch: int) -> Figure:
    """Draw loss and validation AP by epoch, and mark the best epoch, which another metric may have chosen."""
    epochs = [row.epoch for row in log]
    if math.isnan(log[-1].val_ap):
        return _loss_curve(log, title)
    [best] = [row for row in log if row.epoch == best_epoch]
    facts = (f"best epoch {best.epoch} of {len(log)}", f"validation AP {100 * best.val_ap:.2f}%")
    with new_figure(10.5, 3.5, title, facts) as figure:
        loss, precision = figure.subplots(1, 2)
        _draw_epochs(loss, epochs, [row.loss for row in log], SPLIT_COLORS["training"])
        loss.set_title("Training loss")
        _draw_epochs(
            precision, epochs, [row.val_ap for row in log], SPLIT_COLORS["validation"], "transductive", 100
        )
        inductive = [row.val_ap_inductive for row in log]
        if not all(map(math.isnan, inductive)):
            _draw_epochs(precision, epochs, inductive, SPLIT_COLORS["test"], "inductive", 100)
        precision.set_title("Validation AP, %")
        precision.plot(best.epoch, 100 * best.val_ap, "o", markersize=11, markerfacecolor="none", color=INK)
        legend_above(precision, columns=2)
        for axes in (loss, precision):
            axes.axvline(best.epoch, color=INK, linewidth=1.0, linestyle=DASHED)
            _label_epochs(axes, epochs)
    return figure


def _loss_curve(log: Sequence[EpochResult], title: str) -> Figure:
    """Draw the loss of a training without validation."""
    epochs, values = [row.epoch for row in log], [row.loss for row in log]
    with new_figure(6.0, 3.5, title, (f"{counted(len(log), 'epoch')}, no validation",)) as figure:
        axes = figure.subplots()
        _draw_epochs(axes, epochs, values, SPLIT_COLORS["training"])
        axes.set_title("Training loss")
        _label_epochs(axes, epochs)
    return figure


def _label_epochs(axes: Axes, epochs: Sequence[int]) -> None:
    axes.set_xlabel("epoch")
    axes.set_xlim(0.5, max(epochs) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))


def _draw_epochs(
    axes: Axes, epochs: Sequence[int], values: Sequence[float], color: str, label: str = "", scale: float = 1
) -> None:
    scaled = [scale * value for value in values]
    axes.plot(epochs, scaled, color=color, linewidth=1.8, marker="o", markersize=4, label=label)
