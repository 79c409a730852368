"""Where the ranks of a training meet: a store on one of them to which all of them connect.

``torch.distributed`` would do the same without a word, also where a process waits for another one that nobody
has started.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
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
PAUSE = 0.1  # seconds between two looks


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
        from torch.distributed.constants import default_pg_timeout
        from torch.distributed.distributed_c10d import PrefixStore

        begun = self.now()
        if not self.hosts:
            self._wait(begun, self._is_reachable, lambda: f"rank 0, which does not answer at {self.place}")
        store = self._connected()
        store.set_timeout(default_pg_timeout)
        own = PrefixStore(self.name, store)
        own.set(_key(self.rank), "here")
        every = [_key(rank) for rank in range(self.size)]
        self._wait(begun, lambda: own.check(every), lambda: self._missing(own))
        return own

    def _wait(self, begun: float, arrived: Callable[[], bool], missing: Callable[[], str]) -> None:
        said = False
        while not arrived():
            waited = self.now() - begun
            if waited >= self.give_up_after:
                raise ConfigError(
                    f"Rank {self.rank} waited {counted(round(waited / 60), 'minute')} for {missing()}. "
                    f"{self._advice()}"
                )
            if waited >= self.notice_after and not said:
                said = True
                text = f"rank {self.rank} waits for {missing()}. {self._advice()} Ctrl-C cancels."
                log.warning(text, extra={"urgent": True})
            self.pause(PAUSE)

    def _advice(self) -> str:
        return (
            f"Start {counted(self.size, 'process', 'processes')} with WORLD_SIZE={self.size}, RANK=0 to "
            f"{self.size - 1}, MASTER_ADDR={self.address} and MASTER_PORT={self.port}, or let torchrun do it."
        )

    def _missing(self, store: Store) -> str:
        missing = [rank for rank in range(self.size) if not store.check([_key(rank)])]
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
        from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

        found: list[Store] = []
        failed = [f"no answer within {ANSWER_SECONDS} seconds"]

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
                )
                found.append(store)
            except DistError as error:
                failed[0] = str(error).splitlines()[0][:200]

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


def _key(rank: int) -> str:
    return f"rank/{rank}"
