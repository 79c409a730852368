"""The flow of pairs against the matrix exponential and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from torch import Tensor

from contig.kernels.pair_flow import FlowSettings, pair_flow

ROWS, DIM = 7, 3
OWN, PARTNER = torch.tensor([0, 2, 2, 5, 6]), torch.tensor([1, 2, 0, 0, 3])  # row 2 twice, once with itself
LINKED = torch.tensor([True, True, False, True, True])

pytestmark = pytest.mark.usefixtures("implementation")


def problem(seed: int, dim: int = DIM) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, dim, generator=draw, dtype=torch.float64)
    gates = torch.rand(ROWS, 3 * dim, generator=draw, dtype=torch.float64)
    return x.requires_grad_(), gates.requires_grad_()


def by_matrices(x: Any, gates: Any, settings: FlowSettings) -> Any:
    """Solve each pair and dimension by the exponential of its own system, extended by the constant slopes."""
    latest, neighbor, inherent = np.split(gates, 3, axis=1)
    result = np.empty((len(OWN), x.shape[1]))
    for i, (a, b) in enumerate(zip(OWN.tolist(), PARTNER.tolist(), strict=True)):
        for c in range(x.shape[1]):
            across = settings.half_beta if LINKED[i] else 0.0
            system = np.zeros((4, 4))
            for row, (row_id, _) in enumerate([(a, b), (b, a)]):
                system[row, row] = settings.half_beta * neighbor[row_id, c] - inherent[row_id, c]
                system[row, 1 - row] = across * neighbor[row_id, c]
                system[row, 2 + row] = latest[row_id, c] * x[row_id, c]
            start = np.array([x[a, c], x[b, c], 1.0, 1.0])
            result[i, c] = (expm(settings.horizon * system) @ start)[0]
    return result


@pytest.mark.parametrize("horizon", [0.6, 1.0, 2.3])
def test_the_flow_is_the_matrix_exponential(horizon: float) -> None:
    x, gates = problem(1)
    settings = FlowSettings(0.475, horizon, 30)
    found = pair_flow(x, gates, OWN, PARTNER, LINKED, settings)
    expected = by_matrices(x.detach().numpy(), gates.detach().numpy(), settings)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3, 9])
def test_gradients_by_finite_differences(degree: int) -> None:
    """At every degree: the gradient is that of the truncated series itself."""
    x, gates = problem(2)
    settings = FlowSettings(0.475, 1.3, degree)
    assert torch.autograd.gradcheck(lambda *z: pair_flow(*z, OWN, PARTNER, LINKED, settings), (x, gates))


def test_where_the_two_eigenvalues_coincide() -> None:
    """Equal nodes that are not linked: d is 0, where a difference quotient would be 0 / 0."""
    x, gates = (t[:1].detach().repeat(ROWS, 1).requires_grad_() for t in problem(3))
    alone = torch.zeros_like(LINKED)
    settings = FlowSettings(0.475, 1.0, 9)
    assert torch.autograd.gradcheck(lambda *z: pair_flow(*z, OWN, PARTNER, alone, settings), (x, gates))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dim", [1, 63, 64, 65, 130])
def test_dimensions_are_independent(dim: int) -> None:
    """Whatever blocks of columns are computed together: each alone gives the same."""
    x, gates = problem(4, dim)
    settings = FlowSettings(0.475, 1.0, 9)
    found = pair_flow(x, gates, OWN, PARTNER, LINKED, settings)
    up = torch.linspace(-1, 2, found.numel()).double().view_as(found)
    grad_x, grad_gates = torch.autograd.grad(found, (x, gates), up)
    for c in {0, dim // 2, dim - 1}:
        column, its_gates = x[:, [c]], gates[:, [c, dim + c, 2 * dim + c]]
        alone = pair_flow(column, its_gates, OWN, PARTNER, LINKED, settings)
        torch.testing.assert_close(found[:, [c]], alone, rtol=0, atol=1e-12)
        grads = torch.autograd.grad(alone, (column, its_gates), up[:, [c]])
        torch.testing.assert_close(grad_x[:, [c]], grads[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(grad_gates[:, [c, dim + c, 2 * dim + c]], grads[1], rtol=0, atol=1e-12)
