"""Looking up keyed events in one kernel: hash, probe, bisect, describe."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from contig.kernels.keyed_events import LAYOUT

assert LAYOUT == (-1, 28, 0x9E3779B97F4A7C15, 2 / 3, 3.0, -0.1)  # the literals of the kernel
_kernel: Any = triton.jit
QUERIES = 128  # per program


@_kernel  # type: ignore[untyped-decorator]
def _locate(key, limit, table, entry_time, slots, shift: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return where the segment of each key begins, and where its entries before each time end.

    The constants are those of ``contig.kernels.keyed_events``.
    """
    slot = ((key.to(tl.uint64) * 0x9E3779B97F4A7C15) >> shift).to(tl.int64)
    packed = tl.zeros_like(key)
    searching = key >= 0
    while tl.max(searching.to(tl.int32), axis=0) > 0:
        held = tl.load(table + slot * 2, mask=searching, other=-1)
        hit = searching & (held == key)
        packed += tl.load(table + slot * 2 + 1, mask=hit, other=0)
        searching = searching & (held != key) & (held != -1)
        slot = (slot + 1) & (slots - 1)
    begin = packed >> 28
    left = packed & ((1 << 28) - 1)
    at = begin
    while tl.max(left, axis=0) > 0:
        half = (left + 1) >> 1
        time = tl.load(entry_time + at + half - 1, mask=half > 0, other=0).to(limit.dtype)
        at += tl.where((half > 0) & (time < limit), half, 0)
        left -= half
    return begin, at


@_kernel  # type: ignore[untyped-decorator]
def _find(  # type: ignore[no-untyped-def]
    keys, times, table, entry_time, counts, latest, queries, slots, shift: tl.constexpr, block: tl.constexpr
):
    """Count ``block`` keys, and load their latest times."""
    query = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = query < queries
    key = tl.load(keys + query, mask=inside, other=-1)
    limit = tl.load(times + query, mask=inside, other=0)
    begin, at = _locate(key, limit, table, entry_time, slots, shift)
    tl.store(counts + query, at - begin, mask=inside)
    tl.store(latest + query, tl.load(entry_time + at - 1, mask=at > begin, other=0), mask=inside)


@_kernel  # type: ignore[untyped-decorator]
def _features(  # type: ignore[no-untyped-def]
    keys,
    times,
    table,
    entry_time,
    entry_decayed,
    decay_times,
    out,
    queries,
    unit,
    slots,
    shift: tl.constexpr,
    scales: tl.constexpr,
    block: tl.constexpr,
):
    """Describe ``block`` keys."""
    query = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = query < queries
    key = tl.load(keys + query, mask=inside, other=-1)
    limit = tl.load(times + query, mask=inside, other=0)
    begin, at = _locate(key, limit, table, entry_time, slots, shift)
    seen = at > begin
    last = tl.load(entry_time + at - 1, mask=seen, other=0).to(limit.dtype)
    age = (limit - last).to(tl.float64)
    row = out + query * (2 + scales)
    count = tl.where(seen, tl.log(1.0 + (at - begin).to(tl.float32)), 0.0)
    recency = tl.where(seen, 3.0 - 0.1 * tl.log(1.0 + (age / unit).to(tl.float32)), 0.0)
    tl.store(row, count, mask=inside)
    tl.store(row + 1, recency, mask=inside)
    for s in tl.static_range(scales):
        decayed = tl.load(entry_decayed + (at - 1) * scales + s, mask=seen, other=0.0)
        weight = tl.exp(-(age / tl.load(decay_times + s)).to(tl.float32))
        tl.store(row + 2 + s, tl.where(seen, tl.log(1.0 + decayed * weight), 0.0), mask=inside)


@torch.library.custom_op("contig::keyed_find", mutates_args=())
def find(keys: Tensor, times: Tensor, table: Tensor, entry_time: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``KeyedEvents.find``."""
    counts = torch.empty_like(keys, memory_format=torch.contiguous_format)
    latest = entry_time.new_empty(keys.shape)
    if len(keys):
        _find[(triton.cdiv(len(keys), QUERIES),)](
            keys.contiguous(),
            times.contiguous(),
            table,
            entry_time,
            counts,
            latest,
            len(keys),
            len(table),
            shift=_shift(table),
            block=QUERIES,
        )
    return counts, latest


@find.register_fake
def _(keys: Tensor, times: Tensor, table: Tensor, entry_time: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(keys), entry_time.new_empty(keys.shape)


@torch.library.custom_op("contig::keyed_features", mutates_args=())
def features(
    keys: Tensor,
    times: Tensor,
    table: Tensor,
    entry_time: Tensor,
    entry_decayed: Tensor,
    decay_times: Tensor,
    unit: float,
) -> Tensor:
    """Compute ``KeyedEvents.features``."""
    scales = len(decay_times)
    out = torch.empty((len(keys), 2 + scales), dtype=torch.float32, device=keys.device)
    if len(keys):
        _features[(triton.cdiv(len(keys), QUERIES),)](
            keys.contiguous(),
            times.contiguous(),
            table,
            entry_time,
            entry_decayed,
            decay_times,
            out,
            len(keys),
            unit,
            len(table),
            shift=_shift(table),
            scales=scales,
            block=QUERIES,
        )
    return out


@features.register_fake
def _(keys: Tensor, times: Tensor, *rest: Any) -> Tensor:
    return torch.empty((len(keys), 2 + len(rest[3])), dtype=torch.float32, device=keys.device)


def _shift(table: Tensor) -> int:
    """Return by how much a hash is shifted to number a slot."""
    return 64 - (len(table).bit_length() - 1)
