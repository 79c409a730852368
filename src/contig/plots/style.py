"""What all figures share: colors, the heading, and how they are saved."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from contig.errors import ConfigError, unknown
from contig.files import check_file_path, expanded, replacing
from contig.plots.text import POINTS_PER_INCH, wrap

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")

INK, SOFT, GRID = "#1f2933", "#616e7c", "#e4e7eb"
SPLIT_COLORS = {"training": "#2f5d8a", "validation": "#eda63a", "test": "#cc4b37"}
SIDE_COLORS = {"sources": "#2f5d8a", "destinations": "#cc4b37"}
DASHED = (0, (4, 3))
MARGIN = 0.2  # inches around the heading
TITLE_SIZE, FACT_SIZE = 18.0, 10.5
LINE_SPACING = 1.2
LEGEND_HEIGHT = 0.3  # inches
FACT_SEPARATOR = "   ·   "
INTERVAL_COLORS = ("#cfe8dc", "#93cfbb", "#4dab9b", "#21797c", "#0f4757")  # from short intervals to long ones
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
}


def check_target(path: str | os.PathLike[str]) -> Path:
    """Check the path of a figure before the work starts; raises ``ConfigError`` if it cannot be written."""
    target = expanded(path)
    if target.suffix[1:].lower() not in FORMATS:
        raise ConfigError(
            f"{target}: {unknown('image format', target.suffix[1:], FORMATS)} Use one of these extensions."
        )
    check_file_path(target)
    return target


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Save a figure as PNG, SVG or PDF, by its extension; the file is written completely or not at all."""
    target = check_target(path)
    with replacing(target) as part, warnings.catch_warnings():
        # A title may contain characters that the font lacks; they are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(part, format=target.suffix[1:].lower(), dpi=160)


def inline_svg(figure: Figure, name: str) -> str:
    """Return a figure as an ``svg`` element for an HTML page; all ids start with ``name``.

    Text, lines and background use the CSS variables ``--ink``, ``--soft``, ``--grid`` and ``--card`` of the
    page, so that they follow its light or dark theme. The element refers to nothing outside itself.
    """
    file = StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    order = dict.fromkeys(re.findall(r'(?:\bid="|href="#|url\(#)([^")]+)', svg))
    names = {old: f"{name}-{number}" for number, old in enumerate(order)}  # matplotlib's are random
    svg = re.sub(r'(\bid="|href="#|url\(#)([^")]+)', lambda m: m[1] + names[m[2]], svg)
    variables = {INK: "--ink", SOFT: "--soft", GRID: "--grid", "#ffffff": "--card"}
    for color, variable in variables.items():
        svg = svg.replace(color, f"var({variable})")
    return svg.strip()


@contextmanager
def new_figure(
    width: float,
    height: float,
    title: str = "",
    facts: Sequence[str] = (),
    legend: Sequence[Artist] = (),
) -> Iterator[Figure]:
    """Create a figure whose panels take ``width`` by ``height`` inches, with a heading above them.

    The heading consists of the title, a line of facts and a legend, as far as they are given, wrapped to
    the figure's width. Our style holds while the figure is drawn on.
    """
    with matplotlib.rc_context(STYLE):
        room = width - 2 * MARGIN
        texts = [
            HeadingText(wrap(title.split(), " ", room, TITLE_SIZE, "bold"), TITLE_SIZE, INK, "bold"),
            HeadingText(wrap(facts, FACT_SEPARATOR, room, FACT_SIZE), FACT_SIZE, SOFT, "normal"),
        ]
        shown = [text for text in texts if text.text]
        heading = sum(text.height for text in shown) + (LEGEND_HEIGHT if legend else 0.0)
        total = height + (MARGIN + heading if heading else 0.0)
        panels = (0, 0, 1, (height - 0.05) / total)
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.09, wspace=0.04, hspace=0.05, rect=panels)
        figure = Figure(figsize=(width, total), layout=layout, facecolor="white")
        _draw_heading(figure, shown, legend)
        yield figure


class HeadingText(NamedTuple):
    """A wrapped text of a heading."""

    text: str
    size: float
    color: str
    weight: str

    @property
    def height(self) -> float:
        """Inches, with some space below."""
        return ((self.text.count("\n") + 1) * LINE_SPACING + 0.4) * self.size / POINTS_PER_INCH


def _draw_heading(figure: Figure, texts: Sequence[HeadingText], legend: Sequence[Artist]) -> None:
    """Draw texts and legend from the top down."""
    x, y = MARGIN / figure.get_figwidth(), MARGIN
    for text in texts:
        figure.text(
            x,
            1 - y / figure.get_figheight(),
            text.text,
            va="top",
            ha="left",
            fontsize=text.size,
            fontweight=text.weight,
            color=text.color,
            linespacing=LINE_SPACING,
            parse_math=False,
        )
        y += text.height
    if legend:
        figure.legend(
            handles=list(legend),
            loc="upper left",
            bbox_to_anchor=(x, 1 - (y + 0.06) / figure.get_figheight()),
            ncols=len(legend),
            borderaxespad=0.0,
            borderpad=0.0,
            fontsize=FACT_SIZE - 1,
        )


def legend_above(axes: Axes, columns: int = 1) -> None:
    """Put the legend above the panel, right of its title."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.3)
