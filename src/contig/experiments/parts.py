"""Parts of a sweep: the same command on several machines, each of which trains some of the runs.

The division is arithmetic on the names of the runs, so that it needs no working locks on a shared disk. Locks
only keep the same part from running twice, where the file system has them.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from contig.errors import ConfigError, RunError
from contig.experiments.jobs import Job, Work
from contig.locks import locked
from contig.models import model_class

C = TypeVar("C", bound=Sequence[Work])

log = logging.getLogger("contig")

CLAIMS = ".parts"  # in the folder of a sweep: a locked folder for each part that is running
RETRY_SECONDS = 1.0  # between attempts to claim a part that is in use


@dataclass(frozen=True)
class Part:
    """One of ``total`` parts of a sweep, counted from 1; by default all of it."""

    number: int = 1
    total: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``NUMBER/TOTAL``, such as ``2/3``."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        number, total = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= number <= total:
            raise ConfigError(f"--part {text}: expected K/N with K from 1 to N, such as 2/3.")
        return cls(number, total)

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    @property
    def whole(self) -> bool:
        """Whether this is the whole sweep."""
        return self.total == 1

    def of(self, chains: Sequence[C]) -> list[C]:
        """Return the chains of this part, in their order.

        Which ones these are depends on the names of all runs alone, not on their order and not on what is
        finished: parts that start at different times divide the same work. Runs are dealt out back and forth,
        1 2 3 3 2 1, so that no part always gets the first of two models; heuristics, which are cheap, last.
        """
        cycle = 2 * self.total
        places = (place % cycle for place in range(len(chains)))
        takers = (min(place, cycle - 1 - place) + 1 for place in places)
        in_order = sorted((chain[0] for chain in chains), key=_order)
        own = {work.name for work, number in zip(in_order, takers, strict=True) if number == self.number}
        return [chain for chain in chains if chain[0].name in own]


def _order(work: Work) -> tuple[bool, str]:
    return isinstance(work, Job) and not model_class(work.recipe.model).learns, work.name


@contextmanager
def claimed(folder: Path, part: Part, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes from training this part, or parts of another division, in ``folder``.

    Raises ``RunError`` if one is running; ``wait`` waits until it has ended instead.
    """
    claims = folder / CLAIMS
    try:
        with _claim(claims, part, wait):
            yield
    finally:
        _remove_if_empty(claims / _name(part))
        _remove_if_empty(claims)


def _claim(claims: Path, part: Part, wait: bool) -> ExitStack:
    """Lock a part, and return what releases it."""
    waiting = False
    while True:
        try:
            with locked(claims, wait=True), ExitStack() as held:  # one process at a time looks around
                _check_divisions(claims, part)
                held.enter_context(locked(claims / _name(part)))
                return held.pop_all()
        except RunError as error:
            if not wait:
                what = "The command" if part.whole else f"Part {part}"
                raise RunError(f"{what} cannot start in {claims.parent}: {error}") from None
            if not waiting:
                log.info("waiting: %s", error)
            waiting = True
        time.sleep(RETRY_SECONDS)


def _check_divisions(claims: Path, part: Part) -> None:
    """Raise ``RunError`` if a part of another division is running: both would have some of the same runs."""
    for other in claims.glob("*-of-*"):
        if not other.name.endswith(f"-of-{part.total}"):
            with locked(other):
                pass
            _remove_if_empty(other)  # left by a process that was killed


def _name(part: Part) -> str:
    return f"{part.number}-of-{part.total}"


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # in use
        folder.rmdir()
