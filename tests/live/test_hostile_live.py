"""A few attacks of each kind on a live engine; ``make torture`` runs hundreds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import hostile, hostile_live
from support.hostile import GOOD, count
from support.hostile_live import LiveReference

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, limits and mounts as Linux has them")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> LiveReference:
    return LiveReference(tmp_path_factory.mktemp("live-reference"))


@pytest.mark.parametrize(
    ("name", "attacks"),
    [
        ("live_killed", 6),
        ("live_damaged", 6),
        ("live_full_disk", 2),
        ("live_small_files", 2),
        ("live_two_engines", 1),
    ],
)
def test_attacks_end_well(name: str, attacks: int, reference: LiveReference, tmp_path: Path) -> None:
    if name == "live_full_disk" and not hostile.can_mount():
        pytest.skip("this user may not mount disks")
    ends = count(getattr(hostile_live, name), attacks, 1, reference, tmp_path)
    assert set(ends) <= GOOD, ends
