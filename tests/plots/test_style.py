"""Pictures are written whole, in the format their name says."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from contig import plots
from contig.errors import ConfigError


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<?xml")])
def test_the_name_says_the_format(suffix: str, magic: bytes, tmp_path: Path) -> None:
    plots.save(Figure(), tmp_path / f"x.{suffix}")
    assert (tmp_path / f"x.{suffix}").read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [f"x.{suffix}"]


def test_a_failed_drawing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.png"
    target.write_bytes(b"old")

    def fail(self: Figure, path: Path, **options: object) -> None:
        path.write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(ConfigError, match=r"x\.png.*no space left"):
        plots.save(Figure(), target)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("x.gif", r"Unknown picture format 'gif'.*png"),
        ("x", r"Unknown picture format ''.*\.png"),
        ("no/x.png", "which is not a folder"),
        ("folder.png", "is a folder"),
    ],
)
def test_targets_that_cannot_be_written_are_refused(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ConfigError, match=told):
        plots.check_target(tmp_path / name)
