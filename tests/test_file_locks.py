"""The lock of Windows, on a stand-in for ``msvcrt`` that locks byte ranges as Windows does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from contig import locks
from contig.errors import RunError
from contig.file_locks import UnixLock, WindowsLock, system_lock
from contig.locks import LOCK, locked

fcntl = pytest.importorskip("fcntl", reason="the stand-in needs the byte locks of Unix")

HOLDER = """
import sys
from pathlib import Path
from support.msvcrt import stand_in
from contig import locks
from contig.file_locks import WindowsLock
locks.system_lock = lambda: WindowsLock(stand_in())
with locks.locked(Path(sys.argv[1]), wait="wait" in sys.argv):
    print("locked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    from support.msvcrt import stand_in

    monkeypatch.setattr(locks, "system_lock", lambda: WindowsLock(stand_in()))


def hold(folder: Path, *more: str) -> subprocess.Popen[str]:
    tests = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), *more], **pipes)  # type: ignore[call-overload]


@pytest.mark.usefixtures("windows")
def test_the_lock_of_windows_refuses_a_second_process_and_names_the_first(tmp_path: Path) -> None:
    with hold(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(RunError, match=rf"in use by process {first.pid} since 20\d\d-"), locked(tmp_path):
            pass
        with hold(tmp_path, "wait") as second:
            assert second.stdout is not None
            first.communicate("\n")
            assert second.stdout.readline() == "locked\n"
            second.communicate("\n")
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("windows")
def test_the_lock_of_windows_ends_with_its_process(tmp_path: Path) -> None:
    with hold(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        first.kill()
    with locked(tmp_path / "new"), locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_closed_before_it_is_removed_where_open_files_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "system_lock", lambda: WindowsLock(SimpleNamespace(LK_NBLCK=2, locking=noted)))
    opened: list[int] = []
    unlink = Path.unlink

    def noted(handle: int, mode: int, count: int) -> None:
        opened.append(handle)

    def remove(path: Path, missing_ok: bool = False) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[-1])
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", remove)
    with locked(tmp_path):
        os.fstat(opened[-1])
    assert opened
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_is_not_about_the_lock_is_raised(tmp_path: Path) -> None:
    def locking(handle: int, mode: int, count: int) -> None:
        raise OSError(errno.EINVAL, "no locks here")

    lock = WindowsLock(SimpleNamespace(LK_NBLCK=2, locking=locking))
    with (tmp_path / "file").open("a+") as file, pytest.raises(OSError, match="no locks here"):
        lock.acquire(file, wait=False)


def test_a_file_system_without_locks_is_used_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: object, mode: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    without = SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4)
    monkeypatch.setattr(locks, "system_lock", lambda: UnixLock(without))
    with locked(tmp_path):
        assert (tmp_path / LOCK).exists()


def test_this_system_has_its_own_lock() -> None:
    assert isinstance(system_lock(), WindowsLock if sys.platform == "win32" else UnixLock)
