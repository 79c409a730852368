"""Text that fits: measured, wrapped and shortened."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

POINTS_PER_INCH = 72
ELLIPSIS = "…"


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a line of text in inches; ``size`` is in points."""
    font = FontProperties(size=size, weight=weight)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width) / POINTS_PER_INCH


def shorten(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Replace the middle of a text by an ellipsis if it is wider than ``width`` inches."""

    def keep(count: int) -> str:
        return text[: count - count // 2] + ELLIPSIS + text[len(text) - count // 2 :]

    if text_width(text, size, weight) <= width:
        return text
    too_many = bisect_right(range(len(text)), width, key=lambda n: text_width(keep(n), size, weight))
    return keep(max(1, too_many - 1))


def wrap(parts: Iterable[str], separator: str, width: float, size: float, weight: str = "normal") -> str:
    """Join parts into lines of at most ``width`` inches; a part that is wider by itself is shortened."""
    lines: list[str] = []
    for part in parts:
        part = shorten(part, width, size, weight)
        longer = f"{lines[-1]}{separator}{part}" if lines else part
        if lines and text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(lines)
