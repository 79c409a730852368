"""Figures are summarized by their medians and extremes."""

from __future__ import annotations

from contig.benchmarks.measurement import Measurement


def test_a_ratio_is_the_peers_figure_divided_by_ours() -> None:
    row = Measurement.compare("x", "what", [2.0, 1.0, 4.0], "peer", [6.0, 5.0, 2.0])
    assert (row.ours, row.ours_range) == (2.0, (1.0, 4.0))
    assert (row.peer, row.peer_range) == (5.0, (2.0, 6.0))
    assert (row.ratio, row.ratio_range, row.repeats) == (3.0, (0.5, 5.0), 3)  # of 3, 5 and 0.5


def test_figures_without_a_peer_have_no_ratio() -> None:
    row = Measurement.without_peer("x", "what", [3.0, 7.0, 4.0], unit="bytes")
    assert (row.ours, row.ours_range, row.repeats, row.unit) == (4.0, (3.0, 7.0), 3, "bytes")
    assert (row.peer, row.ratio) == (None, None)
