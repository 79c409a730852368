from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from numpy.typing import NDArray

from contig import plots
from contig.errors import ConfigError
from contig.events import EventStream
from contig.splits import intervals
from contig.summary import summarise
from contig.synthetic import synthetic

DAY = 86_400


def drawn(stream: EventStream, title: str = "a stream") -> Figure:
    return plots.overview(stream, summarise(stream), title)


def panels(stream: EventStream) -> tuple[Axes, Axes, Axes]:
    _, activity, degrees, gaps = drawn(stream).axes
    return activity, degrees, gaps


def some_stream(start: int = 0, events: int = 700) -> EventStream:
    rng = np.random.default_rng(5)
    t = start + np.sort(rng.integers(0, 10 * DAY, events))
    t[0], t[-1] = start, start + 10 * DAY
    return EventStream.from_arrays(rng.integers(0, 23, events), rng.integers(0, 61, events), t)


# --- activity ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 7, 1_600_000_000])
def test_the_bars_over_time_count_every_event_once(start: int) -> None:
    stream = some_stream(start)
    summary = summarise(stream)
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


def test_the_cuts_stand_where_validation_and_test_begin() -> None:
    stream = some_stream()
    activity, _, _ = panels(stream)
    split = summarise(stream).split
    places = [line.get_xdata()[0] for line in activity.get_lines()]  # type: ignore[index]
    assert places == pytest.approx([split.val.first / DAY, split.test.first / DAY])  # type: ignore[operator]


def test_unix_times_are_dated() -> None:
    figure = drawn(some_stream(1_600_000_000))  # 13 September 2020
    figure.draw_without_rendering()
    axis = figure.axes[1].xaxis
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


def test_colours_part_the_events_at_the_quintiles() -> None:
    stream = some_stream()
    _, _, gaps = panels(stream)
    cuts = list(summarise(stream).intervals.quantiles.values())
    dt = intervals(stream)
    expected = [np.count_nonzero(dt <= cut) for cut in cuts]
    got = np.cumsum([sum(bar.get_height() for bar in bars) for bars in gaps.containers])
    assert got.tolist() == expected
    assert [line.get_xdata()[0] for line in gaps.get_lines()] == pytest.approx(cuts[:-1])  # type: ignore[index]


def test_equal_cuts_get_one_line() -> None:
    n = 50
    stream = EventStream.from_arrays(np.arange(n), np.arange(n) + 100, np.arange(n))  # nobody comes again
    _, _, gaps = panels(stream)
    assert len(gaps.get_lines()) == 1
    assert [text.get_text() for text in gaps.texts] == ["80%: 0 s"]
    assert sum(bar.get_height() for bars in gaps.containers for bar in bars) == n


def test_milliseconds_are_drawn_as_what_they_are() -> None:
    seconds, millis = some_stream(1_600_000_000), some_stream(1_600_000_000)
    millis = EventStream.from_arrays(millis.src, millis.dst, millis.t * 1000)
    for one, other in zip(panels(seconds), panels(millis), strict=True):
        assert one.get_title(loc="left") == other.get_title(loc="left")
        assert one.get_xlim() == pytest.approx(other.get_xlim())
        assert [t.get_text() for t in one.texts] == [t.get_text() for t in other.texts]


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
def test_odd_times_are_drawn_whole(times: list[float], tmp_path: Path) -> None:
    stream = EventStream.from_arrays([1] * len(times), [2] * len(times), times)
    figure = drawn(stream)
    for panel in (figure.axes[1], figure.axes[3]):
        assert sum(bar.get_height() for bars in panel.containers for bar in bars) == len(times)
    plots.save(figure, tmp_path / "odd.png")
    assert imread(tmp_path / "odd.png").shape[2] == 4


def test_the_picture_shows_all_its_colours(tmp_path: Path) -> None:
    plots.save(drawn(synthetic(3000, seed=1), "synthetic"), tmp_path / "stream.png")
    assert (tmp_path / "stream.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = imread(tmp_path / "stream.png")[:, :, :3]
    assert min(pixels.shape[:2]) > 1000
    colours = Counter(map(bytes, (pixels * 255).round().astype(np.uint8).reshape(-1, 3)))
    shown = {to_hex(np.frombuffer(colour, np.uint8) / 255) for colour, n in colours.items() if n > 400}
    wanted = {*plots.PART_COLOURS.values(), *plots.SIDE_COLOURS.values(), *plots.SET_COLOURS}
    assert wanted <= shown


def test_titles_are_taken_as_they_are(tmp_path: Path) -> None:
    figure = drawn(some_stream(events=30), "$x^$ 数据_{}")
    plots.save(figure, tmp_path / "title.svg")
    assert "$x^$ 数据_{}" in (tmp_path / "title.svg").read_text("utf-8")


# --- writing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<?xml")])
def test_the_name_says_the_format(suffix: str, magic: bytes, tmp_path: Path) -> None:
    plots.save(Figure(), tmp_path / f"x.{suffix}")
    assert (tmp_path / f"x.{suffix}").read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [f"x.{suffix}"]


def test_a_failed_drawing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.png"
    target.write_bytes(b"old")

    def fail(self: Figure, path: Path, **options: object) -> None:
        path.write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(ConfigError, match=r"x\.png.*no space left"):
        plots.save(Figure(), target)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("x.gif", r"Unknown picture format 'gif'.*png"),
        ("x", r"Unknown picture format ''.*\.png"),
        ("no/x.png", "which is not a folder"),
        ("folder.png", "is a folder"),
    ],
)
def test_targets_that_cannot_be_written_are_refused(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ConfigError, match=told):
        plots.check_target(tmp_path / name)


