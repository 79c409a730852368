from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contig import locks
from contig.errors import RunError
from contig.locks import LOCK, is_locked, locked

HOLDER = """
import sys
from pathlib import Path
from contig.locks import locked
with locked(Path(sys.argv[1]), wait="wait" in sys.argv):
    print("locked", flush=True)
    sys.stdin.readline()
"""


def hold(folder: Path, *more: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), *more], **pipes)  # type: ignore[call-overload]


def test_a_second_process_is_refused_with_the_first_ones_pid(tmp_path: Path) -> None:
    with hold(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(RunError, match=rf"in use by process {first.pid} since 20\d\d-"), locked(tmp_path):
            pass
        first.communicate("\n")
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with hold(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        assert is_locked(tmp_path)
        first.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).exists()
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        pass


def test_waiting_gets_the_lock_when_the_first_process_ends(tmp_path: Path) -> None:
    with hold(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with hold(tmp_path, "wait") as second:
            assert second.stdout is not None
            with pytest.raises(RunError, match=f"process {first.pid}"), locked(tmp_path):
                pass
            first.communicate("\n")
            assert second.stdout.readline() == "locked\n"
            with pytest.raises(RunError, match=f"process {second.pid}"), locked(tmp_path):
                pass
            second.communicate("\n")


def test_a_folder_created_for_nothing_is_removed(tmp_path: Path) -> None:
    with locked(tmp_path / "new"):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()
    with locked(tmp_path / "kept"):
        (tmp_path / "kept" / "file").touch()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["file"]


def test_a_folder_that_vanishes_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may remove the folder, which it had created, before the lock's file is in it."""
    folder, create, calls = tmp_path / "run", Path.mkdir, []

    def vanishes_at_first(path: Path, *args: object, **settings: object) -> None:
        calls.append(path)
        if len(calls) > 1:
            create(path, *args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", vanishes_at_first)
    with locked(folder):
        assert (folder / LOCK).exists()
    assert calls == [folder, folder]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes as Unix has them")
def test_a_lock_holds_without_its_text_on_a_full_disk(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file may have any content
    try:
        with locked(tmp_path):
            assert (tmp_path / LOCK).read_text() == ""
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_process_on_another_machine_is_named_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(tmp_path):
        monkeypatch.setattr(locks.platform, "node", lambda: "here")
        (tmp_path / LOCK).write_text('{"pid": 12, "host": "there", "started": "today"}')
        with pytest.raises(RunError, match="in use by process 12 on there since today"), locked(tmp_path):
            pass
        (tmp_path / LOCK).write_text('{"pid": 12, "host": "here", "started": "today"}')
        with pytest.raises(RunError, match="in use by process 12 since today"), locked(tmp_path):
            pass
