"""The picture of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from contig.plots.style import CUT_LINE, INK, PART_COLOURS, draw_heading, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def learning_curve(log: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Loss and validation AP by epoch, the best epoch marked.

    ``log`` has a row per epoch: ``epoch`` (from 1), ``loss``, ``val_ap`` and ``val_ap_inductive``.
    """
    epochs = [row["epoch"] for row in log]
    best = max(log, key=lambda row: row["val_ap"])
    facts = (f"best epoch {best['epoch']} of {len(log)}", f"validation AP {100 * best['val_ap']:.2f}")
    with new_figure(10.5, 4.4) as figure:
        grid = figure.add_gridspec(2, 2, height_ratios=(0.16, 1.0))
        draw_heading(figure.add_subplot(grid[0, :]), title, facts)
        loss, precision = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
        _draw_epochs(loss, epochs, [row["loss"] for row in log], PART_COLOURS["training"], "")
        loss.set_title("Training loss")
        for key, name, colour in (
            ("val_ap", "transductive", PART_COLOURS["validation"]),
            ("val_ap_inductive", "inductive", PART_COLOURS["test"]),
        ):
            _draw_epochs(precision, epochs, [100 * row[key] for row in log], colour, name)
        precision.set_title("Validation AP, %")
        precision.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.3)
        precision.plot(
            best["epoch"], 100 * best["val_ap"], "o", markersize=11, markerfacecolor="none", color=INK
        )
        for axes in (loss, precision):
            axes.axvline(best["epoch"], color=INK, linewidth=1.0, linestyle=CUT_LINE)
            axes.set_xlabel("epoch")
            axes.set_xlim(0.5, max(epochs) + 0.5)
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    return figure


def _draw_epochs(axes: Axes, epochs: Sequence[int], values: Sequence[float], colour: str, name: str) -> None:
    axes.plot(epochs, values, color=colour, linewidth=1.8, marker="o", markersize=4, label=name)
