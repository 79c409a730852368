"""Where a user cuts a stream: shares and times, by definition and at their edges."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contig.data.cuts import ShareCuts, TimeCuts, parse_split, split_text
from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.errors import ConfigError, ContigError

DAY = 86_400
MAY = int(datetime(2024, 5, 1, tzinfo=UTC).timestamp())


def stream_at(times: Any) -> EventStream:
    t = np.asarray(times)
    n = np.arange(len(t))
    return EventStream.from_arrays(n % 5, 7 + n % 3, t)


def days(*given: float) -> EventStream:
    """Events at these days of May 2024, in Unix seconds; the first of May is day 0."""
    return stream_at([MAY + int(day * DAY) for day in given])


def parts(stream: EventStream, split: Any) -> list[list[int]]:
    found = chronological_split(stream, split, holdout="none")
    return [part.tolist() for part in (found.train, found.val, found.test)]


@settings(deadline=None)
@given(
    st.lists(st.integers(-5, 25), min_size=3, max_size=40).map(sorted),
    st.tuples(st.integers(-30, 60), st.integers(-30, 60)),
    st.booleans(),
)
def test_times_cut_where_the_definition_says(times: list[int], cuts: tuple[int, int], whole: bool) -> None:
    """Validation begins with the first event at the first time or later; cuts may lie between times."""
    first, second = cuts[0] / 2, cuts[1] / 2
    stream = stream_at(times if whole else [float(t) for t in times])
    expected = [
        [i for i, t in enumerate(times) if t < first],
        [i for i, t in enumerate(times) if first <= t < second],
        [i for i, t in enumerate(times) if t >= second],
    ]
    if 0 <= first < 1 and 0 <= second < 1:
        return  # two numbers below 1 are shares
    if first < second and all(expected):
        assert parts(stream, (first, second)) == expected
        assert parts(stream, f"{first},{second}") == expected
    else:
        with pytest.raises(ConfigError, match="split="):
            chronological_split(stream, (first, second))


def test_equal_times_at_a_boundary_stay_together() -> None:
    """Events at a time cut fall after it; events at a quantile fall before it."""
    stream = stream_at([1, 2, 3, 3, 3, 3, 4, 5, 6, 7, 7])
    assert parts(stream, (3, 7)) == [[0, 1], [2, 3, 4, 5, 6, 7, 8], [9, 10]]
    assert parts(stream, (0.3, 0.3)) == [[0, 1, 2, 3, 4, 5], [6], [7, 8, 9, 10]]
    assert parts(stream, (0.3, 0.6)) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10], []]


@pytest.mark.parametrize(
    "split",
    [
        "2024-05-03,2024-05-05",
        " 2024-05-03 , 2024-05-05T00:00Z",
        (date(2024, 5, 3), datetime(2024, 5, 5, tzinfo=UTC)),
        (np.datetime64("2024-05-03"), "2024-05-05T02:00+02:00"),
        (MAY + 2 * DAY, np.int64(MAY + 4 * DAY)),
        [MAY + 2 * DAY - 0.5, str(MAY + 4 * DAY)],
    ],
)
def test_dates_and_times_of_every_kind(split: Any) -> None:
    stream = days(0, 1, 1.999, 2, 3, 3.9999, 4, 9)
    assert parts(stream, split) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert parts(stream, split_text(split)) == parts(stream, split)  # as a config stores it


def test_nanoseconds_are_not_rounded() -> None:
    """In float64, these times would be the same."""
    start = 1_700_000_000_000_000_000
    stream = stream_at(np.array([0, 1, 2, 3, 4, 5]) + start)
    assert parts(stream, (start + 2, start + 3)) == [[0, 1], [2], [3, 4, 5]]


def test_every_event_may_be_a_training_event() -> None:
    split = chronological_split(days(0, 1, 1, 4), final=True)
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([0, 1, 2, 3], [], [])
    assert split.final
    assert not chronological_split(days(0, 1, 1, 4), (0.3, 0.3)).final


@pytest.mark.parametrize(
    ("given", "cuts", "text"),
    [
        ("0.7,0.15", ShareCuts(0.7, 0.15), "70/15/15 by time quantile"),
        ((0.8, 0.125), ShareCuts(0.8, 0.125), "80/12.5/7.5 by time quantile"),
        ("2024-05-01,2024-06-01", TimeCuts("2024-05-01", "2024-06-01"), "validation from 2024-05-01, test"),
        ((3, 5), TimeCuts("3", "5"), "validation from 3, test from 5"),
        ((-5, 0.5), TimeCuts("-5", "0.5"), "validation from -5, test from 0.5"),
    ],
)
def test_shares_and_times_are_told_apart(given: Any, cuts: Any, text: str) -> None:
    assert parse_split(given) == cuts
    assert str(cuts).startswith(text)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("2024-05-04", "split='2024-05-04': expected the shares of training and validation, such as"),
        ("0.7,0.2,0.1", "split='0.7,0.2,0.1': expected"),
        ("0.7,", "expected the shares"),
        ("70%,15%", "split='70%,15%': expected the shares of training and validation, such as 0.7,0.15"),
        (0.7, "split=0.7: expected"),
        ((0.7, None), "None is neither a number nor a time"),
        ("0.7,2024-05-04", "one of each"),
        ("0.7,0.4", "must leave events"),
        ("0,0.4", "must leave events for training"),
        ("70,15", "the first must be the earlier one. Shares of the events are numbers below 1"),
        ("2024-05-05,2024-05-03", "the first must be the earlier one"),
        ("2024-05-03,2024-05-03", "the first must be the earlier one"),
        ("nan,5", "must be finite"),
        ("noon,2024-05-03", "noon,2024-05-03: not a time"),
        ("2023-05-03,2024-05-03", "training part is empty because there are no events before 2023-05-03"),
        ("2024-05-01,2024-05-03", "no events before 2024-05-01; the events run from 2024-05-01T00:00:00Z to"),
        ("2024-05-03,2025-05-03", "test part is empty because there are no events from 2025-05-03 on"),
        ("2024-05-06,2024-05-07", "validation part is empty because there are no events from 2024-05-06 unt"),
        (f"0,{10**30}", "training part is empty"),
        (f"{MAY + 9},{10**30}", "test part is empty"),
    ],
)
def test_a_bad_split_names_the_argument_and_the_cure(split: Any, message: str) -> None:
    with pytest.raises(ContigError) as raised:
        chronological_split(days(0, 1, 2, 2, 3, 9), split)
    assert message in str(raised.value)
    assert "split" in str(raised.value)


def test_dates_need_a_stream_with_dates() -> None:
    with pytest.raises(ContigError, match="do not look like dates; use a number"):
        chronological_split(stream_at([3, 5, 9, 9]), "2024-05-01,2024-05-03")
