"""The figure of a trajectory shows the distances and events of a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from numpy.typing import NDArray
from support.plotted import DAY, misplaced_texts, some_stream

from contig import plots
from contig.data.events import EventStream
from contig.data.summary import summarize


def draw(stream: EventStream, times: NDArray[Any], embeddings: NDArray[Any], node: int = 3) -> Figure:
    return plots.trajectory(stream, summarize(stream), node, times, embeddings.astype(np.float32), "a node")


def flat_path(points: int, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """A path in a plane, and the same path somewhere in a wider space."""
    rng = np.random.default_rng(7)
    plane = np.cumsum(rng.normal(size=(points, 2)), axis=0)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0][:2]
    return plane, plane @ turn + rng.normal(size=width)


def shown_path(figure: Figure) -> NDArray[Any]:
    return np.asarray(figure.axes[0].collections[1].get_offsets())


def test_a_flat_path_keeps_its_shape() -> None:
    """Distances between points of a path in a plane do not change."""
    plane, embeddings = flat_path(31, 6)
    figure = draw(some_stream(), np.linspace(0, 10 * DAY, 31), embeddings)

    def apart(points: NDArray[Any]) -> NDArray[Any]:
        return np.linalg.norm(points[:, None] - points[None], axis=2)

    np.testing.assert_allclose(apart(shown_path(figure)), apart(plane), atol=1e-4)
    spread = np.linalg.eigvalsh(np.cov(plane.T))[::-1]
    labels = (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel())
    for label, share in zip(labels, spread / spread.sum(), strict=True):
        assert f"({share:.0%}" in label
    facts = figure.texts[1].get_text()
    assert f"path length {np.linalg.norm(np.diff(plane, axis=0), axis=1).sum():.3g}" in facts


def test_the_same_path_always_looks_the_same() -> None:
    _, embeddings = flat_path(20, 5)
    times = np.linspace(0, 10 * DAY, 20)
    one, two = (shown_path(draw(some_stream(), times, e)) for e in (embeddings, embeddings[:, ::-1]))
    np.testing.assert_allclose(one, two, atol=1e-4)


def test_the_panels_over_time() -> None:
    _, embeddings = flat_path(25, 6)
    stream = some_stream(777)
    times = np.linspace(777 + DAY, 777 + 6 * DAY, 25)
    figure = draw(stream, times, embeddings)
    distance, components = figure.axes[2], figure.axes[3]
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
    figure = draw(stream, times, embeddings)
    met = [
        t
        for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True)
        if 3 in (s, d) and times[0] <= t <= times[-1]
    ]
    assert len(met) > 5
    for axes in figure.axes[2:4]:
        strokes = axes.collections[-1].get_segments()
        assert [stroke[0][0] for stroke in strokes] == pytest.approx([t / DAY for t in met])
    marks = np.asarray(figure.axes[0].collections[2].get_offsets())
    rows = sorted({min(i for i in range(9) if times[i] > t) for t in met if t < times[-1]})
    np.testing.assert_allclose(marks, shown_path(figure)[rows])
    assert f"{len(met)} events" in figure.texts[1].get_text()


def test_a_point_at_the_time_of_an_event_has_not_seen_it() -> None:
    stream = EventStream.from_arrays([0, 0, 1], [7, 8, 9], [10, 20, 25])
    figure = draw(stream, np.array([0.0, 10.0, 15.0, 20.0, 30.0]), flat_path(5, 3)[1], node=0)
    marks = np.asarray(figure.axes[0].collections[2].get_offsets())
    np.testing.assert_allclose(marks, shown_path(figure)[[2, 4]])


def test_intervals_between_few_events_are_equally_wide() -> None:
    """Time is linear within an interval, and each interval is labeled with its length."""
    stream = EventStream.from_arrays([0, 0, 0, 1], [7, 8, 7, 9], [100, 130, 3730, 5000])
    times = np.array([40.0, 70.0, 100.0, 115.0, 130.0, 1030.0, 3730.0, 3850.0])
    figure = draw(stream, times, flat_path(8, 3)[1], node=0)
    figure.draw_without_rendering()
    for axes in figure.axes[2:4]:
        assert axes.get_lines()[0].get_xdata() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.25, 3, 4])
        assert axes.get_xticks() == pytest.approx([0.5, 1.5, 2.5, 3.5])
        assert [stroke[0][0] for stroke in axes.collections[-1].get_segments()] == pytest.approx([1, 2, 3])
    assert figure.axes[1].get_yticks().tolist() == [1, 2, 3]  # the events, on the color bar
    lengths = [label.get_text() for label in figure.axes[3].get_xticklabels()]
    assert lengths == ["1 min", "30 s", "1 hour", "2 min"]


def test_unix_times_are_labeled_with_dates() -> None:
    start = 1_600_000_000  # 13 September 2020
    figure = draw(some_stream(start), np.linspace(start, start + 10 * DAY, 12), flat_path(12, 4)[1])
    figure.draw_without_rendering()
    for axis in (figure.axes[3].xaxis, figure.axes[1].yaxis):
        assert axis.get_major_formatter().get_offset() == "2020-Sep"
    assert figure.axes[3].get_xlabel() == ""


@pytest.mark.parametrize(
    "embeddings",
    [np.zeros((2, 1)), np.ones((5, 3)), np.arange(4.0).reshape(4, 1), np.eye(2), np.full((3, 7), 1e8)],
    ids=["two-points-in-one-dimension", "still", "a-line", "a-step", "far-away"],
)
def test_odd_paths_are_drawn(embeddings: NDArray[Any], tmp_path: Path) -> None:
    figure = draw(some_stream(), np.linspace(0, DAY, len(embeddings)), embeddings)
    assert misplaced_texts(figure) == []
    plots.save(figure, tmp_path / "path.png")
    assert imread(tmp_path / "path.png").shape[2] == 4


def test_a_single_time_without_events_is_drawn(tmp_path: Path) -> None:
    stream = some_stream()
    figure = draw(stream, np.array([5.0, 5.0]), np.ones((2, 3)), node=stream.num_nodes - 1)
    plots.save(figure, tmp_path / "path.png")
    assert "0 events" in figure.texts[1].get_text()
