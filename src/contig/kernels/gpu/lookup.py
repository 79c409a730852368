"""Finding the last entries of nodes before times, in one kernel.

In torch operations the bisection alone takes a dozen small kernels for every doubling of the longest
segment.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_kernel: Any = triton.jit
QUERIES = 16  # per program


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
    num_nodes,
    k,
    rounds: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
):
    """Answer ``block`` queries, with ``width >= k`` places each."""
    query = tl.program_id(0) * block + tl.arange(0, block)
    inside = query < queries
    node = tl.load(nodes + query, mask=inside, other=-1)
    limit = tl.load(times + query, mask=inside, other=0)
    known = (node >= 0) & (node < num_nodes)
    first = tl.load(start + node, mask=known, other=0)
    left = tl.load(length + node, mask=known, other=0)
    low = tl.zeros_like(left)
    for _ in range(rounds):
        half = (left + 1) >> 1
        time = tl.load(entry_time + first + low + half - 1, mask=half > 0, other=0)
        low += tl.where((half > 0) & (time < limit), half, 0)
        left -= half
    back = tl.arange(0, width)[None, :] + 1
    found = (back <= k) & (back <= low[:, None])
    at = (first + low)[:, None] - back
    out = query[:, None] * k + back - 1
    written = inside[:, None] & (back <= k)
    found_node = tl.load(entry_node + at, mask=found, other=0).to(tl.int64)
    found_event = tl.load(entry_event + at, mask=found, other=0).to(tl.int64)
    found_time = tl.load(entry_time + at, mask=found, other=0)
    tl.store(out_node + out, tl.where(found, found_node, node[:, None]), mask=written)
    tl.store(out_event + out, found_event, mask=written)
    tl.store(out_time + out, tl.where(found, found_time, limit[:, None]), mask=written)
    tl.store(out_mask + out, found, mask=written)


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
    """Return node, event, time and mask ``[queries, k]`` of the last ``k`` entries before each time.

    ``rounds`` is the number of bisection steps that the longest segment takes.
    """
    out = _empty_outputs(nodes, times, k)
    inputs = [t.contiguous() for t in (nodes, times, start, length, entry_event, entry_node, entry_time)]
    if len(nodes):
        _lookup[(triton.cdiv(len(nodes), QUERIES),)](
            *inputs,
            *out,
            len(nodes),
            len(start),
            k,
            rounds=rounds,
            block=QUERIES,
            width=triton.next_power_of_2(k),
        )
    return out


@lookup.register_fake
def _(nodes: Tensor, times: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _empty_outputs(nodes, times, rest[-2])


def _empty_outputs(nodes: Tensor, times: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = len(nodes), k
    mask = nodes.new_empty(shape, dtype=torch.bool)
    return nodes.new_empty(shape), nodes.new_empty(shape), times.new_empty(shape), mask
