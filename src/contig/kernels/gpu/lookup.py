"""The lookup of a history as one GPU kernel, in Triton.

``contig::lookup`` is what ``History._before`` computes in torch operations, whose bisection alone is a
dozen small kernels for every doubling of the longest segment. It is registered as an operator, so that
compiled and captured steps can hold it.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_kernel: Any = triton.jit
QUERIES = 16  # of a program


@_kernel  # type: ignore[untyped-decorator]
def _lookup(  # type: ignore[no-untyped-def]
    nodes,
    times,
    start,
    length,
    entry_event,
    entry_node,
    entry_time,
    out_node,
    out_event,
    out_time,
    out_mask,
    queries,
    known,
    k,
    rounds: tl.constexpr,
    block: tl.constexpr,
    room: tl.constexpr,
):
    """``block`` queries and the ``room >= k`` places of their answers."""
    query = tl.program_id(0) * block + tl.arange(0, block)
    inside = query < queries
    node = tl.load(nodes + query, mask=inside, other=-1)
    asked = tl.load(times + query, mask=inside, other=0)
    met = (node >= 0) & (node < known)
    first = tl.load(start + node, mask=met, other=0)
    left = tl.load(length + node, mask=met, other=0)
    low = tl.zeros_like(left)
    for _ in range(rounds):
        half = (left + 1) >> 1
        time = tl.load(entry_time + first + low + half - 1, mask=half > 0, other=0)
        low += tl.where((half > 0) & (time < asked), half, 0)
        left -= half
    back = tl.arange(0, room)[None, :] + 1
    there = (back <= k) & (back <= low[:, None])
    at = (first + low)[:, None] - back
    out = query[:, None] * k + back - 1
    written = inside[:, None] & (back <= k)
    found_node = tl.load(entry_node + at, mask=there, other=0).to(tl.int64)
    found_event = tl.load(entry_event + at, mask=there, other=0).to(tl.int64)
    found_time = tl.load(entry_time + at, mask=there, other=0)
    tl.store(out_node + out, tl.where(there, found_node, node[:, None]), mask=written)
    tl.store(out_event + out, found_event, mask=written)
    tl.store(out_time + out, tl.where(there, found_time, asked[:, None]), mask=written)
    tl.store(out_mask + out, there, mask=written)


@torch.library.custom_op("contig::lookup", mutates_args=())
def lookup(
    nodes: Tensor,
    times: Tensor,
    start: Tensor,
    length: Tensor,
    entry_event: Tensor,
    entry_node: Tensor,
    entry_time: Tensor,
    k: int,
    rounds: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Node, event, time and mask, each ``[queries, k]``, of the last ``k`` entries before each time.

    ``rounds`` are the steps of bisection that the longest segment takes.
    """
    out = _answers(nodes, times, k)
    given = [t.contiguous() for t in (nodes, times, start, length, entry_event, entry_node, entry_time)]
    if len(nodes):
        _lookup[(triton.cdiv(len(nodes), QUERIES),)](
            *given,
            *out,
            len(nodes),
            len(start),
            k,
            rounds=rounds,
            block=QUERIES,
            room=triton.next_power_of_2(k),
        )
    return out


@lookup.register_fake
def _(nodes: Tensor, times: Tensor, *given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _answers(nodes, times, given[-2])


def _answers(nodes: Tensor, times: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = len(nodes), k
    mask = nodes.new_empty(shape, dtype=torch.bool)
    return nodes.new_empty(shape), nodes.new_empty(shape), times.new_empty(shape), mask
