"""The gated ODE of pairs of nodes, in closed recurrences.

Every dimension of a pair ``(a, b)`` is a system of two, and ``H_a(T) = x_a + T [phi(A) g]_a`` with
``phi(A) = sum_m A^m / (m+1)!``, ``A = T [[p, q], [r, s]]`` and ``g`` the slope at the start. A two by
two matrix satisfies ``(A - mu)^2 = d`` with ``mu = (A_00 + A_11) / 2`` and
``d = ((A_00 - A_11) / 2)^2 + A_01 A_10``, so every power is ``A^m = u_m + v_m (A - mu)`` with

``u_(m+1) = mu u_m + d v_m``,  ``v_(m+1) = u_m + mu v_m``,

and the whole series is two numbers, ``phi(A) = c0 + c1 (A - mu)``. Their derivatives need one more
recurrence (``w_m = dv_m/dd``), since ``du_m/dmu = m u_(m-1)``, ``dv_m/dmu = m v_(m-1)`` and
``du_m/dd = m v_(m-1) / 2``. This is the same polynomial in ``A`` as the sum of the series term by term,
and its gradient takes no memory that grows with the degree.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contig.kernels.dispatch import backend


class FlowSettings(NamedTuple):
    """The constants of all pairs."""

    half_beta: float  # beta / 2
    horizon: float  # T
    degree: int  # terms of the polynomial in A, the constant one included


def pair_flow(
    x: Tensor, gates: Tensor, own: Tensor, partner: Tensor, linked: Tensor, settings: FlowSettings
) -> Tensor:
    """Compute ``H(T)`` of rows ``own`` ``[pairs]``, each coupled with row ``partner`` where ``linked``.

    ``x`` ``[rows, d]`` are the initial states and ``gates`` ``[rows, 3 d]`` the gates of the latest,
    the neighbor and the inherent factor.
    """
    compiled = backend(x.device)
    if compiled == "numba":
        from contig.kernels.cpu import pair_flow as loops

        return loops.pair_flow(x, gates, own, partner, linked, settings)
    if compiled == "triton" and x.dtype == torch.float32:
        from contig.kernels.gpu import pair_flow as kernels

        on_gpu: Tensor = kernels.pair_flow(x, gates, own, partner, linked, *settings)
        return on_gpu
    return _pair_flow(x, gates, own, partner, linked, settings)


def series_terms(degree: int) -> list[float]:
    """Return the coefficients of ``phi``."""
    return [1 / math.factorial(m + 1) for m in range(degree)]


def series_slopes(degree: int) -> list[float]:
    """Return the coefficients of ``dphi/dmu`` in ``u_m``: ``m + 1`` times the next coefficient of ``phi``."""
    return [(m + 1) / math.factorial(m + 2) if m + 1 < degree else 0.0 for m in range(degree)]


def _pair_flow(
    x: Tensor, gates: Tensor, own: Tensor, partner: Tensor, linked: Tensor, settings: FlowSettings
) -> Tensor:
    starts = [table.index_select(0, index) for table in (x, gates) for index in (own, partner)]
    moved: Tensor = _PairFlow.apply(*starts, linked, settings)  # type: ignore[no-untyped-call]
    return moved


class _System(NamedTuple):
    """The two by two systems of all pairs and dimensions, each ``[pairs, d]``."""

    own_a: Tensor  # A_00 / T
    own_b: Tensor  # A_11 / T
    from_b: Tensor  # A_01 / T: how b's state enters a's slope
    from_a: Tensor  # A_10 / T
    slope_a: Tensor  # g
    slope_b: Tensor
    mu: Tensor
    e: Tensor  # (A_00 - A_11) / 2
    d: Tensor

    @classmethod
    def of(
        cls, xa: Tensor, xb: Tensor, za: Tensor, zb: Tensor, linked: Tensor, settings: FlowSettings
    ) -> _System:
        half, horizon, _ = settings
        (la, na, ia), (lb, nb, ib) = za.chunk(3, dim=1), zb.chunk(3, dim=1)
        part = linked.to(xa.dtype).unsqueeze(1) * half
        own_a, own_b = half * na - ia, half * nb - ib
        from_b, from_a = part * na, part * nb
        slope_a = (own_a + la) * xa + from_b * xb
        slope_b = (own_b + lb) * xb + from_a * xa
        mu, e = horizon * (own_a + own_b) / 2, horizon * (own_a - own_b) / 2
        d = e * e + horizon**2 * from_b * from_a
        return cls(own_a, own_b, from_b, from_a, slope_a, slope_b, mu, e, d)


class _PairFlow(torch.autograd.Function):
    """The flow of gathered states ``xa``, ``xb`` and gates ``za``, ``zb`` with a gradient of its own."""

    @staticmethod
    def forward(
        ctx: Any, xa: Tensor, xb: Tensor, za: Tensor, zb: Tensor, linked: Tensor, settings: FlowSettings
    ) -> Tensor:
        ctx.save_for_backward(xa, xb, za, zb, linked)
        ctx.settings = settings
        s = _System.of(xa, xb, za, zb, linked, settings)
        u, v = torch.ones_like(s.mu), torch.zeros_like(s.mu)
        c0, c1 = v, v
        for k in series_terms(settings.degree):
            c0, c1 = c0 + k * u, c1 + k * v
            u, v = s.mu * u + s.d * v, u + s.mu * v
        off_mean = s.e * s.slope_a + settings.horizon * s.from_b * s.slope_b  # [(A - mu) g]_a
        return xa + settings.horizon * (c0 * s.slope_a + c1 * off_mean)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        xa, xb, za, zb, linked = ctx.saved_tensors
        half, horizon, degree = ctx.settings
        s = _System.of(xa, xb, za, zb, linked, ctx.settings)
        c0, c1, c0_mu, c1_mu, c1_d = _series_with_derivatives(s.mu, s.d, degree)
        la, lb = za.chunk(3, dim=1)[0], zb.chunk(3, dim=1)[0]
        part = linked.to(xa.dtype).unsqueeze(1) * half
        q, r = horizon * s.from_b, horizon * s.from_a
        g = horizon * grads[0]
        d_c0, d_c1 = g * s.slope_a, g * (s.e * s.slope_a + q * s.slope_b)
        d_ga, d_gb = g * (c0 + c1 * s.e), g * c1 * q
        d_mu = d_c0 * c0_mu + d_c1 * c1_mu
        d_d = d_c0 * c1_mu / 2 + d_c1 * c1_d
        d_e = g * c1 * s.slope_a + 2 * s.e * d_d
        d_q = horizon * (g * c1 * s.slope_b + r * d_d) + d_ga * xb
        d_r = horizon * q * d_d + d_gb * xa
        d_own_a = horizon * (d_mu + d_e) / 2 + d_ga * xa
        d_own_b = horizon * (d_mu - d_e) / 2 + d_gb * xb
        grad_xa = grads[0] + d_ga * (s.own_a + la) + d_gb * s.from_a
        grad_xb = d_ga * s.from_b + d_gb * (s.own_b + lb)
        grad_za = torch.cat([d_ga * xa, half * d_own_a + part * d_q, -d_own_a], dim=1)
        grad_zb = torch.cat([d_gb * xb, half * d_own_b + part * d_r, -d_own_b], dim=1)
        return grad_xa, grad_xb, grad_za, grad_zb, None, None


def _series_with_derivatives(mu: Tensor, d: Tensor, degree: int) -> tuple[Tensor, ...]:
    """Return ``c0``, ``c1``, ``dc0/dmu``, ``dc1/dmu`` and ``dc1/dd``; ``dc0/dd`` is half of ``dc1/dmu``."""
    zero = torch.zeros_like(mu)
    u, v, w, before = torch.ones_like(mu), zero, zero, zero
    c0, c1, c0_mu, c1_mu, c1_d = (zero,) * 5
    for m, (k, slope) in enumerate(zip(series_terms(degree), series_slopes(degree), strict=True)):
        c0, c1, c1_d = c0 + k * u, c1 + k * v, c1_d + k * w
        c0_mu, c1_mu = c0_mu + slope * u, c1_mu + slope * v
        w, before = m / 2 * before + mu * w, v
        u, v = mu * u + d * v, u + mu * v
    return c0, c1, c0_mu, c1_mu, c1_d
