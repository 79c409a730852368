"""The flow of pairs in loops, torch and a kernel, against the matrix exponential and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from torch import Tensor

from contig.layers import pairs
from contig.layers.pairs import Flow, flow

ROWS, DIM = 7, 3
MINE, THEIRS = torch.tensor([0, 2, 2, 5, 6]), torch.tensor([1, 2, 0, 0, 3])  # some twice, one with itself
LINKED = torch.tensor([True, True, False, True, True])


def in_torch(x: Tensor, gates: Tensor, mine: Tensor, theirs: Tensor, linked: Tensor, how: Flow) -> Tensor:
    start = [t.index_select(0, at) for t in (x, gates) for at in (mine, theirs)]
    moved: Tensor = pairs._InTorch.apply(*start, linked, how)
    return moved


ROUTES = {"loops": flow, "torch": in_torch}


def problem(seed: int, dim: int = DIM) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, dim, generator=draw, dtype=torch.float64)
    gates = torch.rand(ROWS, 3 * dim, generator=draw, dtype=torch.float64)
    return x.requires_grad_(), gates.requires_grad_()


def by_matrices(x: Any, gates: Any, how: Flow) -> Any:
    """Each pair and dimension by the exponential of its own system, the constant slope as a third value."""
    latest, neighbor, inherent = np.split(gates, 3, axis=1)
    result = np.empty((len(MINE), x.shape[1]))
    for i, (a, b) in enumerate(zip(MINE.tolist(), THEIRS.tolist(), strict=True)):
        for c in range(x.shape[1]):
            across = how.half if LINKED[i] else 0.0
            system = np.zeros((4, 4))
            for row, (one, _) in enumerate([(a, b), (b, a)]):
                system[row, row] = how.half * neighbor[one, c] - inherent[one, c]
                system[row, 1 - row] = across * neighbor[one, c]
                system[row, 2 + row] = latest[one, c] * x[one, c]
            start = np.array([x[a, c], x[b, c], 1.0, 1.0])
            result[i, c] = (expm(how.horizon * system) @ start)[0]
    return result


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("horizon", [0.6, 1.0, 2.3])
def test_the_flow_is_the_matrix_exponential(route: str, horizon: float) -> None:
    x, gates = problem(1)
    how = Flow(0.475, horizon, 30)
    found = ROUTES[route](x, gates, MINE, THEIRS, LINKED, how)
    expected = by_matrices(x.detach().numpy(), gates.detach().numpy(), how)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("degree", [1, 2, 3, 9])
def test_gradients_by_finite_differences(route: str, degree: int) -> None:
    """At every degree: the gradient is of the truncated series itself."""
    x, gates = problem(2)
    how = Flow(0.475, 1.3, degree)
    assert torch.autograd.gradcheck(lambda *g: ROUTES[route](*g, MINE, THEIRS, LINKED, how), (x, gates))


def test_where_the_two_eigenvalues_meet() -> None:
    """Equal nodes that are not linked: d is 0, where a difference quotient would be 0 by 0."""
    x, gates = (t[:1].detach().repeat(ROWS, 1).requires_grad_() for t in problem(3))
    alone = torch.zeros_like(LINKED)
    how = Flow(0.475, 1.0, 9)
    for route in ROUTES.values():
        assert torch.autograd.gradcheck(lambda *g, r=route: r(*g, MINE, THEIRS, alone, how), (x, gates))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), dim=st.sampled_from([1, 63, 64, 65, 130]), threads=st.sampled_from([1, 2, 5])
)
def test_loops_are_the_torch_operations(seed: int, dim: int, threads: int) -> None:
    """Blocks of columns that end anywhere, and any number of threads."""
    x, gates = problem(seed, dim)
    how = Flow(0.475, 1.0, 9)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        results = [route(x, gates, MINE, THEIRS, LINKED, how) for route in ROUTES.values()]
        up = torch.randn(results[0].shape, dtype=torch.float64)
        grads = [torch.autograd.grad(r, (x, gates), up) for r in results]
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [5, 172])
def test_the_kernel_is_the_torch_operations(dim: int) -> None:
    start = [t.detach().float().cuda().requires_grad_() for t in problem(4, dim)]
    rest = [t.cuda() for t in (MINE, THEIRS, LINKED)]
    how = Flow(0.475, 1.3, 9)
    results = [route(*start, *rest, how) for route in (flow, in_torch)]
    up = torch.randn_like(results[0])
    grads = [torch.autograd.grad(r, start, up) for r in results]
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-5)
