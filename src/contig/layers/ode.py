"""The continuous inference block: a gated linear ODE over the latest interactions.

``dH/ds = z_l * H(0) + z_n * (A H) - z_i * H`` for ``s`` from 0 to ``T``, where the gates
``z = sigmoid(W H(0) + b)`` do not change with ``s`` and ``A = beta/2 (I + D^-1/2 S D^-1/2)``.
With ``M X = z_n * (A X) - z_i * X`` this is linear with constant coefficients, so

``H(s) = H(0) + sum_{m>=1} s^m/m! M^(m-1) (M H(0) + z_l * H(0))``

and a handful of products replaces an adaptive solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from contig.errors import ConfigError, unknown
from contig.kernels.pair_flow import FlowSettings, pair_flow

Solver = Literal["series", "euler", "rk4", "dopri5"]
SOLVERS: tuple[Solver, ...] = ("series", "euler", "rk4", "dopri5")
Factor = Literal["latest", "neighbor", "inherent"]
FACTORS: tuple[Factor, ...] = ("latest", "neighbor", "inherent")


class Coupling(NamedTuple):
    """``D^-1/2 S D^-1/2`` as a list of edges: ``row`` takes ``weight`` times what ``col`` has."""

    row: Tensor
    col: Tensor
    weight: Tensor  # float, [edges]

    def spread(self, x: Tensor) -> Tensor:
        """The product of the normalised adjacency with ``x`` ``[rows, d]``."""
        # index_select, not x[col], whose gradient is gathered by a far slower index_put
        taken = x.index_select(0, self.col) * self.weight.unsqueeze(1)
        return torch.zeros_like(x).index_add(0, self.row, taken)


def latest_graph(partner: Tensor, has_partner: Tensor) -> Coupling:
    """The normalised adjacency of the pairs ``{v, partner[v]}`` among rows ``0..n-1``.

    A mutual pair counts once, and so does a node that met itself. Rows without a partner stand
    alone. Shapes depend only on the number of rows: absent edges have weight 0.
    """
    row = torch.arange(len(partner), device=partner.device)
    partner = torch.where(has_partner, partner, row)
    mutual = has_partner & has_partner[partner] & (partner[partner] == row)
    itself = has_partner & (partner == row)
    kept = (has_partner & ~(mutual & (row > partner))).to(torch.float32)
    back = torch.where(itself, 0.0, kept)  # an edge to itself has no second direction
    degree = torch.zeros_like(kept).index_add(0, row, kept).index_add(0, partner, back)
    scale = degree.clamp(min=1).rsqrt()
    weight = scale * scale[partner]
    return Coupling(
        row=torch.cat([row, partner]),
        col=torch.cat([partner, row]),
        weight=torch.cat([weight * kept, weight * back]),
    )


LONGEST_SERIES = 8.0  # beyond, the series' alternating terms cost float32 its digits
SMALLEST_TOLERANCE = 1e-16  # float64's own


def pair_graph(linked: Tensor) -> Coupling:
    """The graph of ``n`` separate pairs: row ``i`` with row ``n + i`` where ``linked[i]``."""
    row = torch.arange(len(linked), device=linked.device)
    here, there = torch.cat([row, row + len(row)]), torch.cat([row + len(row), row])
    return Coupling(here, there, linked.float().repeat(2))


def series_degree(horizon: float, tolerance: float = 1e-6) -> int:
    """The smallest degree whose truncation error is proven below ``tolerance`` relative to ``H(0)``."""
    if not 0 < horizon <= LONGEST_SERIES:
        raise ConfigError(
            f"horizon={horizon} must lie above 0 and, for solver='series', be at most {LONGEST_SERIES:g}; "
            "take solver='dopri5' for longer ones."
        )
    if not tolerance >= SMALLEST_TOLERANCE:
        raise ConfigError(f"tolerance={tolerance} must be at least {SMALLEST_TOLERANCE:g}.")
    degree = 1
    while series_error_bound(degree, horizon) > tolerance:
        degree += 1
    return degree


def series_error_bound(degree: int, horizon: float) -> float:
    """A bound on ``|H - H_degree| / |H(0)|`` whatever the gates, the graph and ``beta``.

    In the norm ``max_v |x_v| / sqrt(D_v)`` the normalised adjacency has norm at most 1, and row ``v``
    of M at most ``|beta/2 z_n - z_i| + beta/2 z_n``, which for gates in [0, 1] and beta < 1 never
    exceeds 1. So ``|M| <= 1``, the m-th term is at most ``2 T^m / m!``, and the bound is the sum of
    what is left out. For a pair of nodes this norm is the plain largest value.
    """
    return 2 * sum(horizon**m / math.factorial(m) for m in range(degree + 1, degree + 40))


class Gates(NamedTuple):
    """The three gates, each ``[rows, d]``."""

    latest: Tensor
    neighbor: Tensor
    inherent: Tensor


class GatedODE(nn.Module):
    """Moves encoded states along the three gated factors for ``horizon`` units.

    ``without`` drops factors (the paper's ablations); ``adaptive=False`` sets every gate to 1.
    ``solver="series"`` is the default: its degree comes from ``series_error_bound``. The others go
    through torchdiffeq and exist to be compared with.
    """

    def __init__(
        self,
        dim: int,
        *,
        horizon: float = 1.0,
        beta: float = 0.95,
        solver: Solver = "series",
        tolerance: float = 1e-6,
        steps: int = 8,
        adaptive: bool = True,
        without: tuple[Factor, ...] = (),
    ) -> None:
        super().__init__()
        if solver not in SOLVERS:
            raise ConfigError(unknown("solver", solver, SOLVERS))
        if not 0 < beta < 1:
            raise ConfigError(f"beta={beta} must lie strictly between 0 and 1.")
        self.dim, self.horizon, self.beta = dim, horizon, beta
        self.solver, self.tolerance, self.steps = solver, tolerance, steps
        self.adaptive, self.without = adaptive, frozenset(without)
        self.degree = series_degree(horizon, tolerance) if solver == "series" else 0
        self.gates = nn.Linear(dim, 3 * dim) if adaptive else None

    def gate_values(self, initial: Tensor) -> Gates:
        """``sigmoid(W H(0) + b)`` for each factor; 0 for a factor left out."""
        return Gates(*self._gates(initial).chunk(3, dim=1))

    def _gates(self, initial: Tensor) -> Tensor:
        """The three gates side by side ``[rows, 3 d]``."""
        if self.gates is None:
            values = initial.new_ones(len(initial), 3 * self.dim)
        else:
            values = torch.sigmoid(self.gates(initial))
        if not self.without:
            return values
        parts = zip(FACTORS, values.chunk(3, dim=1), strict=True)
        return torch.cat([torch.zeros_like(p) if f in self.without else p for f, p in parts], dim=1)

    def forward(self, initial: Tensor, coupling: Coupling) -> Tensor:
        """``H(T)`` for a whole graph of rows ``[n, d]``."""
        return self.path(initial, coupling, [self.horizon])[0]

    def path(self, initial: Tensor, coupling: Coupling, at: list[float]) -> list[Tensor]:
        """``H(s)`` at the given ascending points of ``[0, T]``."""
        gates = self.gate_values(initial)
        half = self.beta / 2
        own = half * gates.neighbor - gates.inherent  # the part of M that stays in a row
        between = half * gates.neighbor

        def derive(x: Tensor) -> Tensor:
            return own * x + between * coupling.spread(x)

        if self.solver != "series":
            return self._integrate(lambda x: derive(x) + gates.latest * initial, initial, at)
        first = derive(initial) + gates.latest * initial
        sums = [initial + s * first for s in at]
        term = first
        for m in range(2, self.degree + 1):
            term = derive(term)
            sums = [x + (s**m / math.factorial(m)) * term for s, x in zip(at, sums, strict=True)]
        return sums

    def paired(self, initial: Tensor, own: Tensor, partner: Tensor, linked: Tensor) -> Tensor:
        """``H(T)`` of the rows ``own``, each coupled with its row of ``partner`` alone where ``linked``.

        In the graph of just that pair both degrees are 1, so every dimension is a system of two, and
        the series needs no sparse product and nothing of any other pair (``contig.kernels.pair_flow``).
        """
        if self.solver != "series":
            both: Tensor = self(initial.index_select(0, torch.cat([own, partner])), pair_graph(linked))
            return both[: len(own)]
        settings = FlowSettings(self.beta / 2, self.horizon, self.degree)
        return pair_flow(initial, self._gates(initial), own, partner, linked, settings)

    def _integrate(self, slope: Callable[[Tensor], Tensor], initial: Tensor, at: list[float]) -> list[Tensor]:
        try:
            from torchdiffeq import odeint
        except ImportError as error:
            raise ConfigError(
                f"solver={self.solver!r} needs torchdiffeq; install it with: pip install 'contig[solvers]'."
            ) from error
        later = [s for s in at if s > 0]  # the solvers take strictly ascending points
        points = torch.tensor([0.0, *later], dtype=initial.dtype, device=initial.device)
        fixed = {"options": {"step_size": self.horizon / self.steps, "interp": "cubic"}}
        how = {"rtol": self.tolerance, "atol": self.tolerance} if self.solver == "dopri5" else fixed
        path = odeint(lambda _, x: slope(x), initial, points, method=self.solver, **how)
        return [initial] * (len(at) - len(later)) + list(path[1:])
