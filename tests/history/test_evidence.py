"""Evidence about pairs against loops over the events."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import contig
from contig.errors import ConfigError, DataError
from contig.history import History
from contig.history.evidence import Evidence, EvidenceSpec, follows, incoming, meeting, node
from contig.kernels import keyed_events
from contig.kernels.pinned_memory import pinned_copy

SPEC = EvidenceSpec(decay_times=(5.0,), nodes=True, steps=(1, 3))


@pytest.fixture(scope="module")
def stream() -> contig.EventStream:
    """Few nodes, so that pairs repeat; equal times, and nodes that meet themselves."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 7, 250), rng.integers(0, 9, 250)
    return contig.EventStream.from_arrays(src, dst, np.sort(rng.integers(0, 90, 250)))


def sequences(stream: contig.EventStream) -> dict[int, list[tuple[int, float]]]:
    """Return every node's partners and times, in stream order."""
    found: dict[int, list[tuple[int, float]]] = {}
    for u, v, t in zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True):
        found.setdefault(u, []).append((v, t))
        if u != v:
            found.setdefault(v, []).append((u, t))
    return found


def counts(evidence: Evidence, keys: torch.Tensor, time: float, *, transitions: bool = False) -> list[int]:
    keyed = evidence.transitions if transitions else evidence.events
    return keyed.find(keys, torch.full_like(keys, int(time)))[0].tolist()


@pytest.mark.parametrize("time", [0, 31, 60, 200])
def test_meetings_and_nodes_are_counted(stream: contig.EventStream, time: int) -> None:
    evidence = Evidence(History.from_stream(stream), SPEC)
    past = stream.t < time
    src, dst = stream.src[past], stream.dst[past]
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10))
    met = [int(((src == a) & (dst == b)).sum()) for a, b in pairs.tolist()]
    assert counts(evidence, meeting(*pairs.unbind(1)), time) == met
    everyone = torch.arange(10)
    active = [int(((src == v) | (dst == v)).sum()) for v in range(10)]
    assert counts(evidence, node(everyone), time) == active
    assert counts(evidence, incoming(everyone), time) == [int((dst == v).sum()) for v in range(10)]


@pytest.mark.parametrize("step", SPEC.steps)
@pytest.mark.parametrize("time", [0, 31, 60, 200])
def test_transitions_are_those_of_all_sequences(stream: contig.EventStream, step: int, time: int) -> None:
    evidence = Evidence(History.from_stream(stream), SPEC)
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10))
    expected = dict.fromkeys([(a, b) for a, b in pairs.tolist()], 0)
    for sequence in sequences(stream).values():
        for (p, _), (q, t) in zip(sequence, sequence[step:], strict=False):
            expected[p, q] += t < time
    assert counts(evidence, follows(*pairs.unbind(1), step), time, transitions=True) == list(
        expected.values()
    )
    assert time == 0 or any(expected.values())


@pytest.mark.parametrize("piece", [1, 40])
def test_a_growing_history_gives_the_same_evidence(stream: contig.EventStream, piece: int) -> None:
    whole = History.from_stream(stream)
    growing = History.empty(time_dtype=torch.int64)
    growing.evidence(SPEC)  # it must follow from the start
    columns = [torch.from_numpy(np.array(x)) for x in (stream.src, stream.dst, stream.t)]
    for first in range(0, len(stream), piece):
        growing.append(*(column[first : first + piece] for column in columns))
        growing.evidence(SPEC)
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10), torch.tensor([0, 13, 50, 89, 90]))
    a, b, t = pairs.unbind(1)
    grown, built = growing.evidence(SPEC), whole.evidence(SPEC)
    for keys in (meeting(a, b), node(a), incoming(b)):
        torch.testing.assert_close(grown.events.features(keys, t, 2.0), built.events.features(keys, t, 2.0))
    for step in SPEC.steps:
        keys = follows(a, b, step)
        found = grown.transitions.features(keys, t, 2.0)
        torch.testing.assert_close(found, built.transitions.features(keys, t, 2.0))


def test_a_restricted_history_knows_its_events_alone(stream: contig.EventStream) -> None:
    chosen = np.flatnonzero(stream.src % 3 != 1)
    restricted = History.from_stream(stream).only(chosen)
    alone = contig.EventStream.from_arrays(stream.src[chosen], stream.dst[chosen], stream.t[chosen])
    expected = Evidence(History.from_stream(alone), SPEC)
    pairs = torch.cartesian_prod(torch.arange(9), torch.arange(9))
    a, b = pairs.unbind(1)
    found = restricted.evidence(SPEC)
    assert counts(found, meeting(a, b), 70) == counts(expected, meeting(a, b), 70)
    keys = follows(a, b, 3)
    assert counts(found, keys, 70, transitions=True) == counts(expected, keys, 70, transitions=True)


