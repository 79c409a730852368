"""The continuous inference block: a gated linear ODE over the latest interactions.

``dH/ds = z_l * H(0) + z_n * (A H) - z_i * H`` for ``s`` from 0 to ``T``, where the gates
``z = sigmoid(W H(0) + b)`` do not change with ``s`` and ``A = beta/2 (I + D^-1/2 S D^-1/2)``.
With ``M X = z_n * (A X) - z_i * X`` this is linear with constant coefficients, so

``H(s) = H(0) + sum_{m>=1} s^m/m! M^(m-1) (M H(0) + z_l * H(0))``

and a handful of products replaces an adaptive solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from contig.errors import ConfigError, unknown
from contig.kernels.forced_series import SeriesSettings, forced_series, forced_value
from contig.kernels.gather import gather_rows
from contig.kernels.linked_flow import linked_flow
from contig.kernels.pair_flow import FlowSettings, pair_flow
from contig.kernels.weighted_rows import weighted_rows

Solver = Literal["series", "euler", "rk4", "dopri5"]
SOLVERS: tuple[Solver, ...] = ("series", "euler", "rk4", "dopri5")
Factor = Literal["latest", "neighbor", "inherent"]
FACTORS: tuple[Factor, ...] = ("latest", "neighbor", "inherent")

MAX_SERIES_HORIZON = 2.0  # terms grow to e^T before they cancel: at 2 their rounding in float32 is about 1e-6
MIN_TOLERANCE = 1e-16  # the precision of float64


class Coupling(NamedTuple):
    """The normalized adjacency ``D^-1/2 S D^-1/2`` as edges from ``col`` to ``row``."""

    row: Tensor
    col: Tensor
    weight: Tensor  # float, [edges]

    def propagate(self, x: Tensor) -> Tensor:
        """Multiply the normalized adjacency with ``x`` ``[rows, d]``."""
        # not x[col]: its gradient is an index_put, which is far slower
        sent = x.index_select(0, self.col) * self.weight.unsqueeze(1)
        return torch.zeros_like(x).index_add(0, self.row, sent)


def latest_graph(partner: Tensor, has_partner: Tensor) -> Coupling:
    """Return the normalized adjacency of the pairs ``{v, partner[v]}`` among rows ``0..n``.

    A mutual pair counts once, and so does a self-loop. Rows without a partner are isolated. Shapes
    depend only on the number of rows: absent edges have weight 0.
    """
    row = torch.arange(len(partner), device=partner.device)
    partner = torch.where(has_partner, partner, row)
    mutual = has_partner & has_partner[partner] & (partner[partner] == row)
    self_loop = has_partner & (partner == row)
    kept = (has_partner & ~(mutual & (row > partner))).to(torch.float32)
    back = torch.where(self_loop, 0.0, kept)  # a self-loop has no second direction
    degree = torch.zeros_like(kept).index_add(0, row, kept).index_add(0, partner, back)
    scale = degree.clamp(min=1).rsqrt()
    weight = scale * scale[partner]
    return Coupling(
        row=torch.cat([row, partner]),
        col=torch.cat([partner, row]),
        weight=torch.cat([weight * kept, weight * back]),
    )


def pair_graph(linked: Tensor) -> Coupling:
    """Return the graph of ``n`` separate pairs: row ``i`` with row ``n + i`` where ``linked[i]``."""
    row = torch.arange(len(linked), device=linked.device)
    rows, cols = torch.cat([row, row + len(row)]), torch.cat([row + len(row), row])
    return Coupling(rows, cols, linked.float().repeat(2))


class Ring(NamedTuple):
    """Rows of a table, and the rows of the same table that each is coupled with.

    ``weight`` is 0 where there is no link. A list of rings leads from a wide table inwards: the rows of a
    ring are the table of the next one.
    """

    own: Tensor  # [rows]
    linked: Tensor  # [rows, slots]
    weight: Tensor  # float, [rows, slots]


def ring_graph(rings: Sequence[Ring], rows: int) -> Coupling:
    """Return the directed graph in which every ring is driven by the table outside it.

    Its rows are the ``rows`` of the outermost table, then those of each ring.
    """
    targets, sources, weights = [], [], []
    outside, inside = 0, rows
    for ring in rings:
        count, slots = ring.linked.shape
        target = inside + torch.arange(count, device=ring.own.device)
        targets.append(target.repeat_interleave(slots))
        sources.append(outside + ring.linked.flatten())
        weights.append(ring.weight.flatten())
        outside, inside = inside, inside + count
    return Coupling(torch.cat(targets), torch.cat(sources), torch.cat(weights))


def series_degree(horizon: float, tolerance: float = 1e-6) -> int:
    """Return the smallest degree whose truncation error is proven to be below ``tolerance * |H(0)|``."""
    if not 0 < horizon <= MAX_SERIES_HORIZON:
        raise ConfigError(
            f"horizon={horizon} must be positive and, for solver='series', at most {MAX_SERIES_HORIZON:g}, "
            "beyond which float32 rounding exceeds the tolerance; use solver='dopri5' for longer ones."
        )
    if not tolerance >= MIN_TOLERANCE:
        raise ConfigError(f"tolerance={tolerance} must be at least {MIN_TOLERANCE:g}.")
    degree = 1
    while series_error_bound(degree, horizon) > tolerance:
        degree += 1
    return degree


def series_error_bound(degree: int, horizon: float) -> float:
    """Return a bound on ``|H - H_degree| / |H(0)|`` for any gates, graph and ``beta``.

    In the norm ``max_v |x_v| / sqrt(D_v)`` the normalized adjacency has norm at most 1, and row ``v``
    of M at most ``|beta/2 z_n - z_i| + beta/2 z_n``, which for gates in [0, 1] and beta < 1 never
    exceeds 1. So ``|M| <= 1``, the m-th term is at most ``2 T^m / m!``, and the bound is the sum of
    the omitted terms. For a pair of nodes this norm is the maximum norm.
    """
    return 2 * sum(horizon**m / math.factorial(m) for m in range(degree + 1, degree + 40))


class Gates(NamedTuple):
    """The three gates, each ``[rows, d]``."""

    latest: Tensor
    neighbor: Tensor
    inherent: Tensor


class GatedODE(nn.Module):
    """Integrate the gated ODE from 0 to ``horizon``.

    ``without`` drops factors (the paper's ablations); ``adaptive=False`` sets every gate to 1. The
    default ``solver="series"`` takes its degree from ``series_error_bound``; the other solvers are
    torchdiffeq's, for comparison.
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
            raise ConfigError(f"beta={beta} must be strictly between 0 and 1.")
        self.dim, self.horizon, self.beta = dim, horizon, beta
        self.solver, self.tolerance, self.steps = solver, tolerance, steps
        self.adaptive, self.without = adaptive, frozenset(without)
        self.degree = series_degree(horizon, tolerance) if solver == "series" else 0
        self.gates = nn.Linear(dim, 3 * dim) if adaptive else None

    def gate_values(self, initial: Tensor) -> Gates:
        """Return ``sigmoid(W H(0) + b)`` for each factor; 0 for a factor that is left out."""
        return Gates(*self._gates(initial).chunk(3, dim=1))

    def _gates(self, initial: Tensor) -> Tensor:
        """Return the three gates side by side ``[rows, 3 d]``."""
        if self.gates is None:
            values = initial.new_ones(len(initial), 3 * self.dim)
        else:
            values = torch.sigmoid(self.gates(initial))
        if not self.without:
            return values
        parts = zip(FACTORS, values.chunk(3, dim=1), strict=True)
        return torch.cat([torch.zeros_like(p) if f in self.without else p for f, p in parts], dim=1)

    def forward(self, initial: Tensor, coupling: Coupling) -> Tensor:
        """Return ``H(T)`` for a whole graph of rows ``[n, d]``."""
        return self.path(initial, coupling, [self.horizon])[0]

    def path(self, initial: Tensor, coupling: Coupling, at: list[float]) -> list[Tensor]:
        """Return ``H(s)`` at ascending points ``at`` of ``[0, T]``."""
        gates = self.gate_values(initial)
        half = self.beta / 2
        own = half * gates.neighbor - gates.inherent  # the diagonal of M
        between = half * gates.neighbor

        def apply_m(x: Tensor) -> Tensor:
            return own * x + between * coupling.propagate(x)

        if self.solver != "series":
            return self._integrate(lambda x: apply_m(x) + gates.latest * initial, initial, at)
        first = apply_m(initial) + gates.latest * initial
        sums = [initial + s * first for s in at]
        term = first
        for m in range(2, self.degree + 1):
            term = apply_m(term)
            sums = [x + (s**m / math.factorial(m)) * term for s, x in zip(at, sums, strict=True)]
        return sums

    def paired(self, initial: Tensor, own: Tensor, partner: Tensor, linked: Tensor) -> Tensor:
        """Return ``H(T)`` of rows ``own``, each coupled with its row ``partner`` alone where ``linked``.

        In the graph of a single pair both degrees are 1, so every dimension is a system of two and
        the series needs no sparse product (``contig.kernels.pair_flow``).
        """
        if self.solver != "series":
            both: Tensor = self(initial.index_select(0, torch.cat([own, partner])), pair_graph(linked))
            return both[: len(own)]
        settings = FlowSettings(self.beta / 2, self.horizon, self.degree)
        return pair_flow(initial, self._gates(initial), own, partner, linked, settings)

    def along_walks(self, initial: Tensor, rings: Sequence[Ring]) -> Tensor:
        """Return ``H(T)`` of the innermost ring, following walks of at most ``len(rings)`` links.

        A walk is a product of entries of ``A`` off its diagonal. The outermost rows ``initial`` move by
        themselves, each ring is driven by the rows outside it, and so the result for a row depends on
        nothing but the walks that start there, whatever the other rows are. Walks of ``n`` links have a
        factor of at most ``(beta T / 2)^n / n!``.
        """
        if self.solver != "series":
            return self._integrated_walks(initial, rings)
        self.check_walks(len(rings))
        settings = SeriesSettings(self.beta / 2, self.degree + 1)
        if len(rings) == 1:
            return linked_flow(initial, self._gates(initial), *rings[0], settings, self.horizon)
        x, gates, forcing = self._driven(initial, rings)
        return forced_value(x, gates, forcing, settings, self.horizon)

    def check_walks(self, links: int) -> None:
        """Refuse walks that are longer than the series."""
        if self.solver == "series" and links > self.degree:
            raise ConfigError(
                f"hops={links}: walks of more than {self.degree} links are below the tolerance of the series "
                f"at this horizon; use hops={self.degree} or fewer."
            )

    def _driven(self, initial: Tensor, rings: Sequence[Ring]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return start, gates and forcing of the innermost ring."""
        x, gates, forcing = initial, self._gates(initial), None
        for i, ring in enumerate(rings):
            terms = self.degree + 1 - (len(rings) - i)
            outer = forced_series(x, gates, forcing, SeriesSettings(self.beta / 2, terms))
            forcing = weighted_rows(outer.flatten(1), ring.linked, ring.weight)
            forcing = forcing.unflatten(1, (terms, self.dim))
            x, gates = gather_rows(x, ring.own), gather_rows(gates, ring.own)
        return x, gates, forcing

    def _integrated_walks(self, initial: Tensor, rings: Sequence[Ring]) -> Tensor:
        tables = [initial]
        for ring in rings:
            tables.append(tables[-1].index_select(0, ring.own))
        moved: Tensor = self(torch.cat(tables), ring_graph(rings, len(initial)))
        return moved[len(moved) - len(tables[-1]) :]

    def _integrate(self, slope: Callable[[Tensor], Tensor], initial: Tensor, at: list[float]) -> list[Tensor]:
        try:
            from torchdiffeq import odeint
        except ImportError as error:
            raise ConfigError(
                f"solver={self.solver!r} needs torchdiffeq; install it with: pip install 'contig[solvers]'."
            ) from error
        later = [s for s in at if s > 0]  # odeint requires strictly ascending points
        points = torch.tensor([0.0, *later], dtype=initial.dtype, device=initial.device)
        fixed = {"options": {"step_size": self.horizon / self.steps, "interp": "cubic"}}
        options = {"rtol": self.tolerance, "atol": self.tolerance} if self.solver == "dopri5" else fixed
        path = odeint(lambda _, x: slope(x), initial, points, method=self.solver, **options)
        return [initial] * (len(at) - len(later)) + list(path[1:])
