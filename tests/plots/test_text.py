"""Text that fits into a given width."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import pytest
from matplotlib.figure import Figure
from support.plotted import drawn_texts

from contig.plots.text import shorten, text_width, wrap


@pytest.mark.parametrize(("text", "weight"), [("Wide and narrow", "normal"), ("Wide and narrow", "bold")])
def test_the_width_is_that_of_the_drawn_text(text: str, weight: str) -> None:
    figure = Figure(figsize=(5, 1), dpi=1000)
    figure.text(0.1, 0.5, text, fontsize=12, fontweight=weight)
    [drawn] = drawn_texts(figure)
    assert text_width(text, 12, weight) == pytest.approx(drawn.box.width / 1000, rel=0.02)


def test_text_that_fits_is_left_alone() -> None:
    assert shorten("short", 1.0, 10) == "short"


def test_long_text_keeps_its_ends() -> None:
    short = shorten("the beginning, a middle that nobody needs to read, the end", 1.5, 10)
    assert 1.3 < text_width(short, 10) <= 1.5
    begin, end = short.split("…")
    assert "the beginning".startswith(begin)
    assert "the end".endswith(end[-5:])
    assert abs(len(begin) - len(end)) <= 1


def test_lines_are_filled_but_not_wider() -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]
    lines = wrap(words, " ", 1.2, 10).split("\n")
    assert " ".join(lines).split() == words
    assert all(text_width(line, 10) <= 1.2 for line in lines)
    for line, following in pairwise(lines):
        assert text_width(f"{line} {following.split()[0]}", 10) > 1.2


def test_a_part_that_is_too_wide_is_shortened() -> None:
    lines = wrap(["a", "x" * 200, "b"], " ", 1.0, 10).split("\n")
    assert [line.replace("x", "") for line in lines] in (["a", "…", "b"], ["a …", "b"])
    assert all(text_width(line, 10) <= 1.0 for line in lines)


def test_characters_that_the_font_lacks_have_a_width() -> None:
    with matplotlib.rc_context({"font.family": "DejaVu Sans"}):
        assert text_width("数据", 10) > 0
