"""Keyed events as loops over keys."""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit
from torch import Tensor

from contig.data.columns import Array
from contig.kernels.cpu.launch import run_loop
from contig.kernels.keyed_events import LAYOUT, KeyedEvents

MIN_QUERIES = 4096  # per thread
BLOCK = 256  # keys whose slots are read together
EMPTY, LENGTH_BITS, FULL = -1, 28, 2 / 3
LENGTH_MASK = (1 << LENGTH_BITS) - 1
RECENCY_AT_ZERO, RECENCY_SLOPE = 3.0, -0.1
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
assert (EMPTY, LENGTH_BITS, int(_FACTOR), FULL, RECENCY_AT_ZERO, RECENCY_SLOPE) == LAYOUT
_compile = njit(cache=True, nogil=True)


def features(keyed: KeyedEvents, keys: Tensor, times: Tensor, unit: float) -> Tensor:
    """Compute ``KeyedEvents.features``."""
    out = np.zeros((len(keys), keyed.columns), np.float32)
    inputs = (*keyed.as_numpy(), keys, times, float(unit))
    run_loop(_features, inputs, [out], items=len(keys), min_items=MIN_QUERIES)
    return torch.from_numpy(out)


def append(keyed: KeyedEvents, keys: Tensor, times: Tensor) -> None:
    """Compute ``KeyedEvents.append``."""
    rows = keys.contiguous().numpy(), times.contiguous().numpy()
    done = 0
    while done < len(keys):
        done, keyed.num_keys, keyed.used, needed = _append(
            *keyed.as_numpy(), *rows, done, keyed.num_keys, keyed.used
        )
        if done < len(keys):
            keyed._reserve(needed)
            keyed._reserve_slots(keyed.num_keys + 1)


def allocate(keyed: KeyedEvents, keys: Tensor) -> None:
    """Compute ``KeyedEvents._allocate``."""
    count(keyed, keys)
    assign(keyed)


def count(keyed: KeyedEvents, keys: Tensor) -> None:
    """Count keys in the table, in place of the lengths of their segments."""
    rows, done = keys.contiguous().numpy(), 0
    while done < len(rows):
        done, keyed.num_keys = _count(keyed.table.numpy(), rows, done, keyed.num_keys)
        keyed._reserve_slots(keyed.num_keys + int(done < len(rows)))


def assign(keyed: KeyedEvents) -> None:
    """Give every key that was counted a segment."""
    keyed.used = int(_assign(keyed.table.numpy()))
    keyed._reserve(keyed.used)


def move(old: Tensor, new: Tensor) -> None:
    """Write the keys of a table into a larger one that is empty."""
    _move(old.numpy(), new.numpy())


def write(keyed: KeyedEvents, keys: Tensor, times: Tensor) -> None:
    """Write occurrences to segments that have room for all of them."""
    _write(*keyed.as_numpy(), keys.contiguous().numpy(), times.contiguous().numpy())


def count_decayed(keyed: KeyedEvents, start: int, first: int, length: int) -> None:
    """Compute the decayed counts of a segment again, from its entry ``first`` on."""
    _count_decayed(*keyed.as_numpy()[1:], start, first, length)


@_compile  # type: ignore[untyped-decorator]
def _count_decayed(
    entry_time: Array, entry_decayed: Array, decay_times: Array, start: int, first: int, length: int
) -> None:
    for n in range(first, length):
        _put(entry_time, entry_decayed, decay_times, start, n, entry_time[start + n])


@_compile  # type: ignore[untyped-decorator]
def _shift(table: Array) -> int:
    """Return by how much a hash is shifted to be a slot."""
    bits = 0
    while (1 << bits) < len(table):
        bits += 1
    return 64 - bits


@_compile  # type: ignore[untyped-decorator]
def _first_slot(key: int, shift: int) -> int:
    """Return where the search for a key begins."""
    return np.int64((np.uint64(key) * _FACTOR) >> np.uint64(shift))  # type: ignore[return-value]


@_compile  # type: ignore[untyped-decorator]
def _slot(table: Array, key: int) -> int:
    """Return the slot of a key, or the free slot where it belongs."""
    last = len(table) - 1
    slot = _first_slot(key, _shift(table))
    while table[slot, 0] != key and table[slot, 0] != EMPTY:
        slot = (slot + 1) & last
    return int(slot)


@_compile  # type: ignore[untyped-decorator]
def _free_slot(table: Array, key: int, num_keys: int) -> tuple[int, bool]:
    """Return the slot of a key, and whether it is new; the slot is -1 where the table is full."""
    slot = _slot(table, key)
    is_new = table[slot, 0] == EMPTY
    if is_new and num_keys + 1 > FULL * len(table):
        return -1, is_new
    return slot, is_new


@_compile  # type: ignore[untyped-decorator]
def _put(
    entry_time: Array, entry_decayed: Array, decay_times: Array, start: int, length: int, time: float
) -> None:
    """Write one entry behind ``length`` others."""
    at = start + length
    entry_time[at] = time
    for s in range(len(decay_times)):
        decayed = 1.0
        if length > 0:
            gap = np.float64(time - entry_time[at - 1])
            decayed += entry_decayed[at - 1, s] * math.exp(-gap / decay_times[s])
        entry_decayed[at, s] = decayed


