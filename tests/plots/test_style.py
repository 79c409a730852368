"""Figures are saved completely or not at all, in the format of their extension."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from support.plotted import drawn_texts

from contig import plots
from contig.errors import ConfigError, DiskError
from contig.plots.style import new_figure


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<?xml")])
def test_the_extension_chooses_the_format(suffix: str, magic: bytes, tmp_path: Path) -> None:
    plots.save(Figure(), tmp_path / f"x.{suffix}")
    assert (tmp_path / f"x.{suffix}").read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [f"x.{suffix}"]


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.png"
    target.write_bytes(b"old")

    def fail(self: Figure, path: Path, **options: object) -> None:
        path.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(DiskError, match=r"x\.png: No space left on device; free"):
        plots.save(Figure(), target)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.gif", r"Unknown image format 'gif'.*png"),
        ("x", r"Unknown image format ''.*png"),
        ("file/x.png", "file is a file, not a folder"),
        ("folder.png", "is a folder"),
    ],
)
def test_targets_that_cannot_be_written_are_rejected(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=message):
        plots.check_target(tmp_path / name)


def test_a_heading_is_above_the_panels() -> None:
    handles = [Line2D([], [], label="a"), Line2D([], [], label="b")]
    with new_figure(
        6, 3, "A title that is far too long for one line of this figure", ["x", "y"], handles
    ) as figure:
        axes = figure.subplots()
        axes.set_title("panel")
    texts = {text.text: text.box for text in drawn_texts(figure)}
    title = next(text for text in texts if text.startswith("A title"))
    order = [texts[name] for name in (title, "x   ·   y", "a", "panel")]
    assert "\n" in title
    assert all(below.top < above.bottom for above, below in pairwise(order))
    assert figure.get_figheight() == pytest.approx(3 + 1.43, abs=0.02)


def test_without_a_heading_the_panels_fill_the_figure() -> None:
    with new_figure(6, 3) as figure:
        figure.subplots()
    assert figure.texts == []
    assert figure.get_figheight() == 3
