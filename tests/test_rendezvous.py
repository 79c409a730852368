"""Ranks that wait for each other say so, and give up in the end."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from torch.distributed import PrefixStore, TCPStore

from contig import rendezvous
from contig.errors import ConfigError
from contig.rendezvous import Rendezvous

HERE = "127.0.0.1"


def free_port() -> int:
    with closing(socket.create_server((HERE, 0))) as server:
        port: int = server.getsockname()[1]
    return port


def clock(step: float) -> Callable[[], float]:
    """Return a clock that goes on by so many seconds whenever it is read."""
    return map(float, itertools.count(100, step)).__next__


def arrive(port: int, rank: int) -> None:
    """Do what another rank does when it has found the store."""
    store = TCPStore(HERE, port, is_master=False, wait_for_workers=False)
    PrefixStore("today", store).set(f"rank/{rank}", "here")


def nothing(seconds: float) -> None:
    pass


def rank(number: int, size: int, port: int, **more: Any) -> Rendezvous:
    given = {"name": "today", "hosts": number == 0, "pause": nothing, **more}
    return Rendezvous(number, size, HERE, port, **given)


def messages(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    return (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)


def test_a_rank_says_once_for_whom_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    meanwhile = iter([None, 2, None, None, 1])  # who arrives during each pause

    def pause(seconds: float) -> None:
        if (other := next(meanwhile)) is not None:
            arrive(port, other)

    found = rank(0, 3, port, pause=pause, now=clock(2)).meet()
    assert found.check([f"rank/{number}" for number in range(3)])
    assert next(meanwhile, "all used") == "all used"
    (said,) = messages(caplog)
    assert said == (
        f"rank 0 waits for 1 of 3 processes (rank 1) at {HERE}:{port}. Start 3 processes with WORLD_SIZE=3, "
        f"RANK=0 to 2, MASTER_ADDR={HERE} and MASTER_PORT={port}, or let torchrun do it. Ctrl-C cancels."
    )


def test_ranks_that_arrive_in_time_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    rank(0, 2, port, pause=lambda seconds: arrive(port, 1), now=clock(2)).meet()
    assert not list(messages(caplog))


def test_a_rank_that_nobody_joins_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    expected = rf"Rank 0 waited 30 minutes for 2 of 3 processes \(ranks 1, 2\) at {HERE}:{port}\. Start 3"
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
    port, stores = free_port(), []

    def pause(seconds: float) -> None:
        stores.append(None if not stores else TCPStore(HERE, port, is_master=True, wait_for_workers=False))
        if stores[-1] is not None:
            PrefixStore("today", stores[-1]).set("rank/0", "here")

    rank(1, 2, port, pause=pause, now=clock(0)).meet()
    assert len(stores) == 2


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


def test_a_restart_does_not_meet_the_ranks_of_before() -> None:
    port = free_port()
    before = TCPStore(HERE, port, is_master=True, wait_for_workers=False)
    PrefixStore("today", before).set("rank/0", "here")
    with pytest.raises(ConfigError, match=r"1 of 2 processes \(rank 0\)"):
        rank(1, 2, port, name="tomorrow", now=clock(600)).meet()
