"""Verdicts on single and combined comparisons."""

from __future__ import annotations

from math import nan

import pytest

from contig.experiments.rows import Spread
from contig.reproduction.verdicts import Verdict, every, higher, highest, rank

HOLDS, PARTLY, OPEN = Verdict.HOLDS, Verdict.PARTLY, Verdict.OPEN
ONE_SEED, FAILS = Verdict.ONE_SEED, Verdict.FAILS


@pytest.mark.parametrize(
    ("value", "other", "verdict"),
    [
        ((90.0, 0.5), (88.9, 0.5), HOLDS),
        ((90.0, 0.5), (89.1, 0.5), OPEN),
        ((90.0, 0.5), (91.1, 0.5), FAILS),
        ((90.0, nan), (10.0, 0.5), ONE_SEED),
        ((90.0, 0.5), (10.0, nan), ONE_SEED),
    ],
)
def test_higher(value: tuple[float, float], other: tuple[float, float], verdict: Verdict) -> None:
    assert higher(Spread(*value), Spread(*other)) is verdict


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, OPEN], PARTLY),
        ([OPEN, OPEN], OPEN),
        ([HOLDS, FAILS, OPEN], FAILS),
        ([HOLDS, FAILS, ONE_SEED], ONE_SEED),
    ],
)
def test_every(verdicts: list[Verdict], combined: Verdict) -> None:
    assert every(verdicts) is combined


def test_the_highest_is_above_every_other_not_just_the_next() -> None:
    """The second has a lower mean than the first, but its seeds vary more."""
    others = {"tgat": Spread(88.9, 0.7), "tgn": Spread(88.7, 1.2)}
    assert highest(Spread(91.3, 1.5), others) is OPEN
    assert highest(Spread(91.3, 1.3), others) is HOLDS
    assert highest(Spread(80.0, 1.3), others) is FAILS


def test_rank() -> None:
    others = {"tgn": Spread(88.7, 1.2), "tgat": Spread(88.9, 0.7)}
    assert rank(Spread(91.3, 1.5), others) == "rank 1 of 3, +2.40 vs. tgat"
    assert rank(Spread(88.8, 1.5), others) == "rank 2 of 3, -0.10 vs. tgat"


def test_styles() -> None:
    assert [verdict.style for verdict in (HOLDS, Verdict.ONLY_HERE, FAILS, OPEN)] == [
        *("up", "up", "down", "even")
    ]
