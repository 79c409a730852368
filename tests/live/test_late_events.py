"""Events that arrive out of order."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.live import HEAD, open_engine, rows, state_of
from support.trained import bit_identical

from contig.data.events import EventStream
from contig.history import History
from contig.history.evidence import EvidenceSpec
from contig.live import Events
from contig.live.answers import Rejection

SPEC = EvidenceSpec((3.0, 40.0), nodes=True, steps=(1, 2))


def late_batch(tiny: EventStream) -> tuple[Events, int]:
    """An event of an active pair at a time long before their last events, and one after all others."""
    sent = rows(tiny, [HEAD - 1])
    old = tiny.t[HEAD // 2].item()
    return Events([sent.src[0], sent.src[0]], [sent.dst[0], sent.dst[0]], [old, tiny.t[-1] + 1]), old


def test_a_late_event_is_rejected_and_the_rest_is_applied(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        events, old = late_batch(tiny)
        latest = [
            engine.recent_events(name, 1, side=side)[0].t
            for name, side in ((events.src[0], "src"), (events.dst[0], "dst"))
        ]
        receipt = engine.observe(events)
        assert receipt.accepted == 1
        node = events.dst[0] if latest[1] > latest[0] else events.src[0]
        reason = f"t={old} is before the last event of node {node!r}, at {max(latest)}."
        assert receipt.rejected == [Rejection(0, reason)]
        assert engine.status().live_events == 1
        assert engine.recent_events(events.src[0], 1, side="src")[0].t == tiny.t[-1] + 1


def test_a_rejected_event_does_not_create_its_other_node(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        nodes = engine.status().nodes
        active = rows(tiny, [HEAD - 1]).dst[0]
        receipt = engine.observe(Events([777_000], [active], [0]))
        assert (receipt.accepted, len(receipt.rejected)) == (0, 1)
        assert engine.status().nodes == nodes
        assert engine.find("777000") == []


def test_an_event_older_than_those_of_other_nodes_is_applied(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        receipt = engine.observe(Events([901, 902, 901], [951, 952, 951], [500, 400, 300]))
        assert receipt.accepted == 3
        receipt = engine.observe(Events([903], [953], [200]))
        assert (receipt.accepted, receipt.last_time) == (1, 500)
        assert [event.t for event in engine.recent_events(903)] == [200]
        # the states count it at the clock of the stream, neighbors at its own time
        assert engine.score([903], [953], 201).score.shape == (1,)
        before = state_of(engine)
    with open_engine(tmp_path) as again:
        assert bit_identical(state_of(again), before)


def test_an_accepted_late_event_changes_the_history_and_no_state(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    with open_engine(tmp_path, live_run("contig-pair"), late="accept") as engine:
        engine.observe(rows(tiny, slice(HEAD, 300)))
        before = state_of(engine)
        sent = rows(tiny, [HEAD - 1])
        old = tiny.t[HEAD // 2].item()
        receipt = engine.observe(Events(sent.src, sent.dst, [old]))
        assert (receipt.accepted, receipt.rejected) == (1, [])
        after = state_of(engine)
        assert bit_identical(after["rows"], before["rows"])
        assert after["late"] == [300]
        node = engine._queries._find(sent.src[0], "src")
        times = after["entry_time"][node]
        assert times == sorted(times)
        assert times.count(old) == before["entry_time"][node].count(old) + 1
        engine.observe(rows(tiny, slice(300, 350)))
        engine.score(sent.src, sent.dst)  # reads the evidence
        final = state_of(engine)
    with open_engine(tmp_path, late="accept") as again:
        again.score(sent.src, sent.dst)
        assert bit_identical(state_of(again), final)
        assert final["evidence"]


def late_copies(tiny: EventStream, chosen: slice, at: int) -> Events:
    """Events once more, at the time of another one."""
    sent = rows(tiny, chosen)
    return Events(sent.src, sent.dst, [tiny.t[at].item()] * len(sent.src))


def test_a_replay_inserts_late_events_where_they_were_inserted(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    """The states of DyRep depend on the history; those before a late event must not know it."""
    with open_engine(tmp_path / "live", live_run("dyrep"), late="accept") as engine:
        for first in range(HEAD, 370, 20):
            engine.observe(rows(tiny, slice(first, first + 20)))
            engine.observe(late_copies(tiny, slice(first - 60, first), first - 25))
        expected = state_of(engine)
        crashed = shutil.copytree(
            tmp_path / "live", tmp_path / "crashed", ignore=shutil.ignore_patterns(".lock")
        )
    with open_engine(crashed, late="accept") as again:
        assert bit_identical(state_of(again), expected)


def test_rows_that_were_computed_before_a_late_event_are_forgotten(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    """The history that they were computed from has changed."""
    with open_engine(tmp_path / "live", live_run("dyrep"), late="accept") as engine:
        engine.observe(rows(tiny, slice(HEAD, 319)))
        engine.embed([tiny.ids.labels[tiny.src[0]].item()], side="src")  # computes and keeps some
        engine.observe(rows(tiny, [319]))
        assert engine._graph._updates._count > 0
        engine.observe(late_copies(tiny, slice(300, 320), 285))
        assert engine.status().late_events == 20
        assert engine._graph._updates._count == 0


@pytest.mark.parametrize("seed", range(4))
def test_inserted_events_leave_the_evidence_of_a_stream_in_time_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, nodes = 60, 5
    src, dst = rng.integers(0, nodes, count), rng.integers(0, nodes, count)
    t = rng.integers(0, 25, count)
    history = History.empty(nodes, time_dtype=torch.int64)
    history.evidence(SPEC)
    last, clock = np.full(nodes, -1), 0
    for i in range(count):
        late = bool(t[i] < max(last[src[i]], last[dst[i]]))
        clock = max(clock, int(t[i]))
        one = [torch.tensor([column[i]]) for column in (src, dst)]
        history.append(
            *one,
            torch.tensor([clock]),
            happened=torch.tensor([int(t[i])]),
            late=torch.tensor([late]),
        )
        for node in (src[i], dst[i]):
            last[node] = max(last[node], t[i])
    order = np.argsort(t, kind="stable")
    expected = History.from_stream(
        EventStream.from_arrays(
            np.r_[src[order], np.arange(nodes)],
            np.r_[dst[order], np.arange(nodes)],
            np.r_[t[order], np.full(nodes, 10**6)],  # every node is there
            bipartite=False,
        )
    )
    ask = torch.arange(nodes**2)
    u, v = ask // nodes, ask % nodes
    for time in (3, 11, 12, 26):
        when = torch.full((nodes**2,), time)
        for name, keys in keys_of(u, v).items():
            found = [getattr(h.evidence(SPEC), name).features(keys, when, 1.5) for h in (history, expected)]
            torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-6)
        near = [h.before(u, when, 7) for h in (history, expected)]
        assert torch.equal(near[0].node, near[1].node)
        assert torch.equal(near[0].time, near[1].time)


def keys_of(u: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
    from contig.history.evidence import follows, incoming, meeting, node

    return {
        "events": torch.where(u == v, torch.where(u % 2 == 0, node(u), incoming(u)), meeting(u, v)),
        "transitions": follows(u, v, 2),
    }
