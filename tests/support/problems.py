"""Small streams and models for tests of several packages, and graphs with known solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import expm
from torch import Tensor

from contig.layers import Coupling
from contig.layers.ode import Gates
from contig.models import MODELS, DataShape, Model, model_class
from contig.testing import ModelCase
from contig.testing.cases import batch_of, embeds, query_times, run_over, shape_of, snapshot
from contig.testing.streams import Event, random_stream, stream_of, with_events

torch.set_num_threads(1)  # on tensors this small, more threads are slower

Floats = NDArray[np.float64]

__all__ = [  # what comes from contig.testing is used by tests of every package
    "CASES",
    "COUPLED",
    "TELLS_APART",
    "UP_TO_THE_BATCH",
    "Event",
    "Floats",
    "batch_of",
    "case",
    "dense",
    "dense_latest",
    "embeds",
    "flow",
    "partner_tensors",
    "query_times",
    "random_partners",
    "random_stream",
    "run_over",
    "shape_of",
    "snapshot",
    "stream_of",
    "tiny",
    "with_events",
]

# -- models -------------------------------------------------------------------------------------------

TINY = {
    "dim": 6,
    "hidden": 5,
    "time_dim": 4,
    "neighbors": 3,
    "heads": 2,
    "refresh": 3,
    "walks": 2,
    "length": 5,
    "passes": 1,
    "tokens": 3,
    "channel_dim": 3,
    "sequence": 4,
    "sketch_dim": 5,
    "width": 9,
}


def tiny_case(model: str, settings: dict[str, Any] | None = None, **departures: bool) -> ModelCase:
    """A built-in model at a size for tests."""
    known = {f.name for f in fields(model_class(model).options)}
    sizes = {key: value for key, value in TINY.items() if key in known}
    return ModelCase(model, sizes | (settings or {}), **departures)


PAIR_MODELS = ("contig-pair", "dygformer", "tpnet")  # score a pair by more than two embeddings

# Every built-in model, and every option that changes how a model reads the past.
CASES: dict[str, ModelCase] = {
    **{
        name: tiny_case(
            name, frozen=name == "ctdne", own_link=name in PAIR_MODELS, identifies_nodes=name == "tpnet"
        )
        for name in MODELS
    },
    "contig-all": tiny_case("contig", {"scope": "all"}),
    "contig-scope-pair": tiny_case("contig", {"scope": "pair"}),
    "contig-pair-joined": tiny_case("contig-pair", {"embedding": "joined"}, own_link=True),
    "contig-two-hops": tiny_case("contig", {"hops": 2, "namers": 2}),
    "contig-batch": tiny_case("contig", {"scope": "batch"}, joint_queries=True),
    "contig-activity": tiny_case("contig", {"activity": True}),
    "contig-without-transform": tiny_case("contig", {"without": "transform", "scope": "all"}),
    "tgat-one-layer": tiny_case("tgat", {"layers": 1}),
    "dygformer-patches": tiny_case("dygformer", {"sequence": 6, "patch": 2}, own_link=True),
    "tgat-identity": tiny_case("tgat", {"identity": 5}, identifies_nodes=True),
    "edgebank-window": tiny_case("edgebank", {"window": 7.5}),
    "popularity-window": tiny_case("popularity", {"window": 7.5}),
}
# An embedding knows the past only up to the batch: through states, or a graph that is rebuilt now and then.
UP_TO_THE_BATCH = {"contig-without-transform", "jodie", "dyrep", "gae", "vgae"}
TELLS_APART = {name for name, one in CASES.items() if one.identifies_nodes}
COUPLED = {name for name, one in CASES.items() if one.joint_queries}


def tiny(name: str, data: DataShape, seed: int = 0, **settings: Any) -> Model:
    """Build a built-in model at a size for tests, in evaluation mode, with weights of that seed."""
    return tiny_case(name, settings).build(data, seed)


def case(name: str, data: DataShape) -> Model:
    """Build the model of a case."""
    return CASES[name].build(data)


# -- graphs and the linear system on them ---------------------------------------------------------------


def dense(coupling: Coupling, rows: int) -> Floats:
    """The matrix by which ``coupling.spread`` multiplies."""
    matrix = np.zeros((rows, rows))
    edges = (coupling.row.numpy(), coupling.col.numpy())
    np.add.at(matrix, edges, coupling.weight.double().numpy())
    return matrix


def dense_latest(partner: Sequence[int | None]) -> Floats:
    """``D^-1/2 S D^-1/2`` of the set of pairs ``{v, partner[v]}``, in a plain loop."""
    n = len(partner)
    adjacency = np.zeros((n, n))
    for pair in {frozenset((v, r)) for v, r in enumerate(partner) if r is not None}:
        a, b = (*pair, *pair)[:2]
        adjacency[a, b] = adjacency[b, a] = 1
    degree = adjacency.sum(axis=1)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(n), where=degree > 0)
    return scale[:, None] * adjacency * scale[None, :]


def random_partners(rng: np.random.Generator, n: int, share: float = 0.8) -> list[int | None]:
    """Random latest partners: some rows without one, some their own, some mutual."""
    partner: list[int | None] = [int(rng.integers(0, n)) if rng.random() < share else None for _ in range(n)]
    partner[1], partner[2] = 2, 1
    return partner


def partner_tensors(partner: Sequence[int | None]) -> tuple[Tensor, Tensor]:
    known = torch.tensor([p is not None for p in partner])
    return torch.tensor([0 if p is None else p for p in partner]), known


def flow(gates: Gates, adjacency: Floats, beta: float, initial: Tensor, s: float) -> Tensor:
    """``H(s)`` by the matrix exponential of the whole system with its constant term, dimension by dimension.

    ``[x, 1]`` moves linearly: its matrix is ``[[M, z_l * x0], [0, 0]]``.
    """
    n, dim = initial.shape
    coupling = beta / 2 * (np.eye(n) + adjacency)
    latest, neighbor, inherent = (
        g.detach().double().numpy() for g in (gates.latest, gates.neighbor, gates.inherent)
    )
    start = initial.detach().double().numpy()
    moved = np.empty((n, dim))
    for d in range(dim):
        system = np.zeros((n + 1, n + 1))
        system[:n, :n] = neighbor[:, d, None] * coupling - np.diag(inherent[:, d])
        system[:n, n] = latest[:, d] * start[:, d]
        moved[:, d] = (expm(s * system) @ np.append(start[:, d], 1.0))[:n]
    return torch.from_numpy(moved)
