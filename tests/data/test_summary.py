from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.data.summary import Summary, summarize
from contig.errors import DataError

MEETINGS = [  # four people; 10 events are split 7/1/2
    ("ann", "bob", 0),
    ("bob", "ann", 10),
    ("ann", "bob", 10),  # the first pair again, at the time of the second event
    ("ann", "cat", 30),
    ("cat", "ann", 40),
    ("ann", "bob", 50),  # again
    ("bob", "cat", 60),
    ("dan", "ann", 70),  # validation: dan is new
    ("ann", "dan", 80),  # test
    ("bob", "cat", 95),  # test, nobody new, and again a pair
]


def meetings(**more: Any) -> EventStream:
    src, dst, t = zip(*MEETINGS, strict=True)
    return EventStream.from_arrays(src, dst, t, origin="meetings", **more)


def test_a_stream_computed_by_hand() -> None:
    found = summarize(
        meetings(label=[0, 0, 1, 0, 0, 0, 2, 0, 1, 0], edge_features=np.ones((10, 3)))
    ).as_dict()
    assert list(found)[:2] == ["events", "nodes"]
    assert found == {
        "events": 10,
        "nodes": 4,
        "origin": "meetings",
        "sources": 4,
        "destinations": 4,
        "both": 4,
        "bipartite": False,
        "time": {"first": 0, "last": 95, "span": 95, "type": "int64", "unix": None, "dates": False},
        "ties": {"events": 2, "distinct_times": 9, "largest_group": 2},
        "repeats": {"pairs": 7, "ratio": 0.3, "rows": 0},
        "split": {
            "holdout": "paper",
            "train": part(events=7, first=0, last=60, nodes=3, new_nodes=0, touching=0),
            "val": part(events=1, first=70, last=70, nodes=2, new_nodes=1, touching=1),
            "test": part(events=2, first=80, last=95, nodes=4, new_nodes=1, touching=1),
        },
        # sorted intervals: 0 0 0 10 10 10 10 10 20 35
        "intervals": {
            "zeros": 3,
            "quantiles": {"0.2": 0.0, "0.4": 10.0, "0.6": 10.0, "0.8": pytest.approx(12.0), "1.0": 35.0},
        },
        "degrees": {  # sent: 5 3 1 1; received: 3 3 3 1
            "sources": {"nodes": 4, "median": 2.0, "max": 5, "top_share": 0.5},
            "destinations": {"nodes": 4, "median": 3.0, "max": 3, "top_share": 0.3},
        },
        "features": {"edge": 3, "node": 0},
        "labels": {"0": 7, "1": 2, "2": 1},
        "ids": {
            "type": "text",
            "sources": ["ann", "bob", "cat"],
            "destinations": ["ann", "bob", "cat"],
        },
        "notices": [],
    }


def part(
    *, events: int, first: int, last: int, nodes: int, new_nodes: int, touching: int
) -> dict[str, int | float]:
    return {
        "events": events,
        "first": first,
        "last": last,
        "nodes": nodes,
        "new_nodes": new_nodes,
        "new_node_share": new_nodes / nodes,
        "events_with_new_node": touching,
        "events_with_new_node_share": touching / events,
    }


# --- slow twins ----------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> EventStream:
    size = draw(st.integers(1, 40))
    nodes = draw(st.sampled_from([st.integers(-3, 5), st.sampled_from(["a", "bb", "ccc", "d"])]))
    start = draw(st.sampled_from([0, -7, 1_600_000_000]))
    times = st.integers(0, draw(st.sampled_from([0, 12, 3000])))
    scale = draw(st.sampled_from([1, 0.25]))
    t = [start + scale * x for x in sorted(draw(st.lists(times, min_size=size, max_size=size)))]
    src, dst = (draw(st.lists(nodes, min_size=size, max_size=size)) for _ in range(2))
    label = draw(st.none() | st.lists(st.integers(-1, 2), min_size=size, max_size=size))
    return EventStream.from_arrays(src, dst, t, label=label, bipartite=draw(st.sampled_from([None, True])))


def rows(stream: EventStream) -> list[tuple[int, int, float]]:
    return list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True))


@given(streams())
def test_counts_match_a_loop_over_the_events(stream: EventStream) -> None:
    found = summarize(stream)
    sources: set[int] = set()
    destinations: set[int] = set()
    pairs: set[tuple[int, int]] = set()
    repeats = 0
    for src, dst, _ in rows(stream):
        repeats += (src, dst) in pairs
        pairs.add((src, dst))
        sources.add(src)
        destinations.add(dst)
    assert (found.events, found.nodes) == (len(rows(stream)), len(sources | destinations))
    assert (found.sources, found.destinations, found.both) == (
        len(sources),
        len(destinations),
        len(sources & destinations),
    )
    assert (found.repeats.pairs, found.repeats.ratio) == (len(pairs), repeats / len(rows(stream)))
    assert found.repeats.rows == len(rows(stream)) - len(set(rows(stream)))
    assert found.bipartite == stream.bipartite
    labels = None if stream.label is None else Counter(map(str, stream.label.tolist()))
    assert found.labels == labels


@given(streams())
def test_ties_match_a_count_of_the_times(stream: EventStream) -> None:
    groups = Counter(stream.t.tolist())
    found = summarize(stream).ties
    assert found.events == sum(n for n in groups.values() if n > 1)
    assert (found.distinct_times, found.largest_group) == (len(groups), max(groups.values()))


