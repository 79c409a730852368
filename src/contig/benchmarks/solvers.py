"""The gated ODE of pairs: the series against torchdiffeq's solvers, with the error of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from contig.benchmarks.timing import need
from contig.layers import GatedODE

Solve = Callable[[], Tensor]
RK4_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FAIR = 1.5  # a solver within this much of the series' error is as accurate


class Problem:
    """``pairs`` pairs of random states ``[2 pairs, dim]`` in float32, a tenth of them without a partner."""

    def __init__(self, pairs: int, dim: int, device: torch.device) -> None:
        torch.manual_seed(0)
        self.pairs, self.ode = pairs, GatedODE(dim).to(device)
        self.start = torch.randn(2 * pairs, dim, device=device).requires_grad_()
        self.linked = torch.rand(pairs, device=device) >= 0.1
        self.mine = torch.arange(pairs, device=device)

    def series(self) -> Tensor:
        return self.ode.paired(self.start, self.mine, self.mine + self.pairs, self.linked)

    def by_torchdiffeq(self, method: str, **how: Any) -> Tensor:
        """The same through a solver: both nodes of a pair move, the coupling is an exchange of halves."""
        need("torchdiffeq")
        from torchdiffeq import odeint

        latest, own, between = self._coefficients(self.start)
        drive = latest * self.start

        def slope(_: Tensor, x: Tensor) -> Tensor:
            return drive + own * x + between * x.roll(self.pairs, 0)

        until = torch.tensor([0.0, self.ode.horizon], device=self.start.device)
        moved: Tensor = odeint(slope, self.start, until, method=method, **how)[1, : self.pairs]
        return moved

    def dopri5(self) -> Tensor:
        return self.by_torchdiffeq("dopri5", rtol=1e-5, atol=1e-5)

    def rk4(self, steps: int) -> Tensor:
        return self.by_torchdiffeq("rk4", options={"step_size": self.ode.horizon / steps})

    def _coefficients(self, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        latest, neighbor, inherent = self.ode.gate_values(start)
        half = self.ode.beta / 2
        linked = self.linked.repeat(2).unsqueeze(1)
        return latest, half * neighbor - inherent, half * neighbor * linked

    @cached_property
    @torch.no_grad()
    def exact(self) -> Tensor:
        """The answer in float64: of every pair and dimension the exponential of a three by three matrix."""
        latest, own, between = (x.double() for x in self._coefficients(self.start))
        start, n = self.start.double(), self.pairs
        system = start.new_zeros(n, start.shape[1], 3, 3)
        for i, rows in enumerate((slice(0, n), slice(n, None))):
            system[..., i, i], system[..., i, 1 - i] = own[rows], between[rows]
            system[..., i, 2] = latest[rows] * start[rows]
        flow = torch.linalg.matrix_exp(self.ode.horizon * system)
        at_first = torch.stack([start[:n], start[n:], torch.ones_like(start[:n])], dim=-1)
        exact: Tensor = (flow[..., 0, :] * at_first).sum(dim=-1)
        return exact

    def error(self, solve: Solve) -> float:
        """The largest error of any value."""
        with torch.no_grad():
            return float((solve().double() - self.exact).abs().max())

    def fair_rk4_steps(self) -> int:
        """The fewest steps with which rk4 is as accurate as the series, or the most there are."""
        enough = FAIR * self.error(self.series)
        good = (n for n in RK4_STEPS if self.error(lambda n=n: self.rk4(n)) <= enough)  # type: ignore[misc]
        return next(good, RK4_STEPS[-1])

    def there_and_back(self, solve: Solve) -> Callable[[], None]:
        """``solve`` and its gradients by the states and by the weights of the gates."""

        def run() -> None:
            self.start.grad = None
            self.ode.zero_grad()
            solve().sum().backward()

        return run
