"""All solvers solve the same equation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from contig.benchmarks.ode import PairODE

CPU = torch.device("cpu")

pytest.importorskip("torchdiffeq")


def test_every_solver_solves_the_same_problem() -> None:
    problem = PairODE(7, 3, CPU)
    exact, start = problem.exact, problem.start.detach().double()
    latest, own, between = (x.detach().double() for x in problem.coefficients())
    pair, dim = 4, 2
    rows = (pair, pair + 7)
    system = np.zeros((3, 3))
    for i, row in enumerate(rows):
        system[i, i], system[i, 1 - i] = own[row, dim], between[row, dim]
        system[i, 2] = latest[row, dim] * start[row, dim]
    by_hand = expm(system) @ [start[rows[0], dim], start[rows[1], dim], 1.0]
    assert float(exact[pair, dim]) == pytest.approx(by_hand[0], rel=1e-12)
    assert problem.error(problem.series) < 2e-6
    assert problem.error(problem.dopri5) < 1e-3
    steps = problem.comparable_rk4_steps()
    assert problem.error(lambda: problem.rk4(steps)) <= 1.5 * problem.error(problem.series)
    assert problem.error(lambda: problem.rk4(1)) > 10 * problem.error(problem.series)


def test_gradients_of_both_sides_agree() -> None:
    problem, grads = PairODE(5, 4, CPU), []
    for solve in (problem.series, lambda: problem.rk4(16)):
        problem.forward_backward(solve)
        assert problem.start.grad is not None
        assert problem.ode.gates is not None
        assert problem.ode.gates.weight.grad is not None
        grads.append((problem.start.grad.clone(), problem.ode.gates.weight.grad.clone()))
    for ours, theirs in zip(*grads, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)
