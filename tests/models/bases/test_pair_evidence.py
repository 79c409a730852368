"""The reading of evidence about pairs against loops over a list of events."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from support.problems import shape_of

import contig
from contig.history import History, TimeScale
from contig.history.evidence import EvidenceSpec
from contig.models.bases import pair_evidence
from contig.models.bases.pair_evidence import EvidencePart, PairEvidence, Side

K, STEPS, TIMES = 4, (1, 2), torch.tensor([17, 40, 61])
SRC, DST = torch.tensor([2, 0, 5]), torch.tensor([[6, 3], [1, 0], [8, 2]])  # node 8 has no events


def problem() -> tuple[PairEvidence, History, list[tuple[int, int, int]]]:
    """Make a stream in which pairs repeat, with ties and meetings of a node with itself."""
    rng = np.random.default_rng(4)
    src, dst, t = rng.integers(0, 6, 120), rng.integers(0, 8, 120), np.sort(rng.integers(0, 60, 120))
    features = rng.normal(size=(120, 3)).astype(np.float32)
    stream = contig.EventStream.from_arrays(src, dst, t, edge_features=features, bipartite=False)
    history = History.from_stream(stream)
    shape = shape_of(stream)._replace(time_scale=TimeScale.of(history))
    torch.manual_seed(0)
    reader = PairEvidence(7, shape, neighbors=K, steps=STEPS, dropout=0.0)
    return (
        reader,
        history,
        list(zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True)),
    )


class Past:
    """Everything that happened strictly before a time, by loops."""

    def __init__(self, events: list[tuple[int, int, int]], time: int, reader: PairEvidence) -> None:
        self.time, self.scales = time, reader.scales
        self.events = [event for event in events if event[2] < time]
        self.sequences: dict[int, list[tuple[int, int, int]]] = {}  # partner, time, position of the event
        for position, (u, v, t) in enumerate(self.events):
            self.sequences.setdefault(u, []).append((v, t, position))
            if u != v:
                self.sequences.setdefault(v, []).append((u, t, position))

    def described(self, times: list[int], *, decayed: bool = True) -> list[float]:
        """Describe occurrences at these times."""
        scales = self.scales.decay_times if decayed else ()
        if not times:
            return [0.0] * (2 + len(scales))
        age = (self.time - max(times)) / self.scales.unit
        sums = [sum(math.exp(-(self.time - t) / scale) for t in times) for scale in scales]
        return [math.log1p(len(times)), 3 - math.log1p(age) / 10, *map(math.log1p, sums)]

    def meetings(self, u: int, v: int) -> list[float]:
        return self.described([t for a, b, t in self.events if (a, b) == (u, v)])

    def node(self, v: int) -> list[float]:
        return self.described([t for _, t, _ in self.sequences.get(v, [])])

    def incoming(self, v: int) -> list[float]:
        return self.described([t for _, b, t in self.events if b == v])

    def follows(self, p: int, q: int, step: int) -> list[float]:
        times = [
            then[1]
            for sequence in self.sequences.values()
            for first, then in zip(sequence, sequence[step:], strict=False)
            if (first[0], then[0]) == (p, q)
        ]
        return self.described(times, decayed=False)

    def tokens(self, v: int) -> list[tuple[int, int, int]]:
        return self.sequences.get(v, [])[::-1][:K]


def test_tokens_alone() -> None:
    reader, history, events = problem()
    evidence = history.evidence(EvidenceSpec(reader.scales.decay_times, nodes=True, steps=STEPS))
    near = reader._near(history, SRC.unsqueeze(1), TIMES.unsqueeze(1))
    found = reader._own_columns(history, evidence, near, TIMES)
    for query, (x, time) in enumerate(zip(SRC.tolist(), TIMES.tolist(), strict=True)):
        past = Past(events, time, reader)
        assert len(past.tokens(x)) > 1
        for place, (n, t, position) in enumerate(past.tokens(x)):
            age = math.log1p((time - t) / reader.scales.unit) / 10
            features = history.events["features"][position].tolist()
            expected = torch.tensor([age, *past.node(n), *features])
            torch.testing.assert_close(found[query, 0, place], expected, rtol=1e-5, atol=1e-6)


def test_tokens_and_the_other_node() -> None:
    reader, history, events = problem()
    evidence = history.evidence(EvidenceSpec(reader.scales.decay_times, nodes=True, steps=STEPS))
    found = reader._shared(evidence, Side(reader._near(history, SRC[:, None], TIMES[:, None]), DST), TIMES)
    matches = 0
    for query, (x, time) in enumerate(zip(SRC.tolist(), TIMES.tolist(), strict=True)):
        past = Past(events, time, reader)
        for column, y in enumerate(DST[query].tolist()):
            tokens = [n for n, _, _ in past.tokens(x)]
            for place, n in enumerate(tokens):
                match, so_far = float(n == y), float(tokens[: place + 1].count(y))
                matches += n == y
                transitions = [f for s in STEPS for pair in ((n, y), (y, n)) for f in past.follows(*pair, s)]
                meetings = past.meetings(n, y) + past.meetings(y, n)
                expected = torch.tensor([*meetings, match, so_far, *transitions])
                torch.testing.assert_close(found[query, column, place], expected, rtol=1e-5, atol=1e-6)
    assert matches


def test_a_pair_is_read_from_all_of_it() -> None:
    """The whole network by loops: the pair, both sides pooled, the merging layer."""
    reader, history, events = problem()
    reader.eval()
    found = reader(history, SRC, DST, TIMES)
    gelu = torch.nn.functional.gelu
    for query, (x, time) in enumerate(zip(SRC.tolist(), TIMES.tolist(), strict=True)):
        past = Past(events, time, reader)
        for column, y in enumerate(DST[query].tolist()):
            pair = [
                *past.meetings(x, y),
                *past.meetings(y, x),
                *past.node(x),
                *past.node(y),
                *past.incoming(y),
            ]
            parts = [reader.pair(torch.tensor(pair))]
            for side, (one, other) in enumerate(((x, y), (y, x))):
                hidden = []
                tokens = past.tokens(one)
                for place, (n, t, position) in enumerate(tokens):
                    age = math.log1p((time - t) / reader.scales.unit) / 10
                    alone = [age, *past.node(n), *history.events["features"][position].tolist()]
                    shared = [*past.meetings(n, other), *past.meetings(other, n), float(n == other)]
                    shared.append(float([m for m, _, _ in tokens[: place + 1]].count(other)))
                    shared += [
                        f for s in STEPS for p in ((n, other), (other, n)) for f in past.follows(*p, s)
                    ]
                    hidden.append(
                        gelu(
                            reader.own[side](torch.tensor(alone)) + reader.shared[side](torch.tensor(shared))
                        )
                    )
                rows = torch.stack(hidden) if hidden else torch.zeros((1, 7))
                padded = torch.cat([rows, torch.zeros((K - len(rows), 7))])
                parts.append(torch.cat([rows.mean(0), padded.amax(0), rows[0]]))
            expected = reader.merge(torch.cat(parts))
            torch.testing.assert_close(found[query, column], expected, rtol=1e-4, atol=1e-5)


def test_scales_are_saved_with_the_weights() -> None:
    reader, history, _ = problem()
    other = PairEvidence(7, shape_of_width(3), neighbors=K, steps=STEPS, dropout=0.0)
    assert other.scales != reader.scales
    other.load_state_dict(reader.state_dict())
    assert other.scales == reader.scales
    torch.testing.assert_close(
        other.eval()(history, SRC, DST, TIMES), reader.eval()(history, SRC, DST, TIMES)
    )


def shape_of_width(edge_width: int) -> contig.models.DataShape:
    return contig.models.DataShape(edge_width, None, 9)


def test_the_scales_are_intervals_of_the_stream() -> None:
    reader, _, events = problem()
    times: dict[int, list[int]] = {}
    for u, v, t in events:
        for end in {u, v}:
            times.setdefault(end, []).append(t)
    gaps = {b - a for each in times.values() for a, b in pairwise(each) if b > a}
    assert {reader.scales.unit, *reader.scales.decay_times} <= gaps


PARTS = {
    ("meetings", "neighbors"): ("meeting",),
    ("activity",): ("node", "incoming"),
    ("transitions",): ("follows",),
}


@pytest.mark.parametrize("without", PARTS)
def test_evidence_that_is_left_out_does_not_matter(
    without: tuple[EvidencePart, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, history, _ = problem()
    reduced = PairEvidence(
        7, shape_of_width(3), neighbors=K, steps=STEPS, dropout=0.0, without=without
    ).eval()
    before = [reader.eval()(history, SRC, DST, TIMES) for reader in (whole, reduced)]
    for name in PARTS[without]:  # nothing of this kind ever happened
        monkeypatch.setattr(pair_evidence, name, lambda first, *_: torch.full_like(first, -1))
    after = [reader(history, SRC, DST, TIMES) for reader in (whole, reduced)]
    assert not torch.allclose(after[0], before[0], atol=1e-4)
    torch.testing.assert_close(after[1], before[1])


def test_a_single_kind_of_evidence_is_enough_to_build_the_network() -> None:
    """Transitions alone, and plain counts of them: neither the pair nor decayed counts are looked up."""
    _, history, _ = problem()
    without: tuple[EvidencePart, ...] = ("meetings", "activity", "neighbors", "decay")
    reader = PairEvidence(7, shape_of_width(0), neighbors=K, steps=STEPS, dropout=0.0, without=without)
    assert reader.pair is None
    assert reader.scales.decay_times == ()
    assert [linear.in_features for linear in reader.shared] == [2 * len(STEPS) * 2] * 2  # type: ignore[union-attr]
    found = reader(history, SRC, DST, TIMES)
    assert not torch.allclose(found[0, 0], found[1, 0], atol=1e-5)
