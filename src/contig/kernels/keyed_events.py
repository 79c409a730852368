"""Look up how often and how recently a key occurred before a time.

A key is any non-negative integer, such as a pair of nodes. A hash table (open addressing, linear probing)
maps a key to its segment of a pool, which holds the times of its occurrences in ascending order, so a query
about any time is one bisection. Each time is stored with decayed counts: for each decay time, the sum of
``exp(-age / decay_time)`` over the occurrences so far. They give the decayed count at any later time.

The capacity of a segment is a power of two. A full segment moves to the end of the pool with twice the
capacity, and a table that is two thirds full doubles, so appending takes amortized O(1) per occurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from contig.data.columns import Array
from contig.kernels.dispatch import backend
from contig.kernels.pinned_memory import pinned_copy
from contig.kernels.segments import concatenated_ranges

Zeros = Callable[[str, tuple[int, ...], torch.dtype], Tensor]

EMPTY = -1  # the key of a free slot
LENGTH_BITS = 28  # of a packed segment; the rest is its start
LENGTH_MASK = (1 << LENGTH_BITS) - 1
FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # Knuth's multiplicative hashing, as a signed number
FULL = 2 / 3  # of the slots
MIN_SLOTS = 16
# Recency is 3 - log(1 + age / unit) / 10: zero, the value of a key that never occurred, after e^30 units.
RECENCY_AT_ZERO, RECENCY_SLOPE = 3.0, -0.1
# Compiled code is cached by the text of its own file, so it has copies of these, and compares them.
LAYOUT = (EMPTY, LENGTH_BITS, FACTOR % (1 << 64), FULL, RECENCY_AT_ZERO, RECENCY_SLOPE)


@dataclass(eq=False)
class KeyedEvents:
    """The times at which keys occurred, with decayed counts."""

    table: Tensor  # [slots, 2] int64: key, and its segment as start << LENGTH_BITS | length
    entry_time: Tensor  # [pool] int64 or float64
    entry_decayed: Tensor  # [pool, decay times] float32: decayed counts just after the entry
    decay_times: Tensor  # [decay times] float64
    num_keys: int = 0
    used: int = 0  # length of the part of the pool that is divided into segments
    zeros: Zeros | None = field(
        default=None, init=False
    )  # creates larger arrays, if not memory of the same device

    @classmethod
    def empty(cls, decay_times: Sequence[float], time_dtype: torch.dtype) -> KeyedEvents:
        """Return a structure without keys, on the CPU."""
        scales = torch.tensor(decay_times, dtype=torch.float64)
        table = torch.zeros((MIN_SLOTS, 2), dtype=torch.int64)
        table[:, 0] = EMPTY
        return cls(table, torch.empty(0, dtype=time_dtype), torch.empty((0, len(scales))), scales)

    @classmethod
    def of(cls, keys: Tensor, times: Tensor, decay_times: Sequence[float]) -> KeyedEvents:
        """Index keys ``[n]`` at times ``[n]`` (ascending); negative keys are skipped.

        The result is on the CPU.
        """
        keyed = cls.empty(decay_times, times.dtype)
        keyed._allocate(keys)
        keyed._write(keys, times)
        return keyed

    @classmethod
    def of_parts(
        cls,
        parts: Callable[[], Iterable[tuple[Tensor, Tensor]]],
        decay_times: Sequence[float],
        time_dtype: torch.dtype,
        zeros: Zeros,
    ) -> KeyedEvents:
        """Index keys and times as ``of`` does, a part at a time; ``parts`` is called twice.

        ``zeros`` creates the arrays, by name, shape and type.
        """
        if backend(torch.device("cpu")) != "numba":
            keys, times = (torch.cat(columns) for columns in zip(*parts(), strict=True))
            return cls.of(keys, times, decay_times)
        from contig.kernels.cpu import keyed_events as loops

        keyed = cls.empty(decay_times, time_dtype)
        keyed.zeros = zeros
        for keys, _ in parts():
            loops.count(keyed, keys)
        loops.assign(keyed)
        for keys, times in parts():
            loops.write(keyed, keys, times)
        keyed.zeros = None
        return keyed

    @property
    def device(self) -> torch.device:
        return self.table.device

    @property
    def columns(self) -> int:
        """The width of ``features``: count, recency, decayed counts."""
        return 2 + len(self.decay_times)

    def to(self, device: torch.device) -> KeyedEvents:
        """Return a copy on a device; on the same device, the structure itself."""
        if device == self.device:
            return self
        arrays = {name: array.to(device) for name, array in self.arrays().items()}
        return KeyedEvents(**arrays, num_keys=self.num_keys, used=self.used)

    def pinned_copy(self, device: torch.device) -> KeyedEvents:
        """Return a copy in pinned host memory that the GPU ``device`` reads."""
        arrays = {name: pinned_copy(array, device) for name, array in self.arrays().items()}
        return KeyedEvents(**arrays, num_keys=self.num_keys, used=self.used)

    def arrays(self) -> dict[str, Tensor]:
        """Return all arrays by name."""
        names = ("table", "entry_time", "entry_decayed", "decay_times")
        return {name: getattr(self, name) for name in names}

    def nbytes(self) -> int:
        """Return the size of all arrays."""
        return sum(array.numel() * array.element_size() for array in self.arrays().values())

    # -- queries ---------------------------------------------------------------------------------

    def find(self, keys: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        """Return how often each key occurred strictly before its time, and the last such time (or 0)."""
        times = self._comparable(times)
        if backend(self.device) == "triton":
            from contig.kernels.gpu import keyed_events as kernels

            counted: tuple[Tensor, Tensor] = kernels.find(keys, times, self.table, self.entry_time)
            return counted
        count, latest = self._count_before(keys, times)
        return count, torch.where(count > 0, _at(self.entry_time, latest), 0)

    def features(self, keys: Tensor, times: Tensor, unit: float) -> Tensor:
        """Describe what is known about keys ``[n]`` strictly before times ``[n]``: float32 ``[n, columns]``.

        The columns are ``log(1 + count)``, recency (``3 - log(1 + age / unit) / 10``) and
        ``log(1 + decayed count)`` for each decay time; all are 0 for a key that has not occurred.
        """
        times = self._comparable(times)
        compiled = backend(self.device)
        if compiled == "numba":
            from contig.kernels.cpu import keyed_events as loops

            return loops.features(self, keys, times, unit)
        if compiled == "triton":
            from contig.kernels.gpu import keyed_events as kernels

            found: Tensor = kernels.features(keys, times, *self.arrays().values(), unit)
            return found
        return self._features(keys, times, unit)

    def _comparable(self, times: Tensor) -> Tensor:
        """Return times in a type that entries compare with; times between whole ones stay as they are."""
        return times.to(self.entry_time.dtype) if self.entry_time.is_floating_point() else times

    def _features(self, keys: Tensor, times: Tensor, unit: float) -> Tensor:
        count, latest = self._count_before(keys, times)
        seen = count > 0
        age = (times - _at(self.entry_time, latest)).double()
        recency = RECENCY_AT_ZERO + RECENCY_SLOPE * torch.log1p(age / unit)
        weight = torch.exp(-age.unsqueeze(1) / self.decay_times)
        decayed = _at(self.entry_decayed, latest) * weight
        columns = [torch.log1p(count.double()).unsqueeze(1), recency.unsqueeze(1), torch.log1p(decayed)]
        return torch.where(seen.unsqueeze(1), torch.cat(columns, dim=1), 0.0).float()

    def _count_before(self, keys: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        """Return how often each key occurred strictly before its time, and the last such entry (or 0)."""
        start, left = self._segments(keys)
        low = torch.zeros_like(left)
        for _ in range(int(left.max()).bit_length() if len(left) else 0):
            half = (left + 1) >> 1
            probe = torch.where(half > 0, start + low + half - 1, 0)
            low = low + half * (_at(self.entry_time, probe) < times)
            left = left - half
        return low, torch.where(low > 0, start + low - 1, 0)

    def _segments(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return start and length of each key's segment; the length is 0 for a key that never occurred."""
        slot, found = self._slots(keys)
        packed = torch.where(found, self.table[slot, 1], 0)
        return packed >> LENGTH_BITS, packed & LENGTH_MASK

    def _slots(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slot of each key and True, or a free slot for it and False."""
        slot = self._first_slot(keys)
        found = torch.zeros_like(keys, dtype=torch.bool)
        open_ = torch.arange(len(keys), device=keys.device)[keys >= 0]
        while len(open_):
            held = self.table[slot[open_], 0]
            found[open_] = held == keys[open_]
            open_ = open_[(held != keys[open_]) & (held != EMPTY)]
            slot[open_] = (slot[open_] + 1) & (len(self.table) - 1)
        return slot, found

    def _first_slot(self, keys: Tensor) -> Tensor:
        slots = len(self.table)
        bits = slots.bit_length() - 1
        return ((keys * FACTOR) >> (64 - bits)) & (slots - 1)

    # -- updates ---------------------------------------------------------------------------------

    def append(self, keys: Tensor, times: Tensor) -> None:
        """Add occurrences in time order; negative keys are skipped."""
        if backend(self.device) == "numba":
            from contig.kernels.cpu import keyed_events as loops

            loops.append(self, keys, times)
            return
        order, distinct, added = _grouped(keys)
        if len(distinct):
            self._insert(distinct)
            self._make_room(distinct, added)
            self._write_groups(distinct, added, times[order])

    def _allocate(self, keys: Tensor) -> None:
        """Give every key a segment that fits its occurrences; the structure must be empty."""
        if backend(self.device) == "numba":
            from contig.kernels.cpu import keyed_events as loops

            loops.allocate(self, keys)
            return
        distinct, counts = torch.unique(keys[keys >= 0], return_counts=True)
        self._insert(distinct)
        room = _power_of_two(counts)
        start = torch.cumsum(room, 0) - room
        slot, _ = self._slots(distinct)
        self.table[slot, 1] = start << LENGTH_BITS
        self._reserve(int(room.sum()))
        self.used = int(room.sum())

    def _write(self, keys: Tensor, times: Tensor) -> None:
        """Write occurrences to segments that have room for all of them."""
        if backend(self.device) == "numba":
            from contig.kernels.cpu import keyed_events as loops

            loops.write(self, keys, times)
            return
        order, distinct, added = _grouped(keys)
        self._write_groups(distinct, added, times[order])

    def _write_groups(self, keys: Tensor, added: Tensor, times: Tensor) -> None:
        """Append ``added`` times to each key's segment, given one group after the other."""
        if not len(keys):
            return
        slot, _ = self._slots(keys)
        packed = self.table[slot, 1]
        end = (packed >> LENGTH_BITS) + (packed & LENGTH_MASK)  # where each group's entries go
        known = (packed & LENGTH_MASK) > 0
        self.entry_time[concatenated_ranges(end, added)] = times
        for n in range(int(added.max())):
            here = torch.nonzero(added > n).squeeze(1)
            at = end[here] + n
            before = torch.where(known[here] | (n > 0), at - 1, at)
            gap = (self.entry_time[at] - self.entry_time[before]).double()
            carried = self.entry_decayed[before].double() * torch.exp(-gap.unsqueeze(1) / self.decay_times)
            carried[before == at] = 0.0
            self.entry_decayed[at] = (1 + carried).float()
        self.table[slot, 1] = packed + added

    def _insert(self, keys: Tensor) -> None:
        """Make sure that every one of these distinct keys has a slot."""
        new = keys[~self._slots(keys)[1]]
        self._reserve_slots(self.num_keys + len(new))
        self._place_keys(new, torch.zeros_like(new))
        self.num_keys += len(new)

    def _place_keys(self, keys: Tensor, packed: Tensor) -> None:
        """Write distinct new keys into free slots; where several want the same one, the first gets it."""
        while len(keys):
            slot, _ = self._slots(keys)
            # reversed, because of several writes to one place the last counts
            self.table[slot.flip(0), 0] = keys.flip(0)
            won = self.table[slot, 0] == keys
            self.table[slot[won], 1] = packed[won]
            keys, packed = keys[~won], packed[~won]

    def _reserve_slots(self, keys: int) -> None:
        """Enlarge the table so that it is at most two thirds full with this many keys."""
        slots = len(self.table)
        while keys > FULL * slots:
            slots *= 2
        if slots == len(self.table):
            return
        old, self.table = self.table, self._new("table", self.table, (slots, 2))
        self.table[:, 0] = EMPTY
        if backend(self.device) == "numba":
            from contig.kernels.cpu import keyed_events as loops

            loops.move(old, self.table)
            return
        held = old[old[:, 0] != EMPTY]
        self._place_keys(held[:, 0], held[:, 1])

    def _make_room(self, keys: Tensor, added: Tensor) -> None:
        """Move every segment that would overflow to the end of the pool."""
        slot, _ = self._slots(keys)
        packed = self.table[slot, 1]
        start, length = packed >> LENGTH_BITS, packed & LENGTH_MASK
        room = torch.where(length > 0, _power_of_two(length), 0)
        full = length + added > room
        start, length, slot = start[full], length[full], slot[full]
        room = _power_of_two(length + added[full])
        target = self.used + torch.cumsum(room, 0) - room
        self._reserve(self.used + int(room.sum()))
        source, into = concatenated_ranges(start, length), concatenated_ranges(target, length)
        self.entry_time[into] = self.entry_time[source]
        self.entry_decayed[into] = self.entry_decayed[source]
        self.table[slot, 1] = (target << LENGTH_BITS) | length
        self.used += int(room.sum())

    def _reserve(self, entries: int) -> None:
        """Make the pool at least this long; a growing one doubles."""
        held = len(self.entry_time)
        if entries <= held:
            return
        for name in ("entry_time", "entry_decayed"):
            old = getattr(self, name)
            new = self._new(name, old, (max(entries, 2 * held), *old.shape[1:]))
            new[:held] = old
            setattr(self, name, new)

    def _new(self, name: str, old: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Create an array of zeros in place of another one."""
        return old.new_zeros(shape) if self.zeros is None else self.zeros(name, shape, old.dtype)

    def as_numpy(self) -> tuple[Array, ...]:
        """Return all arrays as numpy views."""
        return tuple(array.numpy() for array in self.arrays().values())


def _grouped(keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return an order that groups equal keys, without the negative ones, and each group's key and size."""
    order = torch.argsort(keys, stable=True)
    order = order[keys[order] >= 0]
    distinct, sizes = torch.unique_consecutive(keys[order], return_counts=True)
    return order, distinct, sizes


def _power_of_two(numbers: Tensor) -> Tensor:
    """Return the smallest power of two that is not below each number, of at least 1."""
    result = torch.ones_like(numbers)
    for _ in range(int(numbers.max()).bit_length() if len(numbers) else 0):
        result = torch.where(result < numbers, result * 2, result)
    return result


def _at(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]``; zeros if there are no values at all."""
    if not len(values):
        return values.new_zeros((*index.shape, *values.shape[1:]))
    return values[index]
