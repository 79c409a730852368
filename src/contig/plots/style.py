"""What every picture shares: colours, an empty figure, its heading, and how it is written."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")

INK, SOFT, GRID = "#1f2933", "#616e7c", "#e4e7eb"
PART_COLOURS = {"training": "#2f5d8a", "validation": "#eda63a", "test": "#cc4b37"}
SIDE_COLOURS = {"sources": "#2f5d8a", "destinations": "#cc4b37"}
CUT_LINE = (0, (4, 3))
SET_COLOURS = ("#cfe8dc", "#93cfbb", "#4dab9b", "#21797c", "#0f4757")  # short intervals to long ones
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
    """The path of a picture to be written, refused now rather than after the work is done."""
    target = Path(path).expanduser()
    if target.suffix[1:].lower() not in FORMATS:
        raise ConfigError(
            f"{target}: {unknown('picture format', target.suffix[1:], FORMATS)} Let the name end in .png."
        )
    if target.is_dir() or not target.parent.is_dir():
        problem = "is a folder" if target.is_dir() else f"lies in {target.parent}, which is not a folder"
        raise ConfigError(f"{target} {problem}; name a file in a folder that exists.")
    return target


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format its name ends in (png, svg, pdf), whole or not at all."""
    target = check_target(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with warnings.catch_warnings():
            # A title may hold letters our font lacks; they show as boxes, and that is no failure.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            figure.savefig(part, format=target.suffix[1:].lower(), dpi=160)
        part.replace(target)
    except OSError as error:
        raise ConfigError(
            f"{target}: the picture cannot be written ({error}); name another place."
        ) from error
    finally:
        part.unlink(missing_ok=True)


def inline_svg(figure: Figure, name: str) -> str:
    """A figure as an ``svg`` element to stand in a page, its ids beginning with ``name``.

    The colours of text, lines and ground are the page's ``--ink``, ``--soft``, ``--grid`` and ``--card``, so
    that they follow its light or dark. It refers to nothing outside itself.
    """
    file = StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", svg)
    variables = {INK: "--ink", SOFT: "--soft", GRID: "--grid", "#ffffff": "--card"}
    for colour, variable in variables.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.strip()


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in our style, which holds while it is drawn on."""
    with matplotlib.rc_context(STYLE):
        spacing = ConstrainedLayoutEngine(
            w_pad=0.12, h_pad=0.09, wspace=0.04, hspace=0.05, rect=(0, 0, 1, 0.975)
        )
        yield Figure(figsize=(width, height), layout=spacing, facecolor="white")


def draw_heading(axes: Axes, title: str, facts: Sequence[str]) -> None:
    axes.set_axis_off()
    at_top_left: dict[str, Any] = {
        "transform": axes.transAxes,
        "va": "top",
        "ha": "left",
        "parse_math": False,
    }
    axes.text(0.0, 1.25, title, fontsize=18, fontweight="bold", **at_top_left)
    axes.text(0.0, 0.35, "   ·   ".join(facts), fontsize=10.5, color=SOFT, **at_top_left)
