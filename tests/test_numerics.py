"""Training and evaluation give the numbers that belong to the version of the numerics.

The tolerances hold on every CPU. A step computes in float32 (rounding 6e-8); where CPUs add in another order,
losses were seen to differ by 2e-7, and two candidates that are nearly equal to change places, which moves an
average precision of this few events by up to 2e-3.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from support.golden import CASES, COMMAND, FILE, measure

from contig import numerics

TOLERANCES = {"first_losses": {"rel": 2e-6}, "loss": {"rel": 5e-6}}
OF_RANKS = {"abs": 0.01}

GOLDEN: dict[str, Any] = json.loads(FILE.read_text())
RENEW = (
    "If this is intended, raise VERSION in src/contig/numerics.py, say there what changed, and renew "
    f"tests/{FILE.name} with: {COMMAND}"
)


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return a line for each number outside of its tolerance."""
    return [
        f"{name}: {found.get(name)}, but {value} in tests/{FILE.name}"
        for name, value in expected.items()
        if found.get(name) != pytest.approx(value, **TOLERANCES.get(name, OF_RANKS))
    ]


@pytest.mark.usefixtures("fast_training")
@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_the_version(case: str) -> None:
    assert case in GOLDEN["cases"], f"{case} is new. Add it to tests/{FILE.name} with: {COMMAND}"
    changed = "\n".join(differences(measure(case), GOLDEN["cases"][case]))
    assert not changed, f"The numbers of {case} have changed (torch {torch.__version__}).\n{changed}\n{RENEW}"


def test_the_file_belongs_to_the_version() -> None:
    assert GOLDEN["numerics"] == numerics.VERSION, f"Renew tests/{FILE.name} with: {COMMAND}"
    assert list(GOLDEN["cases"]) == CASES


def test_every_version_has_a_description() -> None:
    assert list(numerics.CHANGES) == list(range(1, numerics.VERSION + 1))
    assert all(numerics.CHANGES.values())


@pytest.mark.parametrize(
    ("name", "factor", "noticed"),
    [
        ("loss", 1 + 1e-6, False),
        ("loss", 1 + 1e-5, True),
        ("first_losses", 1 + 1e-5, True),
        ("test_ap", 1.001, False),
        ("mrr", 1.1, True),
    ],
)
def test_changes_beyond_rounding_are_noticed(name: str, factor: float, noticed: bool) -> None:
    expected = GOLDEN["cases"]["contig"]
    value = expected[name]
    changed = [factor * x for x in value] if isinstance(value, list) else factor * value
    assert [line.split(":")[0] for line in differences({**expected, name: changed}, expected)] == (
        [name] if noticed else []
    )
