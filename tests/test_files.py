from __future__ import annotations

import json
from pathlib import Path

import pytest

from contig.files import replacing, write_json


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
