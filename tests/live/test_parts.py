"""The parts of an engine by themselves."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.history import History
from contig.live.ids import UNSORTED, NodeIndex
from contig.live.partners import Partners
from contig.live.records import BatchRecord, in_order_runs, joined
from contig.models.state import RowCache
from contig.streaming.sharing import ReadWriteLock


def record(events: int, *, features: int = 0, first: int = 0) -> BatchRecord:
    at = np.arange(first, first + events)
    values = np.arange(events * features, dtype=np.float32).reshape(events, features) if features else None
    return BatchRecord(at, at + 5, at * 0.5, at % 3 == 0, values, ["zoë", "b"], [True, False])


@pytest.mark.parametrize(("events", "features"), [(1, 0), (8, 3), (9, 1)])
def test_a_record_reads_as_it_was_written(events: int, features: int) -> None:
    written = record(events, features=features)
    read = BatchRecord.decode(written.encode())
    for name in ("src", "dst", "t", "late"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))
    assert (read.labels, read.is_dst) == (["zoë", "b"], [True, False])
    assert (read.features is None) == (features == 0)
    if features:
        np.testing.assert_array_equal(read.features, written.features)


@pytest.mark.parametrize("cut", [0, 5, -1])
def test_a_record_that_is_cut_is_not_one(cut: int) -> None:
    with pytest.raises(ValueError, match="record"):
        BatchRecord.decode(record(4).encode()[:cut])


def test_joined_records_keep_their_order() -> None:
    both = joined([record(2, features=2), record(3, features=2, first=2)])
    assert both.src.tolist() == [0, 1, 2, 3, 4]
    assert both.late.tolist() == [True, False, False, True, False]
    assert both.features is not None
    assert both.features.shape == (5, 2)
    assert len(both.labels) == 4


def in_order(times: list[int], *, late: bool = False) -> BatchRecord:
    count = len(times)
    at = np.arange(count)
    return BatchRecord(at, at, np.array(times), np.full(count, late), None, [], [])


def test_only_records_in_order_are_joined() -> None:
    records = [in_order(t) for t in ([5, 7], [7], [6, 9], [9], [12])] + [in_order([13], late=True)]
    runs = [one.t.tolist() for one in in_order_runs(records, 4)]
    assert runs == [[5, 7, 7], [6, 9], [9, 12], [13]]
    assert [one.t.tolist() for one in in_order_runs(records[:2], 6)] == [[5, 7], [7]]
    assert list(in_order_runs([], 4)) == []


@pytest.mark.parametrize("scale", [1, 1_000_000_000_000_000_001], ids=["small", "nanoseconds"])
def test_candidates_are_those_of_strictly_earlier_events(scale: int) -> None:
    """Times in nanoseconds differ by less than float64 can tell."""
    src, dst, t = np.array([0, 1, 0, 2]), np.array([3, 4, 5, 3]), scale + np.array([0, 1, 2, 3])
    stream = EventStream(src=src, dst=dst, t=t, ids=NodeIds(np.arange(6)))
    partners = Partners(History.from_stream(stream))
    partners.add(np.array([1]), np.array([7]), t[-1:] + 1)
    for at in range(scale, scale + 6):
        early = t < at
        when = torch.tensor(at)
        expected = sorted({*dst[early].tolist(), *([7] if at > scale + 4 else [])})
        assert partners.candidates("src", when).tolist() == expected
        assert partners.met(0, "src", when).tolist() == sorted(set(dst[early & (src == 0)].tolist()))
        if at <= scale + 3:
            assert partners.counts(np.array([3, 4, 5]), "src", when).tolist() == [
                int((dst[early] == node).sum()) for node in (3, 4, 5)
            ]
    if scale == 1:
        assert partners.candidates("src", torch.tensor(2.5, dtype=torch.float64)).tolist() == [3, 4]


def test_ids_that_are_taken_back_are_unknown_again() -> None:
    index = NodeIndex(NodeIds(np.array(["a", "b"]), np.array([False, True])))
    assert index.add("c", dst=True) == 2
    assert index.add("c", dst=False) == 3
    index.truncate(3)
    assert index.number_of("c", dst=True) == 2
    assert index.number_of("c", dst=False) == -1
    assert index.add("d", dst=False) == 3


def test_ids_are_found_on_their_side() -> None:
    index = NodeIndex(NodeIds(np.array(["a", "b", "a"]), np.array([False, False, True])))
    assert index.numbers_of(["b", "a", "c"], dst=False) == [1, 0, -1]
    assert index.numbers_of(["b", "a"], dst=True) == [-1, 2]
    plain = NodeIndex(NodeIds(np.array([7, 3])))
    assert plain.numbers_of([3, 7, 1], dst=True) == plain.numbers_of([3, 7, 1], dst=False) == [1, 0, -1]


def test_a_search_finds_sorted_and_new_ids() -> None:
    index = NodeIndex(NodeIds(np.arange(UNSORTED + 100)))
    assert index.by_prefix("41", 4, len(index)) == [41, 410, 4100, 4101]
    index.add(410_000, dst=False)
    assert index.by_prefix("410", 9, len(index))[:3] == [410, 4100, len(index) - 1]
    assert index.by_prefix("410000", 9, len(index) - 1) == []  # not applied yet


def test_cached_rows_are_computed_once_until_they_are_cleared() -> None:
    cache, computed = RowCache(), []

    def compute(nodes: torch.Tensor) -> torch.Tensor:
        computed.append(nodes.tolist())
        return nodes.unsqueeze(1).float() * torch.tensor([1.0, 10.0])

    time = torch.tensor(5)
    for nodes in ([3, 1, 3], [1, 7], [7, 3, 1]):
        found = cache.rows(torch.tensor(nodes), time, compute)
        assert found.tolist() == [[n, 10.0 * n] for n in nodes]
    assert computed == [[1, 3], [7]]
    cache.rows(torch.tensor([3]), torch.tensor(6), compute)  # another reference time
    cache.clear()
    cache.rows(torch.tensor([3]), torch.tensor(6), compute)
    assert computed == [[1, 3], [7], [3], [3]]


def test_a_reader_that_has_changed_something_reads_before_the_next_writer() -> None:
    lock, seen, value = ReadWriteLock(), [], [0]

    def change() -> None:
        value[0] = 1

    def write() -> None:
        with lock.writing():
            value[0] = 2

    writer = threading.Thread(target=write)
    with lock.reading_after(change):
        writer.start()
        seen.append(value[0])
        with lock.reading():  # a thread that reads may read again
            seen.append(value[0])
    writer.join()
    assert seen == [1, 1]
    assert value == [2]


def test_a_change_that_fails_releases_the_lock() -> None:
    lock = ReadWriteLock()

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), lock.reading_after(fail):
        pass
    with lock.writing():
        pass
