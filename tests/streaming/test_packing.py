"""The nodes that a batch reads, counted against sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.problems import case, random_stream, shape_of

from contig.history import History
from contig.streaming import packing
from contig.streaming.packing import GRANULARITY, count_nodes, count_nodes_read, fits, room_needed


@pytest.mark.parametrize("at_once", [1, 10**9])
@pytest.mark.parametrize("name", ["contig", "tgn"])
def test_counts_equal_the_sizes_of_sets(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MENTIONS_AT_ONCE", at_once)
    stream = random_stream(4, events=43, num_nodes=30)
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    negative = torch.from_numpy(np.random.default_rng(0).integers(0, 30, (43, 2)))
    found = count_nodes_read(model, history, torch.arange(43), negative, 5)
    expected = []
    for start in range(0, 40, 5):  # the short last batch is not counted
        read: set[int] = set()
        for event in range(start, start + 5):
            for node in (stream.src[event], stream.dst[event], *negative[event].tolist()):
                past = [
                    other
                    for u, v, t in zip(stream.src, stream.dst, stream.t, strict=True)
                    for one, other in {(u, v), (v, u)}
                    if one == node and t < stream.t[event]
                ]
                read |= {int(node), *map(int, past[::-1][: model.neighbors])}
        expected.append(len(read))
    assert found.tolist() == expected


def test_a_cpu_needs_no_counts() -> None:
    stream = random_stream(4)
    model, history = case("tgn", shape_of(stream)), History.from_stream(stream)
    assert count_nodes(model, history, torch.arange(40), torch.zeros(40, 1, dtype=torch.int64), 5) is None


def test_room_is_spare_and_uncounted_batches_do_not_fit() -> None:
    counts = np.array([3, 2 * GRANULARITY, 17])
    room = room_needed(counts)
    assert room is not None
    assert room % GRANULARITY == 0
    assert 2 * GRANULARITY < room <= 1.25 * 2 * GRANULARITY + GRANULARITY
    assert room_needed(None) is None
    assert [fits(counts, i, 17) for i in range(4)] == [True, False, True, False]
    assert fits(None, 0, None)
    assert not fits(None, 0, 17)
