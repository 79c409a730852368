"""Figures of streams, training and results, drawn without a display."""

from __future__ import annotations

from contig.caches import redirect_plot_cache

redirect_plot_cache()  # before the imports below load Matplotlib, which then chooses its folder

from contig.plots.comparisons import ComparedModel, comparison
from contig.plots.learning import EpochResult, learning_curve
from contig.plots.panels import Curve, Marked, Pair, Panel, curves, pairs
from contig.plots.streams import overview
from contig.plots.style import INTERVAL_COLORS, SIDE_COLORS, SPLIT_COLORS, check_target, inline_svg, save
from contig.plots.trajectories import trajectory

__all__ = [
    "INTERVAL_COLORS",
    "SIDE_COLORS",
    "SPLIT_COLORS",
    "ComparedModel",
    "Curve",
    "EpochResult",
    "Marked",
    "Pair",
    "Panel",
    "check_target",
    "comparison",
    "curves",
    "inline_svg",
    "learning_curve",
    "overview",
    "pairs",
    "save",
    "trajectory",
]
