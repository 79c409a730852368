"""Negatives against sets made by a Python loop, and the frequencies a fair draw has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.data.negatives import KINDS, Kind, Negatives
from contig.errors import ConfigError, DataError

Event = tuple[int, int, int]
SOURCES, NODES = 4, 11  # destinations are 4..10


def stream_of(events: list[Event], num_nodes: int = NODES) -> EventStream:
    src, dst, t = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    return EventStream(src, dst, t, NodeIds(np.arange(num_nodes)))


def true_at(events: list[Event], i: int) -> set[int]:
    """The destinations the source of event i meets at its time."""
    return {d for s, d, t in events if (s, t) == (events[i][0], events[i][2])}


def legal(events: list[Event], i: int, kind: Kind, train: list[int], destinations: set[int]) -> set[int]:
    """What may be drawn for event i, by the definitions."""
    trained = {(events[j][0], events[j][1]) for j in train}
    source = events[i][0]
    pool = {
        "random": destinations,
        "historical-source": {d for s, d in trained if s == source},
    }[kind]
    true = true_at(events, i)
    return (pool - true) or (destinations - true)


@st.composite
def event_lists(draw: st.DrawFn) -> list[Event]:
    """A bipartite stream with several destinations of one source at one time."""
    times = np.cumsum(draw(st.lists(st.sampled_from([0, 0, 1]), min_size=1, max_size=25))).tolist()
    src, dst = st.integers(0, SOURCES - 1), st.integers(SOURCES, NODES - 1)
    return [(draw(src), draw(dst), t) for t in times]


def numbers(events: list[Event]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(len(events)), torch.tensor([s for s, _, _ in events])


@settings(deadline=None)
@given(event_lists(), st.sampled_from(KINDS), st.data(), st.integers(0, 3))
def test_only_valid_negatives_are_sampled(
    events: list[Event], kind: Kind, data: st.DataObject, seed: int
) -> None:
    destinations = {d for _, d, _ in events}
    assume(all(destinations - true_at(events, i) for i in range(len(events))))
    train = [i for i in range(len(events)) if data.draw(st.booleans())]
    negatives = Negatives(stream_of(events), kind, train=np.array(train, dtype=np.int64), seed=seed)
    drawn = negatives.draw(*numbers(events), count=25)
    assert drawn.shape == (len(events), 25)
    for i, row in enumerate(drawn.tolist()):
        assert set(row) <= legal(events, i, kind, train, destinations)


# Source 0 meets 4, 5 and 6 at time 3 (5 twice); 4, 7, 8, 9 in training; 6 and 10 only after it.
# Source 1 is new after training; source 2 has met in training only what it meets again now.
CROWDED: list[Event] = [
    (0, 4, 0),
    (0, 7, 1),
    (0, 8, 1),
    (0, 9, 2),
    (2, 5, 2),
    (0, 5, 3),
    (0, 5, 3),
    (0, 6, 3),
    (1, 6, 3),
    (0, 4, 3),
    (2, 5, 4),
    (0, 10, 5),
]
TRAIN = [0, 1, 2, 3, 4]
EXPECTED: list[tuple[Kind, int, set[int]]] = [
    ("random", 5, {7, 8, 9, 10}),
    ("random", 8, {4, 5, 7, 8, 9, 10}),
    ("historical-source", 5, {7, 8, 9}),
    ("historical-source", 11, {4, 7, 8, 9}),
    ("historical-source", 8, {4, 5, 7, 8, 9, 10}),  # source 1 met nobody in training
    ("historical-source", 10, {4, 6, 7, 8, 9, 10}),  # source 2 met only what is true now
]


@pytest.mark.parametrize(("kind", "event", "expected"), EXPECTED)
def test_every_valid_destination_is_equally_likely(kind: Kind, event: int, expected: set[int]) -> None:
    assert legal(CROWDED, event, kind, TRAIN, {d for _, d, _ in CROWDED}) == expected
    negatives = Negatives(stream_of(CROWDED), kind, train=np.array(TRAIN), seed=7)
    drawn = negatives.draw(torch.tensor([event]), torch.tensor([CROWDED[event][0]]), count=4000).numpy()
    values, counts = np.unique(drawn, return_counts=True)
    assert set(values.tolist()) == expected
    if len(expected) > 1:
        assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("historical", [0, 1, 5, 7])
def test_historical_negatives_beside_random_ones(historical: int) -> None:
    """The first columns are those of random negatives alone, the last those of historical ones."""
    count, drawn = 7, {}
    for kind in KINDS:
        negatives = Negatives(stream_of(CROWDED), kind, train=np.array(TRAIN), seed=3)
        drawn[kind] = negatives.draw(*numbers(CROWDED), count=count)
    mixed = Negatives(stream_of(CROWDED), train=np.array(TRAIN), seed=3)
    found = mixed.draw(*numbers(CROWDED), count=count, historical=historical)
    expected = torch.where(torch.arange(count) < count - historical, *drawn.values())
    assert torch.equal(found, expected)


def test_which_samples_fall_back_to_random_ones() -> None:
    """Those of sources without a training destination that is not true now; none of random negatives."""
    events, src = numbers(CROWDED)
    source = Negatives(stream_of(CROWDED), "historical-source", train=np.array(TRAIN))
    assert source.falls_back(events, src).nonzero().flatten().tolist() == [4, 8, 10]
    assert not Negatives(stream_of(CROWDED)).falls_back(events, src).any()


def test_samples_for_different_events_are_independent() -> None:
    """Two events with the same choices: every combination occurs, equally often."""
    events: list[Event] = [(0, 4, 0), (1, 4, 0), (0, 5, 1), (1, 6, 1), (0, 7, 2)]
    negatives = Negatives(stream_of(events), seed=3)
    drawn = negatives.draw(torch.tensor([0, 1]), torch.tensor([0, 1]), count=5000)
    pairs, counts = np.unique(drawn.numpy(), axis=1, return_counts=True)
    assert pairs.shape == (2, 9)  # 5, 6, 7 each
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_the_samples_depend_on_the_seed_alone(kind: Kind) -> None:
    def draw(seed: int) -> torch.Tensor:
        negatives = Negatives(stream_of(CROWDED), kind, train=np.array(TRAIN), seed=seed)
        return negatives.draw(*numbers(CROWDED), count=6)

    torch.manual_seed(0)
    first, state = draw(1), torch.get_rng_state()
    torch.manual_seed(99)
    torch.rand(5)
    assert torch.equal(draw(1), first)
    assert not torch.equal(draw(2), first)
    torch.manual_seed(0)
    draw(5)
    assert torch.equal(torch.get_rng_state(), state)  # and the global generator is left alone


def test_samples_do_not_depend_on_the_batches() -> None:
    events, src = numbers(CROWDED)
    whole = Negatives(stream_of(CROWDED), seed=1).draw(events, src, count=3)
    batched = Negatives(stream_of(CROWDED), seed=1)
    parts = [batched.draw(e, s, count=3) for e, s in zip(events.split(5), src.split(5), strict=True)]
    assert torch.equal(torch.cat(parts), whole)


@settings(deadline=None)
@given(event_lists(), st.booleans())
def test_candidates_mark_the_true_destinations(events: list[Event], all_items: bool) -> None:
    known = list(range(SOURCES, NODES)) if all_items else sorted({d for _, d, _ in events})
    assume(all(set(known) - true_at(events, i) for i in range(len(events))))
    negatives = Negatives(stream_of(events), destinations=np.array(known))
    destinations, true = negatives.candidates(torch.arange(len(events)))
    assert destinations.tolist() == known
    expected = [[d in true_at(events, i) for d in known] for i in range(len(events))]
    assert true.tolist() == expected


def test_destinations_may_be_unsorted_and_repeated() -> None:
    given_so = Negatives(stream_of(CROWDED), destinations=np.array([9, 4, 4, 6, 9]), seed=2)
    assert given_so.destinations.tolist() == [4, 6, 9]
    drawn = given_so.draw(torch.tensor([0, 5]), torch.tensor([0, 0]), count=60)
    assert [set(row) for row in drawn.tolist()] == [{6, 9}, {9}]


def test_an_event_without_a_possible_negative_is_rejected() -> None:
    events: list[Event] = [(0, 4, 0), (0, 5, 1), (1, 4, 2), (1, 5, 2)]
    with pytest.raises(
        DataError, match=r"arrays: event 2: its source interacts with every destination at time 2"
    ):
        Negatives(stream_of(events))
    assert Negatives(stream_of(events), destinations=np.array([4, 5, 6])).draw(
        torch.tensor([2, 3]), torch.tensor([1, 1])
    ).tolist() == [[6], [6]]


def test_only_events_to_sample_for_need_a_possible_negative() -> None:
    """A training that knows 4 and 5 need not mind that somebody meets both of them later."""
    events: list[Event] = [(0, 4, 0), (0, 5, 1), (1, 4, 2), (1, 5, 2), (1, 6, 3)]
    known = np.array([4, 5])
    negatives = Negatives(stream_of(events), destinations=known, events=np.array([0, 1]))
    assert negatives.draw(torch.tensor([0, 1]), torch.tensor([0, 0])).tolist() == [[5], [4]]
    with pytest.raises(DataError, match="event 3"):
        Negatives(stream_of(events), destinations=known, events=np.array([0, 3]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "historical-sorce"}, "Did you mean 'historical-source'"),
        ({"kind": "historical-source"}, "historical-source negatives need train="),
        ({"destinations": np.array([], dtype=np.int64)}, "destinations= is empty"),
    ],
)
def test_invalid_options_are_rejected(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Negatives(stream_of(CROWDED), **options)


def test_a_stream_with_nodes_on_both_sides() -> None:
    events: list[Event] = [(0, 1, 0), (1, 0, 0), (2, 2, 1), (0, 2, 1), (0, 1, 1)]
    drawn = Negatives(stream_of(events, num_nodes=3), seed=0).draw(*numbers(events), count=50)
    assert [set(row) for row in drawn.tolist()] == [{0, 2}, {1, 2}, {0, 1}, {0}, {0}]


def test_a_real_stream_with_ties(real_stream: Callable[[str], EventStream]) -> None:
    stream = real_stream("enron")
    train = np.arange(int(0.7 * len(stream)))
    truth: dict[tuple[int, int], set[int]] = {}
    for s, d, t in zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True):
        truth.setdefault((s, t), set()).add(d)
    events = np.random.default_rng(0).choice(len(stream), 2000, replace=False)
    trained = set(zip(stream.src[train].tolist(), stream.dst[train].tolist(), strict=True))
    for kind in KINDS:
        negatives = Negatives(stream, kind, train=train)
        drawn = negatives.draw(torch.from_numpy(events), torch.from_numpy(stream.src[events])).flatten()
        pairs = list(zip(stream.src[events].tolist(), drawn.tolist(), strict=True))
        times = stream.t[events].tolist()
        assert not any(d in truth[s, t] for (s, d), t in zip(pairs, times, strict=True))
        share = np.mean([pair in trained for pair in pairs])
        assert share > 0.9 if kind == "historical-source" else share < 0.9


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_negatives_on_a_gpu_are_valid(kind: Kind) -> None:
    negatives = Negatives(stream_of(CROWDED), kind, train=np.array(TRAIN), seed=7, device="cuda")
    events, src = numbers(CROWDED)
    drawn = negatives.draw(events.cuda(), src.cuda(), count=400).cpu()
    destinations = {d for _, d, _ in CROWDED}
    for i, row in enumerate(drawn.tolist()):
        assert set(row) == legal(CROWDED, i, kind, TRAIN, destinations)
    on_cpu = Negatives(stream_of(CROWDED), kind, train=np.array(TRAIN)).candidates(events)
    assert all(
        torch.equal(a.cpu(), b) for a, b in zip(negatives.candidates(events.cuda()), on_cpu, strict=True)
    )
