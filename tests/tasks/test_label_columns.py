"""Columns about an event, against loops over everything that came before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contig.data.validation import UNKNOWN_LABEL as UNKNOWN
from contig.tasks.label_columns import (
    FEW,
    PARTNERS,
    LabelColumns,
    LabeledEvents,
    graph_columns,
    simple_columns,
)

EVENTS, NODES = 140, 11


def drawn(seed: int = 0, *, whole: bool = True) -> LabeledEvents:
    """Events between few nodes, some with themselves, many at equal times, some without a known label."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 60, EVENTS))
    return LabeledEvents(
        src=rng.integers(0, NODES, EVENTS),
        dst=rng.integers(3, NODES, EVENTS),
        t=t if whole else t / 8,
        label=rng.choice([0, 1, UNKNOWN], EVENTS, p=[0.6, 0.3, 0.1]),
        features=rng.normal(size=(EVENTS, 3)).astype(np.float32),
        feature_names=("price", "kind", "weight"),
        numeric=np.array([0, 2]),
    )


def by_name(found: LabelColumns) -> dict[str, np.ndarray]:
    return dict(zip(found.names, found.values.T, strict=True))


def before(events: LabeledEvents, row: int, node: int) -> list[int]:
    """The events of a node strictly before a row's time."""
    return [
        e for e in range(EVENTS) if events.t[e] < events.t[row] and node in (events.src[e], events.dst[e])
    ]


def known(events: LabeledEvents, rows: list[int], at: float, delay: float) -> list[int]:
    return [e for e in rows if events.t[e] + delay < at and events.label[e] != UNKNOWN]


@pytest.mark.parametrize(("delay", "whole"), [(0.0, True), (4.0, True), (2.5, True), (0.375, False)])
def test_simple_columns_are_those_of_a_loop(delay: float, whole: bool) -> None:
    events = drawn(whole=whole)
    rows = np.array([0, 1, 5, 77, 90, 91, 138, 139])
    found = by_name(simple_columns(events, rows, delay))
    for i, row in enumerate(rows.tolist()):
        src, dst, t = events.src[row], events.dst[row], events.t[row]
        met = [e for e in range(EVENTS) if events.t[e] < t and (events.src[e], events.dst[e]) == (src, dst)]
        pasts = {"source": before(events, row, src), "destination": before(events, row, dst), "pair": met}
        assert found["kind"][i] == events.features[row, 1]
        for name, past in pasts.items():
            assert found[f"events of the {name}"][i] == pytest.approx(np.log1p(len(past)), rel=1e-6)
            since = np.log1p(t - events.t[past[-1]]) if past else np.nan
            assert found[f"time since the {name}"][i] == pytest.approx(since, rel=1e-6, nan_ok=True)
            labels = events.label[known(events, past, t, delay)]
            assert found[f"known labels of the {name}"][i] == pytest.approx(np.log1p(len(labels)), rel=1e-6)
            assert found[f"positive labels of the {name}"][i] == pytest.approx(
                np.log1p(labels.sum()), rel=1e-6
            )
            rate = labels.mean() if len(labels) else np.nan
            assert found[f"rate of positive labels of the {name}"][i] == pytest.approx(rate, nan_ok=True)
        for name in ("source", "destination"):
            for column, feature in ((0, "price"), (2, "weight")):
                numbers = events.features[pasts[name], column].astype(np.float64)
                above = events.features[row, column] - numbers.mean() if len(numbers) else np.nan
                assert found[f"{feature} above the mean of the {name}"][i] == pytest.approx(
                    above, abs=1e-5, nan_ok=True
                )
                scaled = above / (numbers.std() + 0.1) if len(numbers) > 1 else np.nan
                assert found[f"{feature} in deviations of the {name}"][i] == pytest.approx(
                    scaled, abs=1e-4, nan_ok=True
                )
    assert not any("pair" in name and "price" in name for name in found)


@pytest.mark.parametrize("delay", [2.5, 4.0])
def test_delays_are_exact_at_unix_nanoseconds(delay: float) -> None:
    """Shifted by an epoch, at which float64 is 256 ticks apart, the same labels are known."""
    events, rows = drawn(5), np.arange(EVENTS)
    later = replace(events, t=events.t + 1_700_000_000 * 10**9)
    for columns in (simple_columns, graph_columns):
        assert np.array_equal(
            columns(later, rows, delay).values, columns(events, rows, delay).values, equal_nan=True
        )


