"""Many readers and writers at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live import HEAD, Offline, open_engine, rows

from contig.data.events import EventStream
from contig.errors import RunError
from contig.live import Events
from contig.live.log import EventLog, NewBatch


def test_waiting_callers_share_a_transaction(
    live_run: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    append = EventLog.append

    def counted(log: EventLog, new: list[NewBatch]) -> None:
        groups.append(len(new))
        append(log, new)

    monkeypatch.setattr(EventLog, "append", counted)
    with open_engine(tmp_path, live_run("contig")) as engine, ThreadPoolExecutor(6) as pool:
        with engine._writer._turn:
            futures = [pool.submit(engine.observe, Events([n], [n + 50], [1000])) for n in range(900, 906)]
            while len(engine._writer._waiting) < 6:
                threading.Event().wait(0.001)
        assert [future.result().accepted for future in futures] == [1] * 6
        assert groups == [6]
        assert engine.status().live_events == 6


def test_an_invalid_batch_does_not_harm_those_it_waits_with(
    live_run: Callable[[str], Path], tmp_path: Path
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine, ThreadPoolExecutor(3) as pool:
        engine.observe(Events([900], [950], [1000]), "known")
        with engine._writer._turn:
            bad = pool.submit(engine.observe, Events([901], [951], [1001]), "known")
            good = pool.submit(engine.observe, Events([902], [952], [1002]))
            while len(engine._writer._waiting) < 2:
                threading.Event().wait(0.001)
        assert "other events" in str(bad.exception())
        assert good.result().accepted == 1
        assert engine.status().live_events == 2


def test_readers_see_the_state_between_two_batches(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    """Every answer is that of some prefix of the events, whole batches of which were observed."""
    far = tiny.t[-1].item() + 50
    ends = list(range(HEAD, 345, 9))
    answers: list[Any] = []
    done = threading.Event()
    with open_engine(tmp_path, live_run("contig")) as engine:
        names = engine._writer.ids.labels[:4]

        def read() -> None:
            while not done.is_set():
                found = engine.embed(names, far, side="src")
                answers.append((engine._graph.history.num_events, found))

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for first, last in pairwise(ends):
            engine.observe(rows(tiny, slice(first, last)))
        done.set()
        for reader in readers:
            reader.join()
    prefixes = [Offline(live_run("contig"), tiny[:end]) for end in ends]
    expected = [np.stack([one.embed(node, far) for node in range(4)]) for one in prefixes]
    assert len(answers) >= 3
    for _, found in answers:
        assert any(np.allclose(found.vectors, one, rtol=2e-6, atol=2e-6) for one in expected)


def test_a_closed_engine_answers_no_more(live_run: Callable[[str], Path], tmp_path: Path) -> None:
    engine = open_engine(tmp_path, live_run("contig"))
    engine.close()
    engine.close()
    with pytest.raises(RunError, match="closed"):
        engine.embed([1])
    with pytest.raises(RunError, match="closed"):
        engine.observe(Events([1], [2], [3]))