@_compile  # type: ignore[untyped-decorator]
def _count(table: Array, keys: Array, first: int, num_keys: int) -> tuple[int, int]:
    """Count keys from row ``first`` on, in place of their lengths, until the table is full."""
    for i in range(first, len(keys)):
        if keys[i] >= 0:
            slot, is_new = _free_slot(table, keys[i], num_keys)
            if slot < 0:
                return i, num_keys
            if is_new:
                table[slot, 0] = keys[i]
                num_keys += 1
            table[slot, 1] += 1
    return len(keys), num_keys


@_compile  # type: ignore[untyped-decorator]
def _move(old: Array, new: Array) -> None:
    for i in range(len(old)):
        if old[i, 0] != EMPTY:
            slot = _slot(new, old[i, 0])
            new[slot, 0] = old[i, 0]
            new[slot, 1] = old[i, 1]


@_compile  # type: ignore[untyped-decorator]
def _assign(table: Array) -> int:
    """Turn counts into the starts of empty segments; return how long the pool must be."""
    used = 0
    for slot in range(len(table)):
        if table[slot, 0] != EMPTY:
            room = 1
            while room < table[slot, 1]:
                room *= 2
            table[slot, 1] = used << LENGTH_BITS
            used += room
    return used


@_compile  # type: ignore[untyped-decorator]
def _write(
    table: Array, entry_time: Array, entry_decayed: Array, decay_times: Array, keys: Array, times: Array
) -> None:
    for i in range(len(keys)):
        if keys[i] >= 0:
            slot = _slot(table, keys[i])
            packed = table[slot, 1]
            start, length = packed >> LENGTH_BITS, packed & LENGTH_MASK
            _put(entry_time, entry_decayed, decay_times, start, length, times[i])
            table[slot, 1] = packed + 1


@_compile  # type: ignore[untyped-decorator]
def _append(
    table: Array,
    entry_time: Array,
    entry_decayed: Array,
    decay_times: Array,
    keys: Array,
    times: Array,
    first: int,
    num_keys: int,
    used: int,
) -> tuple[int, int, int, int]:
    """Append from row ``first`` on, until the table or the pool is too small.

    Returns the row to continue from, the number of keys, how much of the pool is in use, and how long the
    pool must be to continue.
    """
    for i in range(first, len(keys)):
        if keys[i] < 0:
            continue
        slot, is_new = _free_slot(table, keys[i], num_keys)
        if slot < 0:
            return i, num_keys, used, used
        packed = table[slot, 1]
        start, length = packed >> LENGTH_BITS, packed & LENGTH_MASK
        if length & (length - 1) == 0:  # 0 or a power of two: the segment is full
            room = max(1, 2 * length)
            if used + room > len(entry_time):
                return i, num_keys, used, used + room
            for j in range(length):
                entry_time[used + j] = entry_time[start + j]
                entry_decayed[used + j] = entry_decayed[start + j]
            start = used
            used += room
        if is_new:
            table[slot, 0] = keys[i]
            num_keys += 1
        _put(entry_time, entry_decayed, decay_times, start, length, times[i])
        table[slot, 1] = (start << LENGTH_BITS) | (length + 1)
    return len(keys), num_keys, used, used


@_compile  # type: ignore[untyped-decorator]
def _features(
    table: Array,
    entry_time: Array,
    entry_decayed: Array,
    decay_times: Array,
    keys: Array,
    times: Array,
    unit: float,
    out: Array,
    first: int,
    end: int,
) -> None:
    """Fill rows ``first..end`` of ``out``, which is zero.

    The slots of a block of keys are read before any key is compared: none of these reads waits for another,
    and most queries of a large graph end there, because a pair that never met has no key.
    """
    shift, last = _shift(table), len(table) - 1
    slots, found = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for i in range(first, end):
        at = (i - first) % BLOCK
        if at == 0:
            for ahead in range(min(BLOCK, end - i)):
                slots[ahead] = _first_slot(keys[i + ahead], shift)
                found[ahead] = table[slots[ahead], 0]
        key, slot, here = keys[i], slots[at], found[at]
        if key < 0:
            continue
        while here != key and here != EMPTY:
            slot = (slot + 1) & last
            here = table[slot, 0]
        if here == EMPTY:
            continue
        packed = table[slot, 1]
        at = packed >> LENGTH_BITS
        begin, left = at, packed & LENGTH_MASK
        while left > 0:
            half = (left + 1) >> 1
            if entry_time[at + half - 1] < times[i]:
                at += half
            left -= half
        if at > begin:
            age = np.float64(times[i] - entry_time[at - 1])
            out[i, 0] = math.log1p(np.float64(at - begin))
            out[i, 1] = RECENCY_AT_ZERO + RECENCY_SLOPE * math.log1p(age / unit)
            for s in range(len(decay_times)):
                out[i, 2 + s] = math.log1p(entry_decayed[at - 1, s] * math.exp(-age / decay_times[s]))
