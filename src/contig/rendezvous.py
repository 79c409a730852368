"""Where the ranks of a training meet: a store on one of them to which all of them connect.

``torch.distributed`` would do the same without a word, also where a process waits for another one that nobody
has started.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING

from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

log = logging.getLogger("contig")

ANSWER_SECONDS = 30  # within which a store that accepts connections must answer
LOST_AFTER = 3.0  # seconds after which a rank that does not count up is not waiting any more
PAUSE = 0.1  # seconds between two looks
STARTED = "started"  # the key of the ranks that have come so far


@dataclass(frozen=True)
class Rendezvous:
    """A place where ranks meet, and how long to wait there."""

    rank: int
    size: int
    address: str
    port: int
    name: str  # of this meeting: ranks that are started again use the same store
    hosts: bool  # whether this process holds the store; under torchrun none of the ranks may
    notice_after: float = 5.0  # seconds
    give_up_after: float = 1800.0
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    @property
    def place(self) -> str:
        """The address in messages."""
        return f"{self.address}:{self.port}"

    def meet(self) -> Store:
        """Return the store, once all ranks have connected to it.

        A rank that waits says so after some seconds, and for whom. ``ConfigError`` if it waited in vain.
        """
        from torch.distributed import DistError
        from torch.distributed.constants import default_pg_timeout
        from torch.distributed.distributed_c10d import PrefixStore

        begun = self.now()
        if not self.hosts:
            self._wait(begun, self._is_reachable, lambda: [0], lambda _: self._unanswered)
        store = self._connected()
        store.set_timeout(default_pg_timeout)
        own = PrefixStore(self.name, store)
        attendance = Attendance(own, self.rank, self.size, self.now)
        try:
            self._wait(begun, attendance.is_complete, lambda: attendance.missing, self._describe)
        except DistError:
            raise ConfigError(
                f"Rank {self.rank} lost the connection to the rendezvous at {self.place}: the process that "
                "held it, rank 0 or torchrun, has ended; its own message says why."
            ) from None
        return own

    def _wait(
        self,
        begun: float,
        arrived: Callable[[], bool],
        missing: Callable[[], Sequence[int]],
        describe: Callable[[Sequence[int]], str],
    ) -> None:
        """Wait until all have arrived; say which ranks are missing, and again when more of them are."""
        named: set[int] = set()
        while not arrived():
            waited = self.now() - begun
            if waited >= self.give_up_after:
                raise ConfigError(
                    f"Rank {self.rank} waited {counted(round(waited / 60), 'minute')} for "
                    f"{describe(missing())}. {self._advice()}"
                )
            if waited >= self.notice_after:
                absent = set(missing())
                if absent - named:
                    text = (
                        f"rank {self.rank} waits for {describe(missing())}. {self._advice()} Ctrl-C cancels."
                    )
                    log.warning(text, extra={"urgent": True})
                named = absent
            self.pause(PAUSE)

    def _advice(self) -> str:
        return (
            f"Start {counted(self.size, 'process', 'processes')} with WORLD_SIZE={self.size}, RANK=0 to "
            f"{self.size - 1}, MASTER_ADDR={self.address} and MASTER_PORT={self.port}, or let torchrun do it."
        )

    @property
    def _unanswered(self) -> str:
        return f"rank 0, which does not answer at {self.place}"

    def _describe(self, missing: Sequence[int]) -> str:
        if not missing:  # all are here, but others have not seen that yet
            return f"the other ranks at {self.place}"
        shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        ranks = f"rank{'s' * (len(missing) > 1)} {shown}"
        return f"{len(missing)} of {self.size} processes ({ranks}) at {self.place}"

    def _is_reachable(self) -> bool:
        """Return whether something listens there; trying that in torch could not be interrupted."""
        try:
            socket.create_connection((self.address, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _connected(self) -> Store:
        """Connect in a thread: where another program accepts the connection, torch would wait forever."""
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        found: list[Store] = []
        failed = [f"no answer within {ANSWER_SECONDS} seconds"]
        usual = "0" if sys.platform == "win32" else "1"  # as in torch, which has no libuv on Windows

        def connect() -> None:
            try:
                store = TCPStore(
                    self.address,
                    self.port,
                    self.size,
                    is_master=self.hosts,
                    timeout=timedelta(seconds=ANSWER_SECONDS),
                    wait_for_workers=False,
                    multi_tenant=True,
                    use_libuv=os.environ.get("USE_LIBUV", usual) == "1",
                )
                found.append(store)
            except Exception as error:
                failed[0] = (str(error).splitlines() or [type(error).__name__])[0][:200]

        thread = Thread(target=connect, daemon=True)
        thread.start()
        thread.join(ANSWER_SECONDS)
        if found:
            return found[0]
        problem = "cannot listen at" if self.hosts else "is not answered by rank 0 of a training at"
        raise ConfigError(
            f"Rank {self.rank} {problem} {self.place} ({failed[0]}). Choose another MASTER_PORT for all "
            "ranks, and check MASTER_ADDR, which names the machine of rank 0."
        )


class Attendance:
    """Which ranks are waiting. Each counts up while it does, so that one that has ended is missed again.

    The number of requests to the store does not grow with the number of ranks.
    """

    def __init__(self, store: Store, rank: int, size: int, now: Callable[[], float]) -> None:
        self._store, self._rank, self._size, self._now = store, rank, size, now
        self._count = 0  # of this rank
        self._counts: dict[int, bytes] = {}  # the last ones of the others
        self._seen: dict[int, float] = {}  # when those changed
        self.missing = [other for other in range(size) if other != rank]

    def is_complete(self) -> bool:
        """Count up, look which others do, and return whether every rank has seen all of them."""
        self._count += 1
        self._store.set(_count_of(self._rank), str(self._count))
        if self._count == 1:
            self._store.append(STARTED, f"{self._rank} ")  # type: ignore[attr-defined]
        self._look()
        if not self.missing:
            self._store.set(_ready(self._rank), "")
        return self._store.check([_ready(other) for other in range(self._size)])

    def _look(self) -> None:
        """Find the missing ranks. The first count that is seen of one may be of a process that has ended."""
        now = self._now()
        others = sorted(set(map(int, self._store.get(STARTED).split())) - {self._rank})
        counts = self._store.multi_get([_count_of(other) for other in others]) if others else []
        for other, count in zip(others, counts, strict=True):
            if self._counts.get(other, count) != count:
                self._seen[other] = now
            self._counts[other] = count
        self.missing = [
            other
            for other in range(self._size)
            if other != self._rank and self._seen.get(other, -math.inf) <= now - LOST_AFTER
        ]


def _count_of(rank: int) -> str:
    return f"count/{rank}"


def _ready(rank: int) -> str:
    return f"ready/{rank}"
