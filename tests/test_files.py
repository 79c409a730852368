from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest

from contig.errors import ConfigError, DiskError
from contig.files import as_path, check_file_path, is_leftover, replacing, write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_new_content_replaces_the_old_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "x.txt"
    with replacing(target) as part:
        part.write_text("new")
        assert not target.exists()
        assert part.parent == target.parent  # on the same disk, so that the last step cannot be halved
        assert part.suffix == ".txt"  # some writers go by it
        number = part.stat().st_ino
    assert target.read_text() == "new"
    assert target.stat().st_ino == number  # renamed, not copied
    assert names(target.parent) == ["x.txt"]
    assert target.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")

    def write() -> None:
        with replacing(target) as part:
            part.write_text("half of it")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["x.txt"]


def test_concurrent_writers_do_not_interfere(tmp_path: Path) -> None:
    target = tmp_path / "x.txt"
    with replacing(target) as one, replacing(target) as two:
        one.write_text("one")
        two.write_text("two")
    assert target.read_text() == "one"  # the outer block ends last
    assert names(tmp_path) == ["x.txt"]


def test_json_is_written_atomically(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    write_json(target, {"a": [1, 2.5, None], "ü": "ä"})
    assert json.loads(target.read_text("utf-8")) == {"a": [1, 2.5, None], "ü": "ä"}
    with pytest.raises(ValueError, match="JSON"):
        write_json(target, {"a": float("nan")})
    with pytest.raises(TypeError):
        write_json(target, {"a": object()})
    assert json.loads(target.read_text("utf-8"))["a"] == [1, 2.5, None]
    assert names(tmp_path) == ["x.json"]


@pytest.mark.parametrize("name", ["x.txt", "checkpoint.pt", "a.b.json"])
def test_what_a_kill_leaves_behind_is_recognized(name: str, tmp_path: Path) -> None:
    with replacing(tmp_path / name) as part:
        part.write_text("half")
        assert is_leftover(part)
    assert not is_leftover(tmp_path / name)


@pytest.mark.parametrize("name", [".lock", ".gitignore", ".notes.pt", ".x.txt.short.txt", ".a.b.c"])
def test_other_hidden_files_are_not_leftovers(name: str) -> None:
    assert not is_leftover(Path(name))


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "change its permissions"),
        (errno.EACCES, "choose another path"),
    ],
)
def test_a_disk_that_refuses_is_named_with_the_cure(code: int, cure: str, tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "x.txt"):
            raise OSError(code, os.strerror(code))

    with pytest.raises(DiskError, match=rf"x\.txt: {os.strerror(code)}; .*{cure}"):
        write()
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=r"x\.txt: "), replacing(tmp_path / "file" / "x.txt"):
        pass


@pytest.mark.parametrize("given", ["", "a\0b", 7, None])
def test_what_is_not_a_path_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="run="):
        as_path(given, "run")


@pytest.mark.skipif(sys.platform == "win32", reason="devices are files")
def test_a_device_is_not_replaced() -> None:
    with pytest.raises(ConfigError, match="/dev/null is not a regular file"):
        check_file_path(Path("/dev/null"))
