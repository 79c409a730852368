"""The flow of pairs and its gradient, one thread per pair and dimension with everything in registers.

The letters are those of ``contig.kernels.pair_flow``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_kernel: Any = triton.jit
THREADS = 256  # elements per program


@_kernel
def _system(x, gates, own, partner, linked, pair, column, inside, width, half, horizon):  # type: ignore[no-untyped-def]
    """Load the states and gates of a pair and dimension, and compute their system."""
    a = tl.load(own + pair, mask=inside, other=0)
    b = tl.load(partner + pair, mask=inside, other=0)
    part = half * tl.load(linked + pair, mask=inside, other=0).to(tl.float32)
    xa = tl.load(x + a * width + column, mask=inside, other=0.0)
    xb = tl.load(x + b * width + column, mask=inside, other=0.0)
    la = tl.load(gates + a * 3 * width + column, mask=inside, other=0.0)
    lb = tl.load(gates + b * 3 * width + column, mask=inside, other=0.0)
    na = tl.load(gates + (a * 3 + 1) * width + column, mask=inside, other=0.0)
    nb = tl.load(gates + (b * 3 + 1) * width + column, mask=inside, other=0.0)
    ia = tl.load(gates + (a * 3 + 2) * width + column, mask=inside, other=0.0)
    ib = tl.load(gates + (b * 3 + 2) * width + column, mask=inside, other=0.0)
    pa, pb = half * na - ia, half * nb - ib
    q, r = part * na, part * nb
    ga = (pa + la) * xa + q * xb
    gb = (pb + lb) * xb + r * xa
    mu, e = 0.5 * horizon * (pa + pb), 0.5 * horizon * (pa - pb)
    d = e * e + horizon * q * horizon * r
    return a, b, part, xa, xb, la, lb, pa, pb, q, r, ga, gb, mu, e, d


@_kernel  # type: ignore[untyped-decorator]
def _flow(  # type: ignore[no-untyped-def]
    x,
    gates,
    own,
    partner,
    linked,
    out,
    total,
    width,
    half,
    horizon,
    degree: tl.constexpr,
    block: tl.constexpr,
):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < total
    pair, column = at // width, at % width
    a, b, part, xa, xb, la, lb, pa, pb, q, r, ga, gb, mu, e, d = _system(
        x, gates, own, partner, linked, pair, column, inside, width, half, horizon
    )
    u, v, c0, c1 = mu * 0 + 1, mu * 0, mu * 0, mu * 0
    k = 1.0
    for m in tl.static_range(degree):
        k = k / (m + 1)
        c0 += k * u
        c1 += k * v
        u, v = mu * u + d * v, u + mu * v
    change = c0 * ga + c1 * (e * ga + horizon * q * gb)
    tl.store(out + at, xa + horizon * change, mask=inside)


@_kernel  # type: ignore[untyped-decorator]
def _flow_backward(  # type: ignore[no-untyped-def]
    x,
    gates,
    own,
    partner,
    linked,
    grad,
    grad_x,
    grad_gates,
    total,
    width,
    half,
    horizon,
    degree: tl.constexpr,
    block: tl.constexpr,
):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < total
    pair, column = at // width, at % width
    a, b, part, xa, xb, la, lb, pa, pb, q, r, ga, gb, mu, e, d = _system(
        x, gates, own, partner, linked, pair, column, inside, width, half, horizon
    )
    u, v, w, before = mu * 0 + 1, mu * 0, mu * 0, mu * 0
    c0, c1, c0_mu, c1_mu, c1_d = mu * 0, mu * 0, mu * 0, mu * 0, mu * 0
    k = 1.0
    for m in tl.static_range(degree):
        k = k / (m + 1)
        c0 += k * u
        c1 += k * v
        c1_d += k * w
        if m + 1 < degree:
            c0_mu += k * (m + 1) / (m + 2) * u
            c1_mu += k * (m + 1) / (m + 2) * v
        w = 0.5 * m * before + mu * w
        before = v
        u, v = mu * u + d * v, u + mu * v
    up = tl.load(grad + at, mask=inside, other=0.0)
    g = horizon * up
    qt, rt = horizon * q, horizon * r
    d_c0, d_c1 = g * ga, g * (e * ga + qt * gb)
    d_ga, d_gb = g * (c0 + c1 * e), g * c1 * qt
    d_mu = d_c0 * c0_mu + d_c1 * c1_mu
    d_d = 0.5 * d_c0 * c1_mu + d_c1 * c1_d
    d_e = g * c1 * ga + 2 * e * d_d
    d_q = horizon * (g * c1 * gb + rt * d_d) + d_ga * xb
    d_r = horizon * qt * d_d + d_gb * xa
    d_pa = 0.5 * horizon * (d_mu + d_e) + d_ga * xa
    d_pb = 0.5 * horizon * (d_mu - d_e) + d_gb * xb
    tl.atomic_add(grad_x + a * width + column, up + d_ga * (pa + la) + d_gb * r, mask=inside)
    tl.atomic_add(grad_x + b * width + column, d_ga * q + d_gb * (pb + lb), mask=inside)
    tl.atomic_add(grad_gates + a * 3 * width + column, d_ga * xa, mask=inside)
    tl.atomic_add(grad_gates + b * 3 * width + column, d_gb * xb, mask=inside)
    tl.atomic_add(grad_gates + (a * 3 + 1) * width + column, half * d_pa + part * d_q, mask=inside)
    tl.atomic_add(grad_gates + (b * 3 + 1) * width + column, half * d_pb + part * d_r, mask=inside)
    tl.atomic_add(grad_gates + (a * 3 + 2) * width + column, -d_pa, mask=inside)
    tl.atomic_add(grad_gates + (b * 3 + 2) * width + column, -d_pb, mask=inside)


@torch.library.custom_op("contig::pair_flow", mutates_args=())
def pair_flow(
    x: Tensor,
    gates: Tensor,
    own: Tensor,
    partner: Tensor,
    linked: Tensor,
    half: float,
    horizon: float,
    degree: int,
) -> Tensor:
    """Compute ``contig.kernels.pair_flow.pair_flow`` in float32."""
    out = x.new_empty(len(own), x.shape[1])
    inputs = [t.contiguous() for t in (x, gates, own, partner, linked)]
    if out.numel():
        _flow[(triton.cdiv(out.numel(), THREADS),)](
            *inputs, out, out.numel(), x.shape[1], half, horizon, degree=degree, block=THREADS
        )
    return out


@pair_flow.register_fake
def _(x: Tensor, gates: Tensor, own: Tensor, *_: Any) -> Tensor:
    return x.new_empty(len(own), x.shape[1])


@torch.library.custom_op("contig::pair_flow_back", mutates_args=())
def pair_flow_back(
    x: Tensor,
    gates: Tensor,
    own: Tensor,
    partner: Tensor,
    linked: Tensor,
    grad: Tensor,
    half: float,
    horizon: float,
    degree: int,
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of ``pair_flow`` with respect to ``x`` and ``gates``."""
    inputs = [t.contiguous() for t in (x, gates, own, partner, linked, grad)]
    grad_x, grad_gates = torch.zeros_like(inputs[0]), torch.zeros_like(inputs[1])
    if grad.numel():
        _flow_backward[(triton.cdiv(grad.numel(), THREADS),)](
            *inputs,
            grad_x,
            grad_gates,
            grad.numel(),
            x.shape[1],
            half,
            horizon,
            degree=degree,
            block=THREADS,
        )
    return grad_x, grad_gates


@pair_flow_back.register_fake
def _(x: Tensor, gates: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), gates.new_empty(gates.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.settings = inputs[5:]


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    grad_x, grad_gates = pair_flow_back(*ctx.saved_tensors, grad, *ctx.settings)
    return grad_x, grad_gates, None, None, None, None, None, None


pair_flow.register_autograd(_backward, setup_context=_setup_context)