def test_histories_that_share_columns_count_their_own_events(stream: contig.EventStream) -> None:
    """What is appended to the whole history is not part of one that was restricted before."""
    whole = History.from_stream(stream)
    restricted = whole.only(np.arange(100))
    keys = meeting(torch.arange(7), torch.arange(7))
    before = counts(restricted.evidence(SPEC), keys, 1000)
    whole.evidence(SPEC)
    whole.append(torch.tensor([3, 3, 2]), torch.tensor([3, 3, 2]), torch.tensor([95, 96, 97]))
    assert counts(restricted.evidence(SPEC), keys, 1000) == before
    src, dst = whole.events["src"], whole.events["dst"]
    expected = [int(((src == v) & (dst == v)).sum()) for v in range(7)]
    assert counts(whole.evidence(SPEC), keys, 1000) == expected


def with_late_events(stream: contig.EventStream, *, evidence_first: bool) -> History:
    """Append the stream without every fifth event, then those, and a last event in order."""
    src, dst, t = (torch.from_numpy(np.array(x)) for x in (stream.src, stream.dst, stream.t))
    late = torch.arange(len(stream)) % 5 == 2
    history = History.empty(time_dtype=torch.int64)
    if evidence_first:
        history.evidence(SPEC)
    history.append(src[~late], dst[~late], t[~late])
    clock = torch.full((int(late.sum()),), int(t[-1]))
    history.append(
        src[late], dst[late], clock, happened=t[late], late=torch.ones(len(clock), dtype=torch.bool)
    )
    history.append(torch.tensor([3]), torch.tensor([4]), t[-1:] + 1)
    return history


def test_evidence_that_is_built_after_late_events_knows_them(stream: contig.EventStream) -> None:
    inserted, built = (with_late_events(stream, evidence_first=first) for first in (True, False))
    pairs = torch.cartesian_prod(torch.arange(10), torch.arange(10), torch.tensor([0, 13, 50, 89, 90, 95]))
    a, b, t = pairs.unbind(1)
    for keys in (meeting(a, b), node(a), incoming(b)):
        expected, found = (one.evidence(SPEC).events.features(keys, t, 2.0) for one in (inserted, built))
        torch.testing.assert_close(found, expected)
    for step in SPEC.steps:
        keys = follows(a, b, step)
        expected, found = (one.evidence(SPEC).transitions.features(keys, t, 2.0) for one in (inserted, built))
        torch.testing.assert_close(found, expected)
        assert found.any()


def test_narrow_node_numbers_have_the_same_keys() -> None:
    wide = torch.tensor([0, 3, 2**29 - 1]), torch.tensor([7, 2**29 - 1, 5])
    narrow = [nodes.to(torch.int32) for nodes in wide]
    assert meeting(*narrow).equal(meeting(*wide))
    assert follows(*narrow, 32).equal(follows(*wide, 32))
    assert len({*meeting(*wide).tolist(), *follows(*wide, 32).tolist(), *node(wide[0]).tolist()}) == 9
    assert meeting(*wide).min() >= 0


def test_more_events_of_a_node_than_a_segment_can_count_are_refused(stream: contig.EventStream) -> None:
    """Their number would run into the bits of the segment's start."""
    history = History.from_stream(stream)
    history.segments.longest = 2**28
    with pytest.raises(DataError, match="up to 268,435,455 events of one node"):
        history.evidence(SPEC)


def test_steps_out_of_range_are_refused(stream: contig.EventStream) -> None:
    with pytest.raises(ConfigError, match="steps"):
        History.from_stream(stream).evidence(EvidenceSpec(steps=(0,)))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_evidence_is_stored_where_its_history_is(
    stream: contig.EventStream, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a history in pinned host memory is pinned, too; nothing of it is in the GPU's memory."""
    pinned: list[torch.Tensor] = []

    def noted(array: torch.Tensor, device: torch.device) -> torch.Tensor:
        pinned.append(pinned_copy(array, device))
        return pinned[-1]

    monkeypatch.setattr(keyed_events, "pinned_copy", noted)
    plain = Evidence(History.from_stream(stream), SPEC)
    assert not pinned
    evidence = Evidence(History.from_stream(stream).pinned_copy(torch.device(device)), SPEC)
    stored = [*evidence.events.arrays().values(), *evidence.transitions.arrays().values()]
    assert all(any(array is one for one in pinned) for array in stored)
    keys, times = meeting(torch.arange(7), torch.arange(2, 9)), torch.full((7,), 50)
    found = evidence.events.features(keys.to(device), times.to(device), 2.0)
    torch.testing.assert_close(found.cpu(), plain.events.features(keys, times, 2.0))
    assert found.any()
