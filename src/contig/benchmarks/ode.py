"""Solving the gated ODE of pairs: the series against torchdiffeq's solvers, with the error of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from contig.benchmarks.bench import Bench
from contig.benchmarks.environment import require
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.timing import alternate
from contig.layers import GatedODE

Solve = Callable[[], Tensor]
RK4_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SAME_ACCURACY = 1.5  # a solver whose error is at most this multiple of the series' is as accurate


class PairODE:
    """``pairs`` pairs of random states ``[2 pairs, dim]`` in float32, a tenth of them without a link."""

    def __init__(self, pairs: int, dim: int, device: torch.device) -> None:
        torch.manual_seed(0)
        self.pairs, self.ode = pairs, GatedODE(dim).to(device)
        self.start = torch.randn(2 * pairs, dim, device=device).requires_grad_()
        self.linked = torch.rand(pairs, device=device) >= 0.1
        self.rows = torch.arange(pairs, device=device)

    def series(self) -> Tensor:
        return self.ode.paired(self.start, self.rows, self.rows + self.pairs, self.linked)

    def dopri5(self) -> Tensor:
        return self._odeint("dopri5", rtol=1e-5, atol=1e-5)

    def rk4(self, steps: int) -> Tensor:
        return self._odeint("rk4", options={"step_size": self.ode.horizon / steps})

    def _odeint(self, method: str, **options: Any) -> Tensor:
        """Solve with torchdiffeq; the coupling of a pair swaps the halves of the rows."""
        require("torchdiffeq")
        from torchdiffeq import odeint

        latest, own, between = self.coefficients()
        drive = latest * self.start

        def slope(_: Tensor, x: Tensor) -> Tensor:
            return drive + own * x + between * x.roll(self.pairs, 0)

        until = torch.tensor([0.0, self.ode.horizon], device=self.start.device)
        end: Tensor = odeint(slope, self.start, until, method=method, **options)[1, : self.pairs]
        return end

    def coefficients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the factors of the initial state, of a row itself and of its partner."""
        latest, neighbor, inherent = self.ode.gate_values(self.start)
        half = self.ode.beta / 2
        linked = self.linked.repeat(2).unsqueeze(1)
        return latest, half * neighbor - inherent, half * neighbor * linked

    @cached_property
    @torch.no_grad()
    def exact(self) -> Tensor:
        """The solution in float64: a 3 x 3 matrix exponential for each pair and dimension."""
        latest, own, between = (x.double() for x in self.coefficients())
        start, n = self.start.double(), self.pairs
        system = start.new_zeros(n, start.shape[1], 3, 3)
        for i, rows in enumerate((slice(0, n), slice(n, None))):
            system[..., i, i], system[..., i, 1 - i] = own[rows], between[rows]
            system[..., i, 2] = latest[rows] * start[rows]
        flow = torch.linalg.matrix_exp(self.ode.horizon * system)
        initial = torch.stack([start[:n], start[n:], torch.ones_like(start[:n])], dim=-1)
        exact: Tensor = (flow[..., 0, :] * initial).sum(dim=-1)
        return exact

    def error(self, solve: Solve) -> float:
        """Return the largest absolute error of a solver."""
        with torch.no_grad():
            return float((solve().double() - self.exact).abs().max())

    def comparable_rk4_steps(self) -> int:
        """Return the fewest steps that make rk4 as accurate as the series, or the most we try."""
        largest = SAME_ACCURACY * self.error(self.series)
        enough = (n for n in RK4_STEPS if self.error(lambda n=n: self.rk4(n)) <= largest)  # type: ignore[misc]
        return next(enough, RK4_STEPS[-1])

    def forward_backward(self, solve: Solve) -> None:
        """Solve, and compute the gradients of the states and of the gates' weights."""
        self.start.grad = None
        self.ode.zero_grad()
        solve().sum().backward()


def measure_ode(bench: Bench) -> Iterator[Measurement]:
    """Compare the series, forward and backward, with two solvers of torchdiffeq."""
    problem = PairODE(bench.settings.pairs, bench.settings.dim, bench.device)
    with _full_precision():
        steps = problem.comparable_rk4_steps()
        solvers = {
            "torchdiffeq dopri5, 1e-5": problem.dopri5,
            f"torchdiffeq rk4, {steps} steps": lambda: problem.rk4(steps),
        }
        our_error = problem.error(problem.series)
        for name, solve in solvers.items():
            own, theirs = alternate(
                [partial(problem.forward_backward, each) for each in (problem.series, solve)],
                bench.settings.repeats,
                bench.device,
            )
            what = f"gated ODE of {problem.pairs:,} pairs, forward and backward"
            note = f"largest error {our_error:.1e}, the peer's {problem.error(solve):.1e}"
            yield Measurement.compare("ode", what, own, name, theirs, note=note)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Disable TF32, so that errors are those of the solvers and not of the gates."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
