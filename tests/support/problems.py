"""Small streams and graphs with known answers, and small models to try on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import expm
from torch import Tensor

from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.errors import ConfigError
from contig.history import History
from contig.layers import Coupling
from contig.layers.ode import Gates
from contig.models import MODELS, DataShape, EventBatch, Model, NodeState, model_class
from contig.options import set_options
from contig.streaming.schedule import schedule

torch.set_num_threads(1)  # on tensors this small, threads only wait for one another

Floats = NDArray[np.float64]
Event = tuple[int, int, float]

# -- streams ------------------------------------------------------------------------------------------


def stream_of(
    events: Sequence[Event],
    num_nodes: int,
    *,
    features: Floats | None = None,
    float_times: bool = False,
) -> EventStream:
    """A stream with these very node ids; ``from_arrays`` would number the nodes anew."""
    src, dst, t = (np.array([e[i] for e in events]) for i in range(3))
    return EventStream(
        src=src.astype(np.int64),
        dst=dst.astype(np.int64),
        t=t.astype(np.float64 if float_times else np.int64),
        ids=NodeIds(np.arange(num_nodes)),
        edge_features=None if features is None else features.astype(np.float32),
    )


def random_stream(
    seed: int, *, events: int = 40, num_nodes: int = 9, edge_width: int = 3, start: int = 0
) -> EventStream:
    """Random meetings, about every second one at the time of the one before, some of a node with itself."""
    rng = np.random.default_rng(seed)
    return EventStream(
        src=rng.integers(0, num_nodes, events),
        dst=rng.integers(0, num_nodes, events),
        t=start + np.cumsum(rng.integers(0, 5, events) * rng.integers(0, 2, events)),
        ids=NodeIds(np.arange(num_nodes)),
        edge_features=rng.normal(size=(events, edge_width)).astype(np.float32) if edge_width else None,
    )


def with_events(stream: EventStream, order: NDArray[np.int64]) -> EventStream:
    """The stream made of these rows, in this order."""
    features = stream.edge_features
    return replace(
        stream,
        src=stream.src[order],
        dst=stream.dst[order],
        t=stream.t[order],
        edge_features=None if features is None else features[order],
    )


def shape_of(stream: EventStream) -> DataShape:
    return DataShape(stream.edge_width, None, stream.num_nodes)


# -- models -------------------------------------------------------------------------------------------

TINY = {"dim": 6, "hidden": 5, "time_dim": 4, "neighbors": 3, "heads": 2, "refresh": 3}

# Every registered model, and every choice that changes how a model reads the past.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in MODELS},
    "contig-all": ("contig", {"scope": "all"}),
    "contig-batch": ("contig", {"scope": "batch"}),
    "contig-activity": ("contig", {"activity": True}),
    "contig-without-transform": ("contig", {"without": "transform", "scope": "all"}),
    "tgat-two-layers": ("tgat", {"layers": 2}),
    "tgat-identity": ("tgat", {"identity": 5}),
    "edgebank-window": ("edgebank", {"window": 7.5}),
    "popularity-window": ("popularity", {"window": 7.5}),
}
# an embedding knows the past up to the batch: through states alone, or a graph that is renewed now and then
UP_TO_THE_BATCH = {"contig-without-transform", "jodie", "dyrep", "gae", "vgae"}
FROZEN = {"ctdne"}  # vectors are weights: events after training make none
TELLS_APART = {"tgat-identity"}  # nodes that nothing has happened to
COUPLED = {"contig-batch"}  # the queries of one call share a graph, so they answer for one another


def tiny(name: str, data: DataShape, seed: int = 0, **settings: Any) -> Model:
    """A registered model at a size for tests, in evaluation mode, with weights of that seed."""
    kind = model_class(name)
    known = {f.name for f in fields(kind.options)}
    options = set_options(kind.options(), {k: v for k, v in TINY.items() if k in known} | settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(options, data).eval()  # type: ignore[call-arg]


def case(name: str, data: DataShape) -> Model:
    kind, settings = CASES[name]
    return tiny(kind, data, **settings)


def embeds(model: Model) -> bool:
    """Whether a model has embeddings at all: a rule may score pairs alone."""
    node = torch.tensor([0])
    try:
        model.embed(model.new_state(1), History.empty(1), node, node.double(), node[0].double())
    except ConfigError:
        return False
    return True


def batch_of(history: History, start: int, stop: int) -> EventBatch:
    return EventBatch.of(history, torch.arange(start, stop))


def run_over(model: Model, stream: EventStream, batch_size: int) -> tuple[NodeState, History]:
    """State and history after the model has observed the whole stream."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    for step in schedule(stream.t, batch_size):
        model.observe(state, history, batch_of(history, step.observe_from, step.observe_to))
    return state, history


def query_times(history: History, count: int) -> tuple[Tensor, Tensor]:
    """``count`` times some while after the stream, and the first of them as the states' time."""
    times = history.events["t"][-1] + 1 + torch.arange(count) // 2
    return times, times[0]


def snapshot(state: NodeState) -> dict[str, Tensor]:
    return {name: rows.clone() for name, rows in state.rows.items()}


# -- graphs and the linear system on them ---------------------------------------------------------------


def dense(coupling: Coupling, rows: int) -> Floats:
    """The matrix that ``coupling.spread`` multiplies with."""
    matrix = np.zeros((rows, rows))
    edges = (coupling.row.numpy(), coupling.col.numpy())
    np.add.at(matrix, edges, coupling.weight.double().numpy())
    return matrix


def dense_latest(partner: Sequence[int | None]) -> Floats:
    """``D^-1/2 S D^-1/2`` of the set of pairs ``{v, partner[v]}``, written out."""
    n = len(partner)
    adjacency = np.zeros((n, n))
    for pair in {frozenset((v, r)) for v, r in enumerate(partner) if r is not None}:
        a, b = (*pair, *pair)[:2]
        adjacency[a, b] = adjacency[b, a] = 1
    degree = adjacency.sum(axis=1)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(n), where=degree > 0)
    return scale[:, None] * adjacency * scale[None, :]


def random_partners(rng: np.random.Generator, n: int, share: float = 0.8) -> list[int | None]:
    """Latest partners as they come: some rows without one, some their own, some mutual."""
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
