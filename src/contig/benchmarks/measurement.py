"""The result of one measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Range = tuple[float, float]
Unit = Literal["s", "bytes", "bytes/event"]


@dataclass(frozen=True)
class Measurement:
    """One row of a report: our figure in ``unit`` and the peer's; smaller is better.

    Figures are medians over ``repeats``, ranges their extremes. ``ratio`` is the peer's figure divided
    by ours, the median of the ratios of the single repeats: above 1, ours is better. A measurement
    without a peer has no ratio. One that could not be taken has no figures, and ``note`` says why.
    """

    name: str
    what: str
    unit: Unit = "s"
    peer_name: str = ""
    ours: float | None = None
    ours_range: Range | None = None
    peer: float | None = None
    peer_range: Range | None = None
    ratio: float | None = None
    ratio_range: Range | None = None
    repeats: int = 0
    note: str = ""

    @classmethod
    def compare(
        cls,
        name: str,
        what: str,
        ours: Sequence[float],
        peer_name: str,
        peer: Sequence[float],
        *,
        unit: Unit = "s",
        note: str = "",
    ) -> Measurement:
        """Summarize figures of both sides, one per repeat."""
        ratios = [theirs / own for own, theirs in zip(ours, peer, strict=True)]
        return cls(
            *(name, what, unit, peer_name, median(ours), _extremes(ours), median(peer), _extremes(peer)),
            *(median(ratios), _extremes(ratios), len(ratios), note),
        )

    @classmethod
    def without_peer(
        cls, name: str, what: str, ours: Sequence[float], *, unit: Unit = "s", note: str = ""
    ) -> Measurement:
        """Summarize figures that have no peer."""
        middle, extremes = median(ours), _extremes(ours)
        return cls(name, what, unit, ours=middle, ours_range=extremes, repeats=len(ours), note=note)

    @classmethod
    def missing(cls, name: str, reason: str, what: str = "not measured") -> Measurement:
        """Record that a measurement could not be taken."""
        return cls(name, what, note=reason)


def _extremes(values: Sequence[float]) -> Range:
    return min(values), max(values)
