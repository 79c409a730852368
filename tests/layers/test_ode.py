"""The gated ODE against the matrix exponential, other solvers, its own error bound and finite differences."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from support.problems import Floats, dense, dense_latest, flow, partner_tensors, random_partners
from torch import Tensor
from torch.func import functional_call

from contig.errors import ConfigError
from contig.layers import Coupling, GatedODE, latest_graph, series_degree
from contig.layers.ode import FACTORS, SOLVERS, pair_graph, series_error_bound

ROWS, DIM = 7, 3


def graph(partner: list[int | None]) -> Coupling:
    return latest_graph(*partner_tensors(partner))


def problem(
    seed: int,
    *,
    rows: int = ROWS,
    dim: int = DIM,
    sharpness: float = 1.0,
    dtype: Any = torch.float64,
    **options: Any,
) -> tuple[GatedODE, Tensor, Coupling]:
    """Return an ODE with random weights, random rows and a random latest graph.

    ``sharpness`` scales the gates' weights: 300 drives every gate to 0 or 1.
    """
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ode = GatedODE(dim, **options).to(dtype)
        initial = torch.randn(rows, dim, dtype=dtype)
    if ode.gates is not None:
        with torch.no_grad():
            ode.gates.weight.mul_(sharpness)
    coupling = graph(random_partners(rng, rows))
    return ode, initial, coupling._replace(weight=coupling.weight.to(dtype))


def exact(ode: GatedODE, initial: Tensor, coupling: Coupling, s: float | None = None) -> Tensor:
    """Return the closed form for the same gates and the same coupling."""
    matrix = dense(coupling, len(initial))
    return flow(ode.gate_values(initial), matrix, ode.beta, initial, ode.horizon if s is None else s)


# -- the latest graph ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partner", "expected"),
    [
        ([None, None, None], np.zeros((3, 3))),
        ([1, 0, None], [[0, 1, 0], [1, 0, 0], [0, 0, 0]]),  # a mutual pair, counted once
        ([1, None, None], [[0, 1, 0], [1, 0, 0], [0, 0, 0]]),  # named by one of the two: the same graph
        ([0, None, 0], [[0.5, 0, 0.5**0.5], [0, 0, 0], [0.5**0.5, 0, 0]]),  # a self-loop and a neighbor
        ([1, None, 1], [[0, 0.5**0.5, 0], [0.5**0.5, 0, 0.5**0.5], [0, 0.5**0.5, 0]]),  # a star
    ],
    ids=["empty", "mutual", "one-sided", "self-loop", "star"],
)
def test_the_latest_graph_by_hand(partner: list[int | None], expected: Any) -> None:
    np.testing.assert_allclose(dense(graph(partner), 3), expected, atol=1e-6)


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 10)), min_size=11, max_size=11))
def test_the_latest_graph_against_a_dense_one(partner: list[int | None]) -> None:
    np.testing.assert_allclose(dense(graph(partner), 11), dense_latest(partner), atol=1e-6)


def test_the_partner_of_a_row_without_one_is_ignored() -> None:
    partner, known = torch.tensor([5, 2, 1]), torch.tensor([False, True, True])
    clean = latest_graph(torch.tensor([0, 2, 1]), known)
    # row 0 names row 5, which does not exist and must not be read
    np.testing.assert_array_equal(dense(latest_graph(partner, known), 3), dense(clean, 3))


@pytest.mark.parametrize("seed", range(20))
def test_the_spectrum_of_a_lies_between_zero_and_beta(seed: int) -> None:
    rng = np.random.default_rng(seed)
    beta, rows = 0.95, int(rng.integers(3, 40))
    matrix = beta / 2 * (np.eye(rows) + dense(graph(random_partners(rng, rows)), rows))
    values = np.linalg.eigvalsh(matrix)
    assert values.min() > -1e-6
    assert values.max() < beta + 1e-6
    assert values.max() > beta - 1e-6  # reached by every component with an edge


def test_propagation_is_the_dense_product() -> None:
    _, x, coupling = problem(3)
    np.testing.assert_allclose(coupling.propagate(x).numpy(), dense(coupling, ROWS) @ x.numpy(), atol=1e-12)


# -- the series and the other solvers -----------------------------------------------------------------


@pytest.mark.parametrize("horizon", [0.6, 1.0, 1.6, 2.0])
@pytest.mark.parametrize("sharpness", [1.0, 5.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_series_is_the_matrix_exponential(seed: int, sharpness: float, horizon: float) -> None:
    ode, initial, coupling = problem(seed, sharpness=sharpness, horizon=horizon, tolerance=1e-13)
    torch.testing.assert_close(ode(initial, coupling), exact(ode, initial, coupling), rtol=0, atol=1e-10)


@pytest.mark.parametrize("without", [(), *((f,) for f in FACTORS), FACTORS])
@pytest.mark.parametrize("adaptive", [True, False])
def test_every_ablation_is_the_matrix_exponential_of_its_system(without: Any, adaptive: bool) -> None:
    ode, initial, coupling = problem(5, without=without, adaptive=adaptive, tolerance=1e-13)
    gates = ode.gate_values(initial)
    for factor in FACTORS:
        value = getattr(gates, factor)
        assert bool((value == 0).all()) == (factor in without)
        assert adaptive or factor in without or bool((value == 1).all())
    torch.testing.assert_close(ode(initial, coupling), exact(ode, initial, coupling), rtol=0, atol=1e-10)


@torch.no_grad()
def test_dopri5_is_as_exact_as_its_tolerance() -> None:
    errors = []
    for tolerance in (1e-2, 1e-5, 1e-10):
        ode, initial, coupling = problem(5, horizon=4.0, solver="dopri5", tolerance=tolerance)
        errors.append(float((ode(initial, coupling) - exact(ode, initial, coupling)).abs().max()))
    assert errors[2] < 1e-8
    assert errors[0] > 100 * errors[1] > 10_000 * errors[2]


def test_the_path_is_the_matrix_exponential_at_every_point() -> None:
    ode, initial, coupling = problem(6, horizon=1.4, tolerance=1e-13)
    at = [0.0, 0.21, 0.7, 0.7001, 1.4]
    for s, state in zip(at, ode.path(initial, coupling, at), strict=True):
        torch.testing.assert_close(state, exact(ode, initial, coupling, s), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_series_equals_dopri5_in_float32(seed: int) -> None:
    ode, initial, coupling = problem(seed, rows=11, dim=6, dtype=torch.float32)
    other, *_ = problem(seed, rows=11, dim=6, dtype=torch.float32, solver="dopri5")
    # The states reach 3, where a dozen float32 sums in another order differ by more than 1e-5.
    torch.testing.assert_close(ode(initial, coupling), other(initial, coupling), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("horizon", [0.6, 1.0, 1.6, 2.0])
@pytest.mark.parametrize("sharpness", [1.0, 300.0])
@torch.no_grad()
def test_float32_keeps_the_tolerance_at_every_horizon(sharpness: float, horizon: float) -> None:
    """Relative to the largest state: truncation at most 1e-6, and rounding of terms of at most e^T."""
    settings = {"rows": 41, "dim": 60, "sharpness": sharpness, "horizon": horizon}
    ode, initial, coupling = problem(3, dtype=torch.float32, **settings)
    far = float(initial.abs().max())
    error = (ode(initial, coupling).double() - exact(ode, initial, coupling)).abs().max()
    assert float(error) / far < 2e-6
    known = torch.arange(41) % 3 > 0
    pairs = pairs_of(ode, initial, initial.flip(0), known)
    both = torch.cat([initial, initial.flip(0)])
    error = (pairs.double() - exact(ode, both, pair_graph(known))[:41]).abs().max()
    assert float(error) / far < 2e-6


@pytest.mark.parametrize(("solver", "order"), [("euler", 1), ("rk4", 4)])
def test_fixed_step_solvers_converge_at_their_order(solver: Any, order: int) -> None:
    steps = np.array([4, 8, 16, 32])
    errors = []
    for n in steps:
        ode, initial, coupling = problem(7, solver=solver, steps=int(n))
        errors.append(float((ode(initial, coupling) - exact(ode, initial, coupling)).detach().norm()))
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15)


# -- pairs --------------------------------------------------------------------------------------------


def pairs_of(ode: GatedODE, initial: Tensor, partner: Tensor, known: Tensor) -> Tensor:
    """Couple row ``i`` of ``initial`` with row ``i`` of ``partner``."""
    place = torch.arange(len(initial))
    return ode.paired(torch.cat([initial, partner]), place, place + len(initial), known)


@pytest.mark.parametrize("solver", SOLVERS)
def test_paired_is_the_graph_of_two(solver: Any) -> None:
    ode, initial, _ = problem(8, solver=solver)
    partner = torch.flip(initial, (0,)) * 1.5
    known = torch.tensor([True, False, True, True, False, True, True])
    found = pairs_of(ode, initial, partner, known)
    for row in range(ROWS):
        pair = torch.stack([initial[row], partner[row]])
        coupling = graph([1, 0] if known[row] else [None, None])
        # dopri5 adapts its steps to the whole system, so a pair alone differs by its tolerance
        close = {"rtol": 0, "atol": 1e-5 if solver == "dopri5" else 1e-12}
        torch.testing.assert_close(found[row], ode(pair, coupling)[0], **close)


def test_paired_is_the_matrix_exponential() -> None:
    ode, initial, _ = problem(9, tolerance=1e-13)
    partner = initial.flip(0) - 0.3
    found = pairs_of(ode, initial, partner, torch.ones(ROWS, dtype=torch.bool))
    for row in range(ROWS):
        pair = torch.stack([initial[row], partner[row]])
        expected = flow(ode.gate_values(pair), dense_latest([1, 0]), ode.beta, pair, 1.0)[0]
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-10)


def test_a_pair_that_is_not_linked_does_not_interact() -> None:
    ode, initial, _ = problem(10)
    linked = torch.zeros(ROWS, dtype=torch.bool)
    a, b = pairs_of(ode, initial, initial, linked), pairs_of(ode, initial, initial * 100 + 7, linked)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-14)


# -- the error bound ----------------------------------------------------------------------------------


def size(x: Tensor, degree: Floats) -> Floats:
    """Return ``|x_v| / sqrt(D_v)``, whose maximum over the rows is the norm of the bound."""
    return np.abs(x.detach().numpy()) / np.sqrt(np.maximum(degree, 1))[:, None]


def truncation_errors(ode: GatedODE, initial: Tensor, coupling: Coupling, degrees: range) -> list[float]:
    """Return, by degree, the largest error of any dimension relative to its initial size."""
    truth = exact(ode, initial, coupling)
    neighbors = (dense(coupling, len(initial)) > 0).sum(axis=1)
    start = size(initial, neighbors).max(axis=0)
    errors = []
    for ode.degree in degrees:
        error = size(ode(initial, coupling) - truth, neighbors).max(axis=0)
        errors.append(float((error / start).max()))
    return errors


DEGREES = range(1, 14)


@hypothesis_settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(3, 12),
    sharpness=st.sampled_from([0.1, 1.0, 10.0, 300.0]),
    horizon=st.sampled_from([0.3, 1.0, 2.0]),
    beta=st.sampled_from([0.2, 0.95, 0.999]),
)
def test_the_truncation_error_is_below_its_bound(
    seed: int, rows: int, sharpness: float, horizon: float, beta: float
) -> None:
    ode, initial, coupling = problem(seed, rows=rows, sharpness=sharpness, horizon=horizon, beta=beta)
    errors = truncation_errors(ode, initial, coupling, DEGREES)
    bounds = [series_error_bound(d, horizon) for d in DEGREES]
    assert all(error <= bound + 1e-13 for error, bound in zip(errors, bounds, strict=True))


def test_the_bound_is_tight() -> None:
    """Without the inherent factor, terms grow by ``beta`` each, which the bound rounds up to 1."""
    ode = GatedODE(1, without=("inherent",), adaptive=False, beta=0.95)
    errors = truncation_errors(ode, torch.ones(2, 1).double(), graph([1, 0]), DEGREES)
    for degree, error in zip(DEGREES, errors, strict=True):
        bound = series_error_bound(degree, 1.0)
        assert 0.95 ** (degree + 1) * bound < error <= bound or bound < 1e-10
    degree = next(d for d, error in zip(DEGREES, errors, strict=True) if error <= 1e-6)
    assert series_degree(1.0, 1e-6) - 1 <= degree <= series_degree(1.0, 1e-6)


@pytest.mark.parametrize(
    ("horizon", "tolerance"), [(0.6, 1e-6), (1.0, 1e-6), (1.0, 1e-3), (1.6, 1e-12), (2.0, 1e-6)]
)
def test_the_degree_is_the_smallest_that_satisfies_the_bound(horizon: float, tolerance: float) -> None:
    degree = series_degree(horizon, tolerance)
    assert series_error_bound(degree, horizon) <= tolerance
    assert series_error_bound(degree - 1, horizon) > tolerance


@pytest.mark.parametrize("degree", [1, 5, 10])
def test_the_bound_is_the_remainder_of_the_exponential(degree: int) -> None:
    """``sum_{m>d} T^m/m!`` is ``e^T`` minus its first terms; at T = 8 both are far above rounding."""
    first_terms = 1 + sum(np.cumprod([8.0 / m for m in range(1, degree + 1)]))
    assert series_error_bound(degree, 8.0) == pytest.approx(2 * (np.exp(8.0) - first_terms), rel=1e-9)


# -- gradients ----------------------------------------------------------------------------------------


def test_gradients_of_the_graph_by_finite_differences() -> None:
    ode, initial, coupling = problem(11, rows=5, dim=2)
    names = [name for name, _ in ode.named_parameters()]

    def solved(x: Tensor, *weights: Tensor) -> Tensor:
        return functional_call(ode, dict(zip(names, weights, strict=True)), (x, coupling))

    assert torch.autograd.gradcheck(solved, (initial.requires_grad_(), *ode.parameters()))


def test_gradients_of_pairs_by_finite_differences() -> None:
    ode, initial, _ = problem(12, rows=4, dim=2)
    partner = (initial.flip(0) + 0.5).requires_grad_()
    known = torch.tensor([True, True, False, True])

    def solved(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        values = {"gates.weight": weight, "gates.bias": bias}
        with torch.nn.utils.stateless._reparametrize_module(ode, values):
            return pairs_of(ode, x, y, known)

    assert ode.gates is not None
    inputs = (initial.requires_grad_(), partner, ode.gates.weight, ode.gates.bias)
    assert torch.autograd.gradcheck(solved, inputs)


# -- invalid settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "dopri"}, "Did you mean 'dopri5'"),
        ({"beta": 1.0}, "beta=1.0"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"horizon": 0.0}, "horizon=0.0"),
        ({"horizon": 2.001}, "at most 2, .* solver='dopri5'"),
        ({"horizon": 8.0}, "solver='dopri5'"),
        ({"horizon": float("nan")}, "horizon=nan"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GatedODE(4, **settings)


def test_the_adaptive_solver_takes_long_horizons() -> None:
    ode, initial, coupling = problem(13, horizon=20.0, solver="dopri5")
    torch.testing.assert_close(ode(initial, coupling), exact(ode, initial, coupling), rtol=1e-4, atol=1e-3)


def test_the_error_without_torchdiffeq_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "torchdiffeq":
            raise ImportError(name)
        return real(name, *rest)

    ode, initial, coupling = problem(14, solver="rk4")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"contig\[solvers\]"):
        ode(initial, coupling)