def share_of(events: LabeledEvents, node: int, without: int, t: float, delay: float) -> float:
    """The share of marked sources among those that met a node before t."""
    met = {events.src[e] for e in range(EVENTS) if events.t[e] < t and events.dst[e] == node} - {without}
    marked = {events.src[e] for e in range(EVENTS) if events.label[e] == 1 and events.t[e] + delay < t}
    return len(met & marked) / (len(met) + FEW)


@pytest.mark.parametrize(("delay", "whole"), [(0.0, True), (5.0, True), (0.375, False)])
def test_graph_columns_are_those_of_a_loop(delay: float, whole: bool) -> None:
    events = drawn(3, whole=whole)
    rows = np.array([0, 2, 60, 100, 101, 139])
    found = by_name(graph_columns(events, rows, delay))
    for i, row in enumerate(rows.tolist()):
        src, dst, t = events.src[row], events.dst[row], events.t[row]
        expected = share_of(events, dst, src, t, delay)
        assert found["marked sources of the destination"][i] == pytest.approx(expected)
        for name, node in (("source", src), ("destination", dst)):
            past = before(events, row, node)[::-1][:PARTNERS]
            partners = [events.dst[e] if events.src[e] == node else events.src[e] for e in past]
            shares = [share_of(events, p, src, t, delay) for p in partners]
            rates = []
            for partner in partners:
                labels = events.label[known(events, before(events, row, partner), t, delay)]
                rates.append(labels.sum() / (len(labels) + FEW))
            for kind, values in (("marked sources", shares), ("labels", rates)):
                column = f"{kind} of partners of the {name}"
                nothing = not values
                assert found[f"{column}, mean"][i] == pytest.approx(
                    np.nan if nothing else np.mean(values), rel=1e-5, nan_ok=True
                )
                assert found[f"{column}, largest"][i] == pytest.approx(
                    np.nan if nothing else max(values), rel=1e-5, nan_ok=True
                )
                assert found[f"{column}, latest"][i] == pytest.approx(
                    np.nan if nothing else values[0], rel=1e-5, nan_ok=True
                )


def everything(events: LabeledEvents, rows: np.ndarray, delay: float) -> np.ndarray:
    return np.concatenate([of(events, rows, delay).values for of in (simple_columns, graph_columns)], axis=1)


def test_what_happens_at_or_after_its_time_changes_no_column() -> None:
    events, rng = drawn(5), np.random.default_rng(9)
    row = 85
    later = np.flatnonzero((events.t >= events.t[row]) & (np.arange(EVENTS) != row))
    src, dst, label = events.src.copy(), events.dst.copy(), events.label.copy()
    features = events.features.copy()
    src[later], dst[later] = rng.integers(0, NODES, (2, len(later)))
    label[later] = rng.integers(0, 2, len(later))
    features[later] += rng.normal(size=(len(later), 3)).astype(np.float32)
    label[row] = 1 - max(events.label[row], 0)  # not even its own label
    changed = replace(events, src=src, dst=dst, label=label, features=features)
    for delay in (0.0, 3.0):
        one, two = (everything(of, np.array([row]), delay) for of in (events, changed))
        np.testing.assert_array_equal(one, two)  # to the last bit
    cut = LabeledEvents(
        *(getattr(events, name)[: row + 1] for name in ("src", "dst", "t", "label", "features")),
        events.feature_names,
        events.numeric,
    )
    np.testing.assert_array_equal(
        everything(cut, np.array([row]), 3.0), everything(events, np.array([row]), 3.0)
    )


def test_labels_within_the_delay_change_no_column_and_earlier_ones_do() -> None:
    events, row, delay = drawn(6), 120, 12
    recent = (events.t + delay >= events.t[row]) & (events.t < events.t[row])
    assert recent.sum() > 5
    label = np.where(recent, 1, events.label)
    columns = np.array([row])
    hidden = everything(replace(events, label=label), columns, delay)
    np.testing.assert_array_equal(hidden, everything(events, columns, delay))
    assert not np.array_equal(
        everything(replace(events, label=label), columns, 0), everything(events, columns, 0), equal_nan=True
    )
