"""Pictures of streams and of what was learned from them, drawn without a display."""

from __future__ import annotations

from contig.plots.comparisons import Contestant, comparison
from contig.plots.learning import learning_curve
from contig.plots.panels import Curve, Pair, Panel, curves, pairs
from contig.plots.streams import overview
from contig.plots.style import PART_COLOURS, SET_COLOURS, SIDE_COLOURS, check_target, inline_svg, save
from contig.plots.trajectories import trajectory

__all__ = [
    "PART_COLOURS",
    "SET_COLOURS",
    "SIDE_COLOURS",
    "Contestant",
    "Curve",
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
