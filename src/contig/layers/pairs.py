"""The gated ODE of two coupled nodes, each dimension a system of two, in closed recurrences.

For a node ``a`` with its partner ``b`` the flow is ``H_a(T) = x_a + T [phi(A) g]_a`` with
``phi(A) = sum_m A^m / (m+1)!``, ``A = T [[p, q], [r, s]]`` and ``g`` the slope at the start. A matrix of
two by two satisfies ``(A - mu)^2 = d`` with ``mu = (A_00 + A_11) / 2``, ``d = ((A_00 - A_11) / 2)^2 +
A_01 A_10``, so every power is ``A^m = u_m + v_m (A - mu)`` with

``u_(m+1) = mu u_m + d v_m``,  ``v_(m+1) = u_m + mu v_m``,

and the whole series is two numbers, ``phi(A) = c0 + c1 (A - mu)``. Their derivatives need one recurrence
more (``w_m``, that of ``v_m`` by ``d``), since ``du_m/dmu = m u_(m-1)``, ``dv_m/dmu = m v_(m-1)`` and
``du_m/dd = m v_(m-1) / 2``. It is the same polynomial in ``A`` as summing the series term by term, and
the gradient takes no memory that grows with the degree.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contig.kernels.accelerators import in_parallel, ranges
from contig.kernels.dispatch import backend


class Flow(NamedTuple):
    """What does not change from pair to pair."""

    half: float  # beta / 2
    horizon: float
    degree: int  # of the polynomial in A, counting the constant: terms that are summed


def flow(x: Tensor, gates: Tensor, mine: Tensor, theirs: Tensor, linked: Tensor, how: Flow) -> Tensor:
    """``H(T)`` of rows ``mine`` ``[pairs]``, each coupled with its row of ``theirs`` where ``linked``.

    ``x`` ``[rows, d]`` are the starts and ``gates`` ``[rows, 3 d]`` the gates of the latest, neighbour
    and inherent factor.
    """
    if backend(x.device) == "numba":
        moved: Tensor = _InLoops.apply(x, gates, mine, theirs, linked, how)  # type: ignore[no-untyped-call]
        return moved
    if backend(x.device) == "triton" and x.dtype == torch.float32:
        from contig.kernels.gpu.pair_flow import pair_flow  # here, since only a GPU needs Triton

        run: Tensor = pair_flow(x, gates, mine, theirs, linked, *how)
        return run
    start = [t.index_select(0, at) for t in (x, gates) for at in (mine, theirs)]
    flowed: Tensor = _InTorch.apply(*start, linked, how)  # type: ignore[no-untyped-call]
    return flowed


def _terms(degree: int) -> list[float]:
    """The coefficients of ``phi``."""
    return [1 / math.factorial(m + 1) for m in range(degree)]


def _slopes(degree: int) -> list[float]:
    """The coefficients of its derivative by ``mu``, of which ``u_m`` is ``(m + 1)`` times the next one's."""
    return [(m + 1) / math.factorial(m + 2) if m + 1 < degree else 0.0 for m in range(degree)]


# -- compiled loops -------------------------------------------------------------------------------------