@given(streams())
def test_new_nodes_match_sets_of_nodes(stream: EventStream) -> None:
    split = chronological_split(stream, holdout="paper")
    events = rows(stream)
    known = {node for i in split.train for node in events[i][:2]}
    found = summarize(stream).split
    for positions, got in ((split.train, found.train), (split.val, found.val), (split.test, found.test)):
        of_part = [events[i] for i in positions]
        nodes = {node for event in of_part for node in event[:2]}
        touching = sum(event[0] not in known or event[1] not in known for event in of_part)
        assert (got.events, got.nodes, got.new_nodes) == (len(of_part), len(nodes), len(nodes - known))
        assert got.events_with_new_node == touching
        if of_part:
            assert (got.first, got.last) == (of_part[0][2], of_part[-1][2])
            assert got.new_node_share == len(nodes - known) / len(nodes)
            assert got.events_with_new_node_share == touching / len(of_part)
        else:
            shares = (got.new_node_share, got.events_with_new_node_share)
            assert (got.first, got.last, *shares) == (None,) * 4


@given(streams())
def test_interval_quantiles_match_a_loop_over_the_events(stream: EventStream) -> None:
    last: dict[int, float] = {}
    dt = []
    for src, dst, t in rows(stream):
        dt.append(t - last.get(src, t))
        last[src] = last[dst] = t
    found = summarize(stream).intervals
    assert found.zeros == dt.count(0)
    assert list(found.quantiles) == ["0.2", "0.4", "0.6", "0.8", "1.0"]
    for share, value in found.quantiles.items():
        assert value == pytest.approx(quantile(dt, Fraction(share)), rel=1e-12, abs=1e-9)


def quantile(values: list[float], share: Fraction) -> float:
    """Between the two values next to the place (n - 1) * share, in proportion."""
    ordered = sorted(map(Fraction, values))
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


@given(streams())
def test_degrees_match_a_count_per_node(stream: EventStream) -> None:
    found = summarize(stream).degrees
    for column, got in ((0, found.sources), (1, found.destinations)):
        counts = sorted(Counter(event[column] for event in rows(stream)).values(), reverse=True)
        middle = counts[len(counts) // 2], counts[(len(counts) - 1) // 2]
        assert (got.nodes, got.median, got.max) == (len(counts), sum(middle) / 2, counts[0])
        assert got.top_share == pytest.approx(counts[0] / len(stream))  # 1% of under 100 nodes is one


def test_the_busiest_hundredth_is_rounded_up() -> None:
    src = np.repeat(np.arange(201), [50, 30, 20, *[1] * 198])  # 3 of 201 sources are the top 1%
    found = summarize(EventStream.from_arrays(src, src + 1000, np.arange(len(src))))
    assert found.degrees.sources.top_share == pytest.approx(100 / 298)


@given(streams())
def test_everything_survives_json(stream: EventStream) -> None:
    found = summarize(stream).as_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found


# --- times, ids, features ------------------------------------------------------------------------------


def test_a_slice_is_summarized_by_its_own_nodes() -> None:
    found = summarize(meetings()[:3])
    assert (found.events, found.nodes, found.sources) == (3, 2, 2)
    assert found.ids.sources == ["ann", "bob"]


def test_example_ids_are_of_the_right_side() -> None:
    found = summarize(EventStream.from_arrays([7, 5, 9, 6], [30, 31, 33, 32], [0, 1, 2, 3]))
    assert found.bipartite
    assert (found.ids.type, found.ids.sources, found.ids.destinations) == (
        "integer",
        [5, 6, 7],
        [30, 31, 32],
    )


def test_node_features_and_notices_are_included() -> None:
    stream = EventStream.from_arrays([1, 2], [2, 3], [9, 4], node_features={1: [0, 1], 2: [2, 3], 3: [4, 5]})
    found = summarize(stream)
    assert (found.features.edge, found.features.node) == (0, 2)
    assert found.notices == stream.notices
    assert "time order" in found.notices[0]


def test_an_empty_stream_is_rejected() -> None:
    with pytest.raises(DataError, match="meetings: there are no events"):
        summarize(meetings()[3:3])


# --- real streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wikipedia", (157_474, 9_227, 8_227, 1_000, True, 152_757, 2_678_373)),
        ("mooc", (411_749, 7_144, 7_047, 97, True, 345_600, 2_572_086)),
        ("collegemsg", (59_835, 1_899, None, None, False, 58_911, 16_736_181)),
    ],
)
def test_published_numbers(
    name: str,
    expected: tuple[int | None, ...],
    real_stream: Callable[[str], EventStream],
    real_file: Callable[[str], Path],
) -> None:
    real_file(f"{name}.parquet")  # a packaged copy has other times
    found: Summary = summarize(real_stream(name))
    got = (
        found.events,
        found.nodes,
        found.sources if found.bipartite else None,
        found.destinations if found.bipartite else None,
        found.bipartite,
        found.ties.distinct_times,
        found.time.last,
    )
    assert got == expected


def test_the_published_split_and_labels_of_wikipedia(real_stream: Callable[[str], EventStream]) -> None:
    found = summarize(real_stream("wikipedia"))
    assert [p.events for p in (found.split.train, found.split.val, found.split.test)] == [
        110_232,
        23_621,
        23_621,
    ]
    assert found.labels == {"0": 157_257, "1": 217}


def test_no_pair_of_bitcoin_occurs_twice(real_stream: Callable[[str], EventStream]) -> None:
    found = summarize(real_stream("bitcoin_otc"))
    assert (found.repeats.pairs, found.repeats.ratio) == (35_592, 0.0)
    assert found.time.unix == "seconds"