# --- learning ------------------------------------------------------------------------------------------


def learned(precision: list[float], inductive: list[float]) -> list[dict[str, float]]:
    return [
        {"epoch": i + 1, "loss": 0.7 - 0.1 * i, "val_ap": ap, "val_ap_inductive": new}
        for i, (ap, new) in enumerate(zip(precision, inductive, strict=True))
    ]


def test_the_learning_curve_shows_every_epoch() -> None:
    figure = plots.learning_curve(learned([0.5, 0.8, 0.7], [0.4, 0.6, 0.65]), "contig on wikipedia")
    _, loss, precision = figure.axes
    curve, cut = loss.get_lines()
    assert curve.get_xdata().tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert curve.get_ydata() == pytest.approx([0.7, 0.6, 0.5])
    assert list(cut.get_xdata()) == [2, 2]
    known, new, best, _ = precision.get_lines()
    assert known.get_ydata() == pytest.approx([50, 80, 70])
    assert new.get_ydata() == pytest.approx([40, 60, 65])
    assert (best.get_xdata()[0], best.get_ydata()[0]) == (2, pytest.approx(80))  # type: ignore[index]
    told = [text.get_text() for text in figure.axes[0].texts]
    assert told[0] == "contig on wikipedia"
    assert "best epoch 2 of 3" in told[1]


@pytest.mark.parametrize("inductive", [float("nan"), 0.3])
def test_one_epoch_is_drawn_too(inductive: float, tmp_path: Path) -> None:
    plots.save(plots.learning_curve(learned([0.5], [inductive]), "a_b $x$"), tmp_path / "curve.png")
    assert imread(tmp_path / "curve.png").shape[2] == 4


# --- trajectories --------------------------------------------------------------------------------------


def travel(stream: EventStream, times: NDArray[Any], embeddings: NDArray[Any], node: int = 3) -> Figure:
    return plots.trajectory(stream, summarise(stream), node, times, embeddings.astype(np.float32), "a node")


def flat_path(points: int, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """A path in a plane, and the same path somewhere in a wider space."""
    rng = np.random.default_rng(7)
    plane = np.cumsum(rng.normal(size=(points, 2)), axis=0)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0][:2]
    return plane, plane @ turn + rng.normal(size=width)


def shown_path(figure: Figure) -> NDArray[Any]:
    return np.asarray(figure.axes[1].collections[1].get_offsets())


def test_a_flat_path_is_shown_as_it_is() -> None:
    """Distances between any two points of a path in a plane survive."""
    plane, embeddings = flat_path(31, 6)
    figure = travel(some_stream(), np.linspace(0, 10 * DAY, 31), embeddings)

    def apart(points: NDArray[Any]) -> NDArray[Any]:
        return np.linalg.norm(points[:, None] - points[None], axis=2)

    np.testing.assert_allclose(apart(shown_path(figure)), apart(plane), atol=1e-4)
    spread = np.linalg.eigvalsh(np.cov(plane.T))[::-1]
    labels = (figure.axes[1].get_xlabel(), figure.axes[1].get_ylabel())
    for label, share in zip(labels, spread / spread.sum(), strict=True):
        assert f"({share:.0%}" in label
    told = figure.axes[0].texts[1].get_text()
    assert f"a way of {np.linalg.norm(np.diff(plane, axis=0), axis=1).sum():.3g} in all" in told


def test_the_same_path_always_looks_the_same() -> None:
    _, embeddings = flat_path(20, 5)
    times = np.linspace(0, 10 * DAY, 20)
    one, two = (shown_path(travel(some_stream(), times, e)) for e in (embeddings, embeddings[:, ::-1]))
    np.testing.assert_allclose(one, two, atol=1e-4)


