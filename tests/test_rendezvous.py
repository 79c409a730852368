"""Ranks that wait for each other say so, and give up in the end."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from torch.distributed import HashStore, PrefixStore, TCPStore

from contig import rendezvous
from contig.errors import ConfigError
from contig.rendezvous import LOST_AFTER, Attendance, Rendezvous

HERE = "127.0.0.1"


def free_port() -> int:
    with closing(socket.create_server((HERE, 0))) as server:
        port: int = server.getsockname()[1]
    return port


def clock(step: float) -> Callable[[], float]:
    """Return a clock that goes on by so many seconds whenever it is read."""
    return map(float, itertools.count(100, step)).__next__


class Others:
    """The other ranks of a meeting, which look at the store during each pause until they have met."""

    def __init__(self, port: int, size: int, coming: list[int | None]) -> None:
        self.port, self.size, self.coming = port, size, coming  # who arrives during each of the first pauses
        self.waiting: dict[int, Attendance] = {}

    def pause(self, seconds: float) -> None:
        if self.coming and (rank := self.coming.pop(0)) is not None:
            store = TCPStore(HERE, self.port, is_master=False, wait_for_workers=False)
            self.waiting[rank] = Attendance(PrefixStore("today", store), rank, self.size, lambda: 0.0)
        self.waiting = {rank: one for rank, one in self.waiting.items() if not one.is_complete()}


def nothing(seconds: float) -> None:
    pass


def rank(number: int, size: int, port: int, **more: Any) -> Rendezvous:
    given = {"name": "today", "hosts": number == 0, "pause": nothing, **more}
    return Rendezvous(number, size, HERE, port, **given)


def messages(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    return (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)


def test_a_rank_says_once_for_whom_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    others = Others(port, 3, [None, 2, None, None, None, None, 1])
    rank(0, 3, port, pause=others.pause, now=clock(0.5)).meet()
    assert not others.coming
    (said,) = messages(caplog)
    assert said == (
        f"rank 0 waits for 1 of 3 processes (rank 1) at {HERE}:{port}. Start 3 processes with WORLD_SIZE=3, "
        f"RANK=0 to 2, MASTER_ADDR={HERE} and MASTER_PORT={port}, or let torchrun do it. Ctrl-C cancels."
    )


def test_ranks_that_arrive_in_time_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    rank(0, 2, port, pause=Others(port, 2, [1]).pause, now=clock(0.5)).meet()
    assert not list(messages(caplog))


def test_a_rank_that_ended_while_it_waited_is_missing_again(caplog: pytest.LogCaptureFixture) -> None:
    """Rank 1 leaves before rank 2 arrives; nobody goes on without it, and it may come again."""
    port, pauses = free_port(), itertools.count(1)
    others = Others(port, 3, [1, None, None])

    def pause(seconds: float) -> None:
        match next(pauses):
            case 4:
                del others.waiting[1]
            case 5:
                others.coming.append(2)
            case 40:
                assert set(others.waiting) == {2}
                others.coming.append(1)
        others.pause(seconds)

    store = rank(0, 3, port, pause=pause, now=clock(0.5)).meet()
    assert next(pauses) > 41
    others.pause(0)
    assert not others.waiting
    del store
    first, second = messages(caplog)
    assert "rank 0 waits for 1 of 3 processes (rank 2)" in first  # after five seconds, when rank 1 was there
    assert "rank 0 waits for 1 of 3 processes (rank 1)" in second


def test_nothing_is_said_while_only_another_rank_misses_one(caplog: pytest.LogCaptureFixture) -> None:
    """Rank 1 ends while rank 0 still takes it for present; rank 2 has never seen it."""
    port, pauses = free_port(), itertools.count(1)
    others = Others(port, 3, [1, None, None])

    def pause(seconds: float) -> None:
        match next(pauses):
            case 7:
                del others.waiting[1]
                others.coming.append(2)
            case 30:
                others.coming.append(1)
        others.pause(seconds)

    rank(0, 3, port, pause=pause, now=clock(0.5), notice_after=9).meet()
    assert next(pauses) > 31
    (said,) = messages(caplog)
    assert "rank 0 waits for 1 of 3 processes (rank 1)" in said


class CountingStore:
    """A store that counts the requests."""

    def __init__(self) -> None:
        self.store, self.requests = HashStore(), 0

    def __getattr__(self, name: str) -> Any:
        self.requests += 1
        return getattr(self.store, name)


def test_looking_for_many_ranks_takes_few_requests() -> None:
    store: Any = CountingStore()
    ranks = [Attendance(store, rank, 100, lambda: 0.0) for rank in range(100)]
    for _ in range(3):
        complete = [one.is_complete() for one in ranks]
    assert complete[-1]
    assert store.requests <= 3 * 100 * 5


def test_old_counts_are_no_reason_to_take_a_rank_for_present() -> None:
    """A rank that has just arrived sees what one that has ended left behind."""
    store = TCPStore(HERE, free_port(), is_master=True, wait_for_workers=False)
    times = iter([0.0, 1.0, 2.0, 2.0 + LOST_AFTER, 3.0 + LOST_AFTER])
    Attendance(store, 1, 2, lambda: 0.0).is_complete()
    waiting = Attendance(store, 0, 2, times.__next__)
    missing = []
    for count in (None, None, "17", None, None):
        if count is not None:
            store.set("count/1", count)
        assert not waiting.is_complete()
        missing.append(waiting.missing)
    assert missing == [[1], [1], [], [1], [1]]


def test_a_rank_says_that_the_one_that_held_the_rendezvous_has_ended() -> None:
    port = free_port()
    stores = [TCPStore(HERE, port, is_master=True, wait_for_workers=False)]
    with pytest.raises(ConfigError, match=rf"Rank 1 lost the connection to the rendezvous at {HERE}:{port}"):
        rank(1, 2, port, pause=lambda seconds: stores.clear(), now=clock(0)).meet()


def test_a_rank_that_nobody_joins_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    expected = rf"Rank 0 waited 40 minutes for 2 of 3 processes \(ranks 1, 2\) at {HERE}:{port}\. Start 3"
    with pytest.raises(ConfigError, match=expected):
        rank(0, 3, port, now=clock(600)).meet()


def test_a_rank_says_that_the_first_one_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with pytest.raises(ConfigError, match="Rank 1 waited 1 minute for rank 0, which does not answer at"):
        rank(1, 2, port, now=clock(4), give_up_after=60).meet()
    (said,) = messages(caplog)
    assert said.startswith(
        f"rank 1 waits for rank 0, which does not answer at {HERE}:{port}. Start 2 processes"
    )


def test_the_first_rank_may_come_later() -> None:
    """It listens only once the other has looked for it twice."""
    port, pauses, others = free_port(), itertools.count(1), Others(0, 2, [])
    stores = []

    def pause(seconds: float) -> None:
        if next(pauses) == 2:
            stores.append(TCPStore(HERE, port, is_master=True, wait_for_workers=False))
            others.waiting[0] = Attendance(PrefixStore("today", stores[0]), 0, 2, lambda: 0.0)
        others.pause(seconds)

    rank(1, 2, port, pause=pause, now=clock(0)).meet()
    assert next(pauses) > 2


def test_a_port_in_use_is_named() -> None:
    with closing(socket.create_server((HERE, 0))) as server:
        port = server.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"Rank 0 cannot listen at {HERE}:{port} .*another MASTER_PORT"
        ):
            rank(0, 2, port).meet()


def test_another_program_at_the_port_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "ANSWER_SECONDS", 0)
    with closing(socket.create_server((HERE, 0))) as server:  # accepts connections, but never answers
        port = server.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"Rank 1 is not answered by rank 0 of a training at {HERE}:{port}"
        ):
            rank(1, 2, port).meet()


@pytest.mark.parametrize(
    ("system", "chosen", "expected"), [("linux", "", True), ("win32", "", False), ("linux", "0", False)]
)
def test_stores_use_libuv_where_torch_does(
    system: str, chosen: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bool] = []
    monkeypatch.setattr("torch.distributed.TCPStore", lambda *_, use_libuv, **more: given.append(use_libuv))
    monkeypatch.setattr(rendezvous.sys, "platform", system)
    monkeypatch.delenv("USE_LIBUV", raising=False)
    if chosen:
        monkeypatch.setenv("USE_LIBUV", chosen)
    rank(0, 2, 1)._connected()
    assert given == [expected]


def test_a_restart_does_not_meet_the_ranks_of_before() -> None:
    port = free_port()
    before = TCPStore(HERE, port, is_master=True, wait_for_workers=False)
    PrefixStore("today", before).set("ready/0", "")
    with pytest.raises(ConfigError, match=r"1 of 2 processes \(rank 0\)"):
        rank(1, 2, port, name="tomorrow", now=clock(600)).meet()
