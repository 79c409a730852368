"""The overview of a stream counts what is in the stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from support.plotted import DAY, misplaced_texts, some_stream

from contig import plots
from contig.data.events import EventStream
from contig.data.splits import intervals
from contig.data.summary import summarize
from contig.data.synthetic import synthetic


def drawn(stream: EventStream, title: str = "a stream") -> Figure:
    return plots.overview(stream, summarize(stream), title)


def panels(stream: EventStream) -> tuple[Axes, Axes, Axes]:
    activity, degrees, gaps = drawn(stream).axes
    return activity, degrees, gaps


# --- activity ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 7, 1_600_000_000])
def test_the_bars_over_time_count_every_event_once(start: int) -> None:
    stream = some_stream(start)
    summary = summarize(stream)
    activity, _, _ = panels(stream)
    first_bar = start / DAY if summary.time.unix else 0
    period = 3 * 3600
    assert activity.get_title(loc="left") == "Events per 3 hours"
    begin = 0
    split = summary.split
    for part, bars in zip((split.train, split.val, split.test), activity.containers, strict=True):
        expected = Counter((t - start) // period for t in stream.t[begin : begin + part.events].tolist())
        got = {round((bar.get_x() - first_bar) * DAY / period): bar.get_height() for bar in bars}
        assert got == expected
        assert sum(got.values()) == part.events
        begin += part.events
    assert begin == len(stream)


def test_bars_of_two_parts_are_stacked_not_overlaid() -> None:
    activity, _, _ = panels(some_stream())
    tops: dict[float, float] = {}
    for bar in (bar for bars in activity.containers for bar in bars):
        assert bar.get_y() == tops.get(bar.get_x(), 0)
        tops[bar.get_x()] = bar.get_y() + bar.get_height()
    assert sum(tops.values()) == 700


def test_lines_mark_where_validation_and_test_begin() -> None:
    stream = some_stream()
    activity, _, _ = panels(stream)
    split = summarize(stream).split
    places = [line.get_xdata()[0] for line in activity.get_lines()]  # type: ignore[index]
    assert places == pytest.approx([split.val.first / DAY, split.test.first / DAY])  # type: ignore[operator]


def test_unix_times_are_labeled_with_dates() -> None:
    figure = drawn(some_stream(1_600_000_000))  # 13 September 2020
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    labels = [label.get_text() for label in axis.get_ticklabels()]
    assert axis.get_major_formatter().get_offset() == "2020-Sep"
    assert "15" in labels


def test_other_times_are_counted_from_the_first_event() -> None:
    activity, _, _ = panels(some_stream(777))
    assert activity.get_xlabel() == "days since the first event"
    assert activity.get_xlim() == pytest.approx((0, 10.125))  # 81 bars of 3 hours


# --- degrees -------------------------------------------------------------------------------------------


def test_the_degree_curves_count_nodes_that_reach_a_degree() -> None:
    stream = some_stream()
    _, degrees, _ = panels(stream)
    assert (degrees.get_xscale(), degrees.get_yscale()) == ("log", "log")
    for column, line in zip((stream.src, stream.dst), degrees.get_lines(), strict=True):
        counts = Counter(column.tolist()).values()
        expected = {degree: sum(count >= degree for count in counts) for degree in set(counts)}
        assert dict(zip(*line.get_data(), strict=True)) == expected


# --- intervals -----------------------------------------------------------------------------------------


def test_the_interval_bars_count_every_event_once() -> None:
    stream = some_stream()
    dt = intervals(stream)
    _, _, gaps = panels(stream)
    assert gaps.get_xscale() == "log"
    heights: dict[float, float] = {}
    for bar in (bar for bars in gaps.containers for bar in bars):
        heights[bar.get_x()] = heights.get(bar.get_x(), 0) + bar.get_height()
    zero, *lefts = sorted(heights)
    assert heights[zero] == np.count_nonzero(dt == 0) > 0
    ratio = 10**0.2
    for left in lefts:
        assert heights[left] == np.count_nonzero(
            (dt >= left * (1 - 1e-12)) & (dt < left * ratio * (1 - 1e-12))
        )
    assert sum(heights.values()) == len(stream)


def test_colors_separate_the_events_at_the_quintiles() -> None:
    stream = some_stream()
    _, _, gaps = panels(stream)
    cuts = list(summarize(stream).intervals.quantiles.values())
    dt = intervals(stream)
    expected = [np.count_nonzero(dt <= cut) for cut in cuts]
    got = np.cumsum([sum(bar.get_height() for bar in bars) for bars in gaps.containers])
    assert got.tolist() == expected
    assert [line.get_xdata()[0] for line in gaps.get_lines()] == pytest.approx(cuts[:-1])  # type: ignore[index]


def test_equal_quintiles_share_a_line() -> None:
    n = 50
    stream = EventStream.from_arrays(np.arange(n), np.arange(n) + 100, np.arange(n))  # no source returns
    _, _, gaps = panels(stream)
    assert len(gaps.get_lines()) == 1
    assert gaps.get_xlabel() == "dashed: quintiles at 0 s"
    assert sum(bar.get_height() for bars in gaps.containers for bar in bars) == n


def test_milliseconds_are_recognized() -> None:
    seconds, millis = some_stream(1_600_000_000), some_stream(1_600_000_000)
    millis = EventStream.from_arrays(millis.src, millis.dst, millis.t * 1000)
    for one, other in zip(panels(seconds), panels(millis), strict=True):
        assert one.get_title(loc="left") == other.get_title(loc="left")
        assert one.get_xlim() == pytest.approx(other.get_xlim())
        assert one.get_xlabel() == other.get_xlabel()


# --- any stream can be drawn ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times",
    [
        [3],
        [3, 3, 3, 3],
        [0, 1],
        [0.0, 1e-7, 3e-7],
        [-5e11, 0.0, 5e11],
        [1_600_000_000, 1_600_000_000],
        [0, 1, 2**62],
    ],
    ids=str,
)
def test_odd_times_are_drawn_completely(times: list[float], tmp_path: Path) -> None:
    stream = EventStream.from_arrays([1] * len(times), [2] * len(times), times)
    figure = drawn(stream)
    for panel in (figure.axes[0], figure.axes[2]):
        assert sum(bar.get_height() for bars in panel.containers for bar in bars) == len(times)
    assert misplaced_texts(figure) == []
    plots.save(figure, tmp_path / "odd.png")
    assert imread(tmp_path / "odd.png").shape[2] == 4


def test_the_figure_shows_all_its_colors(tmp_path: Path) -> None:
    plots.save(drawn(synthetic(3000, seed=1), "synthetic"), tmp_path / "stream.png")
    assert (tmp_path / "stream.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = imread(tmp_path / "stream.png")[:, :, :3]
    assert min(pixels.shape[:2]) > 1000
    colors = Counter(map(bytes, (pixels * 255).round().astype(np.uint8).reshape(-1, 3)))
    shown = {to_hex(np.frombuffer(color, np.uint8) / 255) for color, n in colors.items() if n > 400}
    wanted = {*plots.SPLIT_COLORS.values(), *plots.SIDE_COLORS.values(), *plots.INTERVAL_COLORS}
    assert wanted <= shown


def test_titles_are_taken_literally(tmp_path: Path) -> None:
    figure = drawn(some_stream(events=30), "$x^$ 数据_{}")
    plots.save(figure, tmp_path / "title.svg")
    assert "$x^$ 数据_{}" in (tmp_path / "title.svg").read_text("utf-8")
