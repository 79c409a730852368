"""A stream to draw, and the text of a figure as it is drawn."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from contig.data.events import EventStream

DAY = 86_400


def some_stream(start: int = 0, events: int = 700) -> EventStream:
    rng = np.random.default_rng(5)
    t = start + np.sort(rng.integers(0, 10 * DAY, events))
    t[0], t[-1] = start, start + 10 * DAY
    return EventStream.from_arrays(rng.integers(0, 23, events), rng.integers(0, 61, events), t)


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        return self.right - self.left

    def overlaps(self, other: Box, at_least: float = 1.0) -> bool:
        """Whether both share an area that is wider and higher than a pixel."""
        return (
            min(self.right, other.right) - max(self.left, other.left) > at_least
            and min(self.top, other.top) - max(self.bottom, other.bottom) > at_least
        )

    def within(self, other: Box) -> bool:
        return (
            self.left >= other.left
            and self.bottom >= other.bottom
            and self.right <= other.right
            and self.top <= other.top
        )


class DrawnText(NamedTuple):
    text: str
    box: Box
    slanted: bool


def drawn_texts(figure: Figure) -> list[DrawnText]:
    """Return every text that appears in the figure; ticks outside of the view, for example, do not."""
    found: list[DrawnText] = []
    draw = Text.draw

    def record(self: Text, renderer: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            box = Box(*map(float, self.get_window_extent(renderer).extents))
            found.append(DrawnText(self.get_text(), box, self.get_rotation() % 90 != 0))
        draw(self, renderer)

    with warnings.catch_warnings(), patch.object(Text, "draw", record):
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.draw_without_rendering()
    return found


def misplaced_texts(figure: Figure, texts: list[DrawnText] | None = None) -> list[str]:
    """Describe each text that leaves the figure, and each pair of texts that overlap.

    ``texts`` are those of ``drawn_texts``, if the figure was drawn before. The box of slanted text is
    larger than the text, so it is not compared with others.
    """
    texts = drawn_texts(figure) if texts is None else texts
    page = Box(*map(float, figure.bbox.extents))
    upright = [one for one in texts if not one.slanted]
    outside = [f"{text!r} leaves the figure" for text, box, _ in texts if not box.within(page)]
    return outside + [
        f"{a.text!r} overlaps {b.text!r}" for a, b in combinations(upright, 2) if a.box.overlaps(b.box)
    ]
