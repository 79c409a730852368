"""Several processes that train or evaluate one model together, started by ``torchrun``.

Every rank has the whole graph and the whole state. A batch is divided among them: each computes its part, and
the parts are summed or gathered. Models that compute a vector for each node divide the nodes as well
(``contig.streaming.divided``). What one process computes, several compute up to rounding; only dropout draws
other masks.

Rank 0 writes the run; what the others write goes to a temporary folder of their own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from contig.errors import ConfigError
from contig.rendezvous import Rendezvous

if TYPE_CHECKING:
    from torch import Tensor

RESTARTS = "TORCHELASTIC_RESTART_COUNT"  # a variable that torchrun sets


@dataclass(frozen=True)
class Ranks:
    """The number of processes, and which of them this one is."""

    rank: int = 0
    size: int = 1

    @property
    def alone(self) -> bool:
        """Whether there is one process only."""
        return self.size == 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def bounds(self, count: int) -> tuple[int, int]:
        """Return where this rank's part of ``count`` rows begins and ends."""
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, the same bits on each of them."""
        if self.alone:
            return value
        import torch.distributed as dist

        summed = _sendable(value.detach()).clone()
        dist.all_reduce(summed)
        return summed.to(value.device)

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any rank."""
        if self.alone:
            return flag
        import torch

        return bool(self.total(torch.tensor([float(flag)])) > 0)

    def gathered(self, part: Tensor, count: int) -> Tensor:
        """Return all ``count`` rows, of which each rank has computed its part (see ``bounds``)."""
        if self.alone:
            return part
        import torch
        import torch.distributed as dist

        longest = -(-count // self.size)
        own = _sendable(part)
        padded = own.new_zeros((longest, *own.shape[1:]))
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        sizes = [Ranks(rank, self.size).bounds(count) for rank in range(self.size)]
        rows = [one[: end - begin] for one, (begin, end) in zip(parts, sizes, strict=True)]
        return torch.cat(rows).to(part.device)

    def swap(self, rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
        """Send the first ``sent[0]`` rows to rank 0, the next to rank 1, and so on; return what comes back.

        ``received`` are the numbers of rows that come from each rank, in the order of the ranks.
        """
        import torch.distributed as dist

        own = _sendable(rows).contiguous()
        found = own.new_empty((sum(received), *own.shape[1:]))
        dist.all_to_all_single(found, own, received, sent)
        return found.to(rows.device)

    def all_rows(self, rows: Tensor) -> list[Tensor]:
        """Return the rows of every rank, whose numbers may differ."""
        import torch

        counts = self.gathered(torch.tensor([len(rows)]), self.size).tolist()
        every = rows.unsqueeze(0).expand(self.size, *rows.shape).flatten(0, 1)
        return list(self.swap(every, [len(rows)] * self.size, counts).split(counts))

    def shared(self, value: Any) -> Any:
        """Return what rank 0 passes."""
        if self.alone:
            return value
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def check_agreement(self, facts: Mapping[str, Any]) -> None:
        """Raise ``ConfigError`` on every rank if one of the facts is not the same on all of them."""
        if self.alone:
            return
        import torch.distributed as dist

        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, dict(facts))
        for name in facts:
            for rank, theirs in enumerate(everyone):
                if theirs[name] != everyone[0][name]:
                    ours, other = _differing(everyone[0][name], theirs[name])
                    raise ConfigError(
                        f"The ranks do not agree on the {name}: rank 0 has {ours!r}, rank {rank} has "
                        f"{other!r}. Start all of them with the same command on the same files."
                    )

    def temporary_folder(self) -> Path:
        """Return a folder for what this rank writes, if it is not the first; it is removed at the end."""
        own = Path(tempfile.mkdtemp(prefix=f"contig-rank-{self.rank}-"))
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        _exit_on_sigterm()
        return own


def _exit_on_sigterm() -> None:
    """Let SIGTERM, by which torchrun ends the other ranks when one has failed, end this process in order."""
    if current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _differing(one: Any, other: Any) -> tuple[Any, Any]:
    """Reduce two different values to what differs: of mappings, to the entries that are not equal."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one, other
    pairs = {
        name: _differing(one.get(name), other.get(name))
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    }
    return {name: a for name, (a, _) in pairs.items()}, {name: b for name, (_, b) in pairs.items()}


def restarted() -> bool:
    """Return whether torchrun has started these processes again after a failure."""
    return int(os.environ.get(RESTARTS, "0")) > 0


def world_size() -> int:
    """Return the number of processes that torchrun has started, without connecting to them."""
    size = os.environ.get("WORLD_SIZE", "1")
    if not size.isdecimal() or not int(size):
        raise ConfigError(f"WORLD_SIZE={size!r}: expected a number of processes; start them with torchrun.")
    return int(size)


def require_one_process(command: str) -> None:
    """Raise ``ConfigError`` if torchrun started a command that several processes cannot share."""
    if (size := world_size()) > 1 and "RANK" in os.environ:
        raise ConfigError(f"{command} runs in one process, not in {size}; start it without torchrun.")


@cache
def ranks() -> Ranks:
    """Return the ranks of this process, and connect it to the others at the first call."""
    size = world_size()
    if size == 1 or "RANK" not in os.environ:
        return Ranks()
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        value = os.environ.get(name, "")
        if not value or (name != "MASTER_ADDR" and not value.isdecimal()):
            raise ConfigError(f"WORLD_SIZE={size}, but {name}={value!r}: start the processes with torchrun.")
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    if rank >= size:
        raise ConfigError(f"WORLD_SIZE={size}, but RANK='{rank}': ranks are numbered from 0 to {size - 1}.")
    if port >= 1 << 16:
        raise ConfigError(f"MASTER_PORT='{port}': ports are numbered up to {(1 << 16) - 1}.")
    import torch.distributed as dist

    if not dist.is_initialized():
        by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # which then holds the store
        store = Rendezvous(
            rank,
            size,
            os.environ["MASTER_ADDR"],
            port,
            # Under names of its own, or a process would connect to one that ran before a restart.
            name=f"contig/{os.environ.get(RESTARTS, '0')}",
            hosts=rank == 0 and not by_torchrun,
        ).meet()
        backend = "cpu:gloo,cuda:nccl" if _gpu_each() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        atexit.register(dist.destroy_process_group)
    return Ranks(dist.get_rank(), size)


def own_gpu(gpus: int) -> int:
    """Return which of a machine's GPUs this process uses."""
    return int(os.environ.get("LOCAL_RANK", "0")) % gpus


def _sendable(tensor: Tensor) -> Tensor:
    """Return a tensor that the processes can exchange: on the host, where they share a GPU."""
    return tensor if not tensor.is_cuda or _gpu_each() else tensor.cpu()


def _gpu_each() -> bool:
    """Return whether every process of this machine has a GPU of its own, which NCCL requires."""
    import torch

    return torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
