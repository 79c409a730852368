from __future__ import annotations

import os
from pathlib import Path

import pytest

from contig import caches
from contig.caches import cache_folder, is_writable, redirect_plot_cache, writable_cache_folder
from contig.errors import DiskError
from contig.files import expanded


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without a home, and a temporary folder of its own."""
    for name in ("CONTIG_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def missing() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", missing)
    monkeypatch.setattr(caches.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(caches.tempfile, "tempdir", str(tmp_path))
    caches._temporary_folder.cache_clear()


def test_a_user_without_a_home_gets_a_private_folder_and_a_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cache_folder()
    assert folder == tmp_path / f"contig-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache_folder() == folder
    assert caplog.text.count("set CONTIG_CACHE") == 1


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    others = tmp_path / f"contig-{os.getuid()}"
    others.mkdir()
    others.chmod(0o777)
    assert cache_folder() != others
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_written_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache_folder() == tmp_path / "home" / ".cache" / "contig"
    monkeypatch.setattr(Path, "home", lambda: Path("/proc/none"))
    assert cache_folder() == tmp_path / f"contig-{os.getuid()}"


def test_what_is_below_a_file_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not is_writable(tmp_path / "file" / "folder")
    assert is_writable(tmp_path / "a" / "b")


def test_a_home_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", missing)
    with pytest.raises(DiskError, match="~/x: this user has no home folder"):
        expanded("~/x")


def test_a_cache_folder_that_cannot_be_written_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTIG_CACHE", "/proc/none")
    with pytest.raises(DiskError, match=r"/proc/none/numba: .* set CONTIG_CACHE"):
        writable_cache_folder("numba")


def test_no_folder_at_all_is_refused_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(caches.tempfile, "gettempdir", missing)
    with pytest.raises(DiskError, match=r"neither .* set CONTIG_CACHE"):
        cache_folder()


def test_matplotlib_gets_a_folder_where_there_is_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", "/chosen")  # removed again by monkeypatch
    redirect_plot_cache()
    assert os.environ["MPLCONFIGDIR"] == "/chosen"
    monkeypatch.delenv("MPLCONFIGDIR")
    redirect_plot_cache()
    assert os.environ["MPLCONFIGDIR"] == str(cache_folder() / "matplotlib")
