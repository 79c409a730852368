"""A few attacks of each kind; ``make torture`` runs thousands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import hostile, hostile_commands
from support.hostile import GOOD, Reference, count
from support.hostile_commands import Workplace

SECONDS = 0.4  # within which a training is killed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, limits and mounts as Linux has them")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    made = Reference(tmp_path_factory.mktemp("reference"))
    with hostile.fast_training():
        made.run(0), made.run(1), made.updated  # compiled before the first fork
    return made


@pytest.mark.parametrize(
    ("name", "attacks", "more"),
    [
        ("damaged_run", 40, []),
        ("damaged_history", 10, []),
        ("killed", 3, [SECONDS]),
        ("killed_update", 4, [hostile.UPDATE_SECONDS]),
        ("two_at_once", 1, []),
        ("two_resumes", 1, [SECONDS]),
        ("small_files", 2, []),
        ("full_disk", 1, []),
        ("read_only", 1, []),
    ],
)
def test_attacks_end_well(
    name: str, attacks: int, more: list[float], reference: Reference, tmp_path: Path
) -> None:
    if name in ("full_disk", "read_only") and not hostile.can_mount():
        pytest.skip("this user may not mount disks")
    ends = count(getattr(hostile, name), attacks, 1, reference, tmp_path, *more)
    assert set(ends) <= GOOD, ends


def test_a_user_without_a_home_trains(tmp_path: Path) -> None:
    assert count(hostile.homeless, 1, 1, tmp_path) == {"finished": 1}


def test_a_plain_user_id_in_a_read_only_image_trains(tmp_path: Path) -> None:
    if not hostile.can_make_image():
        pytest.skip("this user may not create namespaces of users and mounts")
    # A heuristic needs few compiled loops: none is cached in the image.
    assert count(hostile.read_only_image, 1, 1, tmp_path, ["edgebank"]) == {"finished": 1}


def test_hostile_words_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the process was is restored
    place = Workplace(tmp_path / "workplace")
    ends = count(hostile_commands.hostile_command, 20, 1, place, tmp_path)
    assert set(ends) <= GOOD, ends


def test_a_disturbed_command_works_or_says_what_is_wrong(reference: Reference, tmp_path: Path) -> None:
    if not hostile.can_mount():
        pytest.skip("this user may not mount disks")
    ends = count(hostile_commands.disturbed_command, 1, 1, reference, tmp_path)
    assert set(ends) <= GOOD, ends