class _InLoops(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gates: Tensor, mine: Tensor, theirs: Tensor, linked: Tensor, how: Flow
    ) -> Tensor:
        from contig.kernels.cpu import loops  # here, since compiling takes numba

        saved = (x, gates, mine, theirs, linked)
        ctx.save_for_backward(*saved)
        ctx.how = how
        out = x.new_empty(len(mine), x.shape[1])
        given, target = _arrays(saved, how), out.numpy()
        in_parallel(
            lambda first, end: loops.flow(*given, target, first, end),
            ranges(len(mine), torch.get_num_threads()),
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from contig.kernels.cpu import loops

        x, gates, *_ = ctx.saved_tensors
        of_x, of_gates = torch.zeros_like(x), torch.zeros_like(gates)
        slopes = x.new_tensor(_slopes(ctx.how.degree))
        given = [*_arrays(ctx.saved_tensors, ctx.how)]
        given += [t.contiguous().numpy() for t in (slopes, grads[0], of_x, of_gates)]
        in_parallel(
            lambda first, end: loops.flow_back(*given, first, end),
            ranges(-(-x.shape[1] // loops.BLOCK), torch.get_num_threads()),
        )
        return of_x, of_gates, None, None, None, None


def _arrays(saved: tuple[Tensor, ...], how: Flow) -> tuple[Any, ...]:
    """The arguments that both loops begin with."""
    arrays = [t.detach().contiguous().numpy() for t in saved]
    numbers = ([how.half, how.horizon, 0.0], _terms(how.degree))  # in the type of the rows
    return *arrays, *(saved[0].new_tensor(n).numpy() for n in numbers)


# -- torch operations -----------------------------------------------------------------------------------


class _System(NamedTuple):
    """The systems of all pairs and dimensions."""

    own_a: Tensor
    own_b: Tensor
    from_b: Tensor  # what b's value adds to a's slope
    from_a: Tensor
    slope_a: Tensor  # g
    slope_b: Tensor
    mu: Tensor
    e: Tensor  # half the difference of A's diagonal
    d: Tensor

    @classmethod
    def of(cls, xa: Tensor, xb: Tensor, za: Tensor, zb: Tensor, linked: Tensor, how: Flow) -> _System:
        (la, na, ia), (lb, nb, ib) = za.chunk(3, dim=1), zb.chunk(3, dim=1)
        part = linked.to(xa.dtype).unsqueeze(1) * how.half
        own_a, own_b = how.half * na - ia, how.half * nb - ib
        from_b, from_a = part * na, part * nb
        slope_a = (own_a + la) * xa + from_b * xb
        slope_b = (own_b + lb) * xb + from_a * xa
        mu, e = how.horizon * (own_a + own_b) / 2, how.horizon * (own_a - own_b) / 2
        d = e * e + how.horizon**2 * from_b * from_a
        return cls(own_a, own_b, from_b, from_a, slope_a, slope_b, mu, e, d)


class _InTorch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, xa: Tensor, xb: Tensor, za: Tensor, zb: Tensor, linked: Tensor, how: Flow
    ) -> Tensor:
        ctx.save_for_backward(xa, xb, za, zb, linked)
        ctx.how = how
        s = _System.of(xa, xb, za, zb, linked, how)
        u, v = torch.ones_like(s.mu), torch.zeros_like(s.mu)
        c0, c1 = v, v
        for k in _terms(how.degree):
            c0, c1 = c0 + k * u, c1 + k * v
            u, v = s.mu * u + s.d * v, u + s.mu * v
        aside = s.e * s.slope_a + how.horizon * s.from_b * s.slope_b
        return xa + how.horizon * (c0 * s.slope_a + c1 * aside)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        xa, xb, za, zb, linked = ctx.saved_tensors
        how: Flow = ctx.how
        s = _System.of(xa, xb, za, zb, linked, how)
        c0, c1, c0_mu, c1_mu, c1_d = _with_derivatives(s.mu, s.d, how.degree)
        la, lb = za.chunk(3, dim=1)[0], zb.chunk(3, dim=1)[0]
        part = linked.to(xa.dtype).unsqueeze(1) * how.half
        q, r = how.horizon * s.from_b, how.horizon * s.from_a
        g = how.horizon * grads[0]
        d_c0, d_c1 = g * s.slope_a, g * (s.e * s.slope_a + q * s.slope_b)
        d_ga, d_gb = g * (c0 + c1 * s.e), g * c1 * q
        d_mu = d_c0 * c0_mu + d_c1 * c1_mu
        d_d = d_c0 * c1_mu / 2 + d_c1 * c1_d
        d_e = g * c1 * s.slope_a + 2 * s.e * d_d
        d_q = how.horizon * (g * c1 * s.slope_b + r * d_d) + d_ga * xb
        d_r = how.horizon * q * d_d + d_gb * xa
        d_own_a = how.horizon * (d_mu + d_e) / 2 + d_ga * xa
        d_own_b = how.horizon * (d_mu - d_e) / 2 + d_gb * xb
        of_xa = grads[0] + d_ga * (s.own_a + la) + d_gb * s.from_a
        of_xb = d_ga * s.from_b + d_gb * (s.own_b + lb)
        of_za = torch.cat([d_ga * xa, how.half * d_own_a + part * d_q, -d_own_a], dim=1)
        of_zb = torch.cat([d_gb * xb, how.half * d_own_b + part * d_r, -d_own_b], dim=1)
        return of_xa, of_xb, of_za, of_zb, None, None


def _with_derivatives(mu: Tensor, d: Tensor, degree: int) -> tuple[Tensor, ...]:
    """``c0``, ``c1`` and their derivatives: of both by ``mu``, of ``c1`` by ``d`` (that of ``c0`` is half
    of ``c1``'s by ``mu``)."""
    zero = torch.zeros_like(mu)
    u, v, w, before = torch.ones_like(mu), zero, zero, zero
    c0, c1, c0_mu, c1_mu, c1_d = (zero,) * 5
    for m, (k, slope) in enumerate(zip(_terms(degree), _slopes(degree), strict=True)):
        c0, c1, c1_d = c0 + k * u, c1 + k * v, c1_d + k * w
        c0_mu, c1_mu = c0_mu + slope * u, c1_mu + slope * v
        w, before = m / 2 * before + mu * w, v
        u, v = mu * u + d * v, u + mu * v
    return c0, c1, c0_mu, c1_mu, c1_d