def test_the_panels_over_time() -> None:
    _, embeddings = flat_path(25, 6)
    stream = some_stream(777)
    times = np.linspace(777 + DAY, 777 + 6 * DAY, 25)
    figure = travel(stream, times, embeddings)
    distance, components = figure.axes[3], figure.axes[4]
    (line,) = distance.get_lines()
    far = [np.linalg.norm(point - embeddings[0]) for point in embeddings]
    np.testing.assert_allclose(line.get_ydata(), far, atol=1e-5)
    assert line.get_xdata() == pytest.approx((times - 777) / DAY)
    for number, curve in enumerate(components.get_lines()[:2]):
        np.testing.assert_allclose(curve.get_ydata(), shown_path(figure)[:, number])
    assert components.get_xlabel() == "days since the first event"
    assert components.get_xlim() == pytest.approx((1, 6))


def test_the_events_of_the_node_are_marked() -> None:
    stream = some_stream()
    times = np.linspace(2 * DAY, 6 * DAY, 9)
    _, embeddings = flat_path(9, 4)
    figure = travel(stream, times, embeddings)
    met = [
        t
        for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True)
        if 3 in (s, d) and times[0] <= t <= times[-1]
    ]
    assert len(met) > 5
    for axes in figure.axes[3:5]:
        strokes = axes.collections[-1].get_segments()
        assert [stroke[0][0] for stroke in strokes] == pytest.approx([t / DAY for t in met])
    marks = np.asarray(figure.axes[1].collections[2].get_offsets())
    rows = sorted({min(i for i in range(9) if times[i] > t) for t in met if t < times[-1]})
    np.testing.assert_allclose(marks, shown_path(figure)[rows])
    assert f"{len(met)} events" in figure.axes[0].texts[1].get_text()


def test_a_point_at_an_events_very_time_does_not_know_of_it() -> None:
    stream = EventStream.from_arrays([0, 0, 1], [7, 8, 9], [10, 20, 25])
    figure = travel(stream, np.array([0.0, 10.0, 15.0, 20.0, 30.0]), flat_path(5, 3)[1], node=0)
    marks = np.asarray(figure.axes[1].collections[2].get_offsets())
    np.testing.assert_allclose(marks, shown_path(figure)[[2, 4]])


def test_few_events_share_the_axis_evenly() -> None:
    """Between them time runs evenly; a short interval is as wide as a long one, and says how long it is."""
    stream = EventStream.from_arrays([0, 0, 0, 1], [7, 8, 7, 9], [100, 130, 3730, 5000])
    times = np.array([40.0, 70.0, 100.0, 115.0, 130.0, 1030.0, 3730.0, 3850.0])
    figure = travel(stream, times, flat_path(8, 3)[1], node=0)
    figure.draw_without_rendering()
    for axes in figure.axes[3:5]:
        assert axes.get_lines()[0].get_xdata() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.25, 3, 4])
        assert axes.get_xticks() == pytest.approx([0.5, 1.5, 2.5, 3.5])
        assert [stroke[0][0] for stroke in axes.collections[-1].get_segments()] == pytest.approx([1, 2, 3])
    told = [label.get_text() for label in figure.axes[4].get_xticklabels()]
    assert told == ["1 min", "30 s", "1 hour", "2 min"]


def test_a_dated_path() -> None:
    start = 1_600_000_000  # 13 September 2020
    figure = travel(some_stream(start), np.linspace(start, start + 10 * DAY, 12), flat_path(12, 4)[1])
    figure.draw_without_rendering()
    for axis in (figure.axes[4].xaxis, figure.axes[2].yaxis):
        assert axis.get_major_formatter().get_offset() == "2020-Sep"
    assert figure.axes[4].get_xlabel() == ""


@pytest.mark.parametrize(
    "embeddings",
    [np.zeros((2, 1)), np.ones((5, 3)), np.arange(4.0).reshape(4, 1), np.eye(2), np.full((3, 7), 1e8)],
    ids=["two-points-in-one-dimension", "still", "a-line", "a-step", "far-away"],
)
def test_odd_paths_are_drawn(embeddings: NDArray[Any], tmp_path: Path) -> None:
    figure = travel(some_stream(), np.linspace(0, DAY, len(embeddings)), embeddings)
    plots.save(figure, tmp_path / "path.png")
    assert imread(tmp_path / "path.png").shape[2] == 4


def test_a_node_without_events_and_a_moment_long(tmp_path: Path) -> None:
    stream = some_stream()
    figure = travel(stream, np.array([5.0, 5.0]), np.ones((2, 3)), node=stream.num_nodes - 1)
    plots.save(figure, tmp_path / "path.png")
    assert "0 events" in figure.axes[0].texts[1].get_text()
