"""Adding and removing single occurrences in the middle of keyed events, for events that arrive late.

An edit takes time in proportion to the occurrences of its key.
"""

from __future__ import annotations

import torch
from torch import Tensor

from contig.kernels.dispatch import backend
from contig.kernels.keyed_events import LENGTH_BITS, LENGTH_MASK, KeyedEvents


def insert(keyed: KeyedEvents, key: int, time: Tensor) -> None:
    """Add an occurrence at any time; it comes after others of the same time."""
    times = times_of(keyed, key)
    place = int((times <= time).sum())
    last = torch.cat([times[-1:], time.reshape(1)]).max()
    keyed.append(torch.tensor([key], device=keyed.device), last.reshape(1))  # makes room
    _rewrite(keyed, key, torch.cat([times[:place], time.reshape(1), times[place:]]), place)


def remove(keyed: KeyedEvents, key: int, time: Tensor) -> None:
    """Remove one of the occurrences at a time; there must be one."""
    times = times_of(keyed, key)
    place = int((times < time).sum())
    _rewrite(keyed, key, torch.cat([times[:place], times[place + 1 :]]), place)


def times_of(keyed: KeyedEvents, key: int) -> Tensor:
    """Return a copy of the times at which a key occurred."""
    start, length = (int(x) for x in keyed._segments(torch.tensor([key], device=keyed.device)))
    return keyed.entry_time[start : start + length].clone()


def _rewrite(keyed: KeyedEvents, key: int, times: Tensor, first: int) -> None:
    """Set the times of a key, of which those before ``first`` are as before; there must be room for them."""
    slot = int(keyed._slots(torch.tensor([key], device=keyed.device))[0])
    start = int(keyed.table[slot, 1]) >> LENGTH_BITS
    assert len(times) <= LENGTH_MASK
    keyed.table[slot, 1] = (start << LENGTH_BITS) | len(times)
    keyed.entry_time[start : start + len(times)] = times
    if not len(keyed.decay_times):
        return
    if backend(keyed.device) == "numba":
        from contig.kernels.cpu import keyed_events as loops

        loops.count_decayed(keyed, start, first, len(times))
    else:
        _count_decayed(keyed, start, first, len(times))


def _count_decayed(keyed: KeyedEvents, start: int, first: int, length: int) -> None:
    for at in range(start + first, start + length):
        decayed = torch.ones_like(keyed.decay_times)
        if at > start:
            gap = (keyed.entry_time[at] - keyed.entry_time[at - 1]).double()
            decayed += keyed.entry_decayed[at - 1].double() * torch.exp(-gap / keyed.decay_times)
        keyed.entry_decayed[at] = decayed.float()
