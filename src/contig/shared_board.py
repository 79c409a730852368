"""Memory in which the processes of one machine show tensors to each other.

A megabyte that goes through a socket costs each side about a millisecond of processor time, which is a lot in
the short steps of small models. Here it is written once and read where it is; a message of a few bytes tells
when everyone has written.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "/dev/shm"  # in memory, where the system has it
SLOT = 4 << 20  # bytes that a process can show at once
LEAST = 4096  # bytes; shorter messages fit into the one that would announce them
TURNS = 2  # a process may show its next tensor while another still reads the last one


class SharedBoard:
    """A slot of shared memory for each process, and a second one for every other exchange."""

    def __init__(self, memory: Tensor, rank: int, size: int) -> None:
        import torch

        self._slots = memory.view(TURNS, size, SLOT)
        self._rank, self._turn = rank, 0
        self._bell = torch.zeros(1)

    @classmethod
    def connected(cls, rank: int, size: int) -> SharedBoard | None:
        """Share memory with the other processes; all of them call this. None: it is not available."""
        import torch
        import torch.distributed as dist

        path: list[Any] = [_created(TURNS * size * SLOT) if rank == 0 else None]
        dist.broadcast_object_list(path, src=0)
        if path[0] is None:
            return None
        memory = None
        with suppress(OSError, RuntimeError):
            memory = torch.from_file(path[0], shared=True, size=TURNS * size * SLOT, dtype=torch.uint8)
        failed = torch.tensor([float(memory is None)])
        dist.all_reduce(failed)
        if rank == 0:
            Path(path[0]).unlink()  # everyone has mapped it; it goes with the last process
        return None if memory is None or failed > 0 else cls(memory, rank, size)

    @staticmethod
    def fits(nbytes: int) -> bool:
        """Return whether to show a tensor of this size; it must be the same on all processes."""
        return LEAST <= nbytes <= SLOT

    def shown(self, own: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Show a tensor to the others, and return those of all, with these numbers of rows.

        What is returned is valid until the next call.
        """
        import torch.distributed as dist

        slots = self._slots[self._turn].view(own.dtype)  # [processes, elements]
        slots[self._rank, : own.numel()] = own.detach().flatten()
        self._turn = (self._turn + 1) % TURNS
        dist.all_reduce(self._bell)  # returns when all have written, and so have read the exchange before
        width = math.prod(own.shape[1:])
        return [
            slot[: length * width].view(length, *own.shape[1:])
            for slot, length in zip(slots, lengths, strict=True)
        ]


def _created(nbytes: int) -> str | None:
    """Create a file in memory, with its whole size reserved, or a later write would end the process."""
    with suppress(OSError, AttributeError):  # no such folder, no space, no such call
        number, name = tempfile.mkstemp(prefix="contig-ranks-", dir=FOLDER)
        try:
            os.posix_fallocate(number, 0, nbytes)
        except OSError:
            Path(name).unlink()
            raise
        finally:
            os.close(number)
        return name
    return None
