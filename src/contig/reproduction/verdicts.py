"""Verdicts on the paper's claims, from means and standard deviations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from math import isnan

from contig.experiments.rows import Spread
from contig.reproduction.stats import compare


class Verdict(StrEnum):
    """What the results say about a claim."""

    HOLDS = "holds"
    ONLY_HERE = "holds only here"  # the paper's own numbers do not support it
    NEITHER = "holds in neither"
    PARTLY = "partly holds"
    OPEN = "within the spread"
    ONE_SEED = "one seed only"  # without a standard deviation nothing is judged
    FAILS = "does not hold"

    @property
    def style(self) -> str:
        """The style of its cell."""
        if self in (Verdict.HOLDS, Verdict.ONLY_HERE):
            return "up"
        return "down" if self is Verdict.FAILS else "even"


def higher(value: Spread, other: Spread) -> Verdict:
    """Judge the claim that ``value`` is higher than ``other``."""
    if isnan(value.std) or isnan(other.std):
        return Verdict.ONE_SEED
    verdicts = {"up": Verdict.HOLDS, "even": Verdict.OPEN, "down": Verdict.FAILS}
    return verdicts[compare(value, other)]


def every(verdicts: Collection[Verdict]) -> Verdict:
    """Combine the verdicts of a claim that makes several comparisons."""
    for decisive in (Verdict.ONE_SEED, Verdict.FAILS):
        if decisive in verdicts:
            return decisive
    held = sum(verdict is Verdict.HOLDS for verdict in verdicts)
    return Verdict.HOLDS if held == len(verdicts) else Verdict.PARTLY if held else Verdict.OPEN


def highest(value: Spread, others: Mapping[str, Spread]) -> Verdict:
    """Judge the claim that ``value`` is the highest: above every other, where one above it refutes that."""
    verdict = every([higher(value, other) for other in others.values()])
    return Verdict.OPEN if verdict is Verdict.PARTLY else verdict


def place(value: Spread, others: Mapping[str, Spread]) -> int:
    """Return the rank of ``value``, 1 for the best."""
    return 1 + sum(other.mean > value.mean for other in others.values())


def rank(value: Spread, others: Mapping[str, Spread]) -> str:
    """Describe the rank of ``value`` and its distance to the best of the others."""
    best = max(others, key=lambda name: others[name].mean)
    of_all = f"rank {place(value, others)} of {len(others) + 1}"
    return f"{of_all}, {value.mean - others[best].mean:+.2f} vs. {best}"
