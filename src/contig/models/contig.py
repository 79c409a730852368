"""ConTIG: continuous representation learning on temporal interaction graphs.

For node ``v`` asked about at time ``t``, with stored embedding ``h_v`` and latest event
``(v, r_v, tau_v)`` with features ``f``:

1. encoder: ``E_v = W [h_v | h_{r_v} | f | Phi(as_of - tau_v)] + b``;
2. update: ``H = H(T)`` of ``dH/ds = z_l * H(0) + z_n * (A H) - z_i * H``, ``H(0) = E``
   (``contig.layers.ode``), where ``A`` couples every node with its latest partner;
3. transform: attention of ``[H_v | Phi(0)]`` over the last ``k`` events of ``v`` before ``t`` with
   keys ``[H_nbr | f_event | Phi(t - t_event)]``, then ``MLP([attention | H_v])``;
4. a two-layer decoder on the pair.

After a batch of events ``h_v <- H_v`` for its nodes, and each one's latest event is set.

Departures from the paper, each an option: a LayerNorm on ``H(T)`` (as written the recurrence grows
without bound), ``Phi(0)`` instead of ``Phi(t)`` for the query (absolute time does not extrapolate),
one ``as_of`` per batch, and the ``scope`` of ``A``. Node features, where there are any, enter the
encoder beside ``h_v`` instead of being its initial value, so that their width is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from contig.history import History
from contig.layers import GatedODE, PairDecoder, TemporalAttention, TimeEncoding, elapsed
from contig.layers.ode import Coupling, Factor, Solver, latest_graph, pair_graph
from contig.models.contract import DataShape, EventBatch, Model, distinct
from contig.models.state import NodeState
from contig.options import option

Scope = Literal["pair", "batch", "all"]
Part = Literal["transform", "update", "adaptive", "latest", "neighbor", "inherent"]


@dataclass(frozen=True)
class ConTIGOptions:
    """What can be chosen about ConTIG."""

    dim: int = option(172, "width of embeddings; the paper's")
    time_dim: int = option(172, "width of the time encoding; the paper's")
    neighbors: int = option(15, "past events attended to (k); the paper's")
    heads: int = option(2, "attention heads; the paper's")
    horizon: float = option(1.0, "end T of the ODE; the paper's")
    beta: float = option(0.95, "keeps A's spectrum in [0, beta]; the paper's")
    scope: Scope = option("pair", "nodes that A couples: each with its latest partner, a batch's, or all")
    solver: Solver = option(
        "series", "how the ODE is solved; the series is exact to its tolerance and fastest"
    )
    tolerance: float = option(1e-6, "proven relative truncation error of the series; float32's own size")
    state_norm: bool = option(True, "LayerNorm on H(T); without it states grow until they overflow")
    query_time: Literal["zero", "absolute"] = option(
        "zero", "time encoding of the query: Phi(0), or the paper's Phi(t), which does not extrapolate"
    )
    scaled_time: bool = option(False, "divide the time encoding by sqrt(time_dim) as the paper writes")
    dropout: float = option(0.1, "dropout in attention and decoder; the paper's")
    without: tuple[Part, ...] = option((), "parts left out, the paper's ablations, for instance transform")


class Latest(NamedTuple):
    """A node's latest event, each ``[nodes]``."""

    exists: Tensor
    partner: Tensor  # the node itself where there is none
    event: Tensor  # 0 where there is none
    age: Tensor  # float32: as_of minus the event's time, 0 where there is none


class ConTIG(Model):
    """See the module's text."""

    name = "contig"
    options = ConTIGOptions

    def __init__(self, options: ConTIGOptions, data: DataShape) -> None:
        super().__init__()
        o = self.opt = options
        self.edge_width = data.edge_width
        self.phi = TimeEncoding(o.time_dim, scaled=o.scaled_time)
        node_width = 0 if data.node_features is None else data.node_features.shape[1]
        self.node_features: Tensor | None
        self.register_buffer("node_features", data.node_features, persistent=False)
        self.encoder = nn.Linear(2 * o.dim + data.edge_width + o.time_dim + node_width, o.dim)
        dropped: tuple[Factor, ...] = tuple(f for f in ("latest", "neighbor", "inherent") if f in o.without)
        self.ode = GatedODE(
            o.dim,
            horizon=o.horizon,
            beta=o.beta,
            solver=o.solver,
            tolerance=o.tolerance,
            adaptive="adaptive" not in o.without,
            without=dropped,
        )
        self.norm = nn.LayerNorm(o.dim) if o.state_norm else nn.Identity()
        self.attention = TemporalAttention(
            o.dim + o.time_dim,
            (o.dim, data.edge_width, o.time_dim),
            inner=(o.dim + o.time_dim) // o.heads * o.heads,
            heads=o.heads,
            dropout=o.dropout,
        )
        self.merge = nn.Sequential(
            nn.Linear(self.attention.inner + o.dim, o.dim),
            nn.ReLU(),
            nn.Dropout(o.dropout),
            nn.Linear(o.dim, o.dim),
        )
        self.decoder = PairDecoder(o.dim)

    def blank(self) -> Mapping[str, Tensor]:
        return {"h": torch.zeros(self.opt.dim), "last": torch.tensor(-1)}

    @property
    def fixed_shapes(self) -> bool:
        return self.opt.scope != "batch" and self.opt.solver == "series"

    # -- reading ---------------------------------------------------------------------------------

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        if "transform" in self.opt.without:
            unique, place = distinct(nodes, state.num_nodes)
            return self.updated(state, history, unique, as_of).index_select(0, place)
        near = history.before(nodes, times, self.opt.neighbors)
        mentioned = torch.cat([nodes, near.node.flatten()])
        unique, place = distinct(mentioned, state.num_nodes)
        updated = self.updated(state, history, unique, as_of)  # [unique, d]
        own = updated.index_select(0, place[: len(nodes)])
        theirs = updated.index_select(0, place[len(nodes) :]).unflatten(0, near.node.shape)  # [queries, k, d]
        age = elapsed(times.unsqueeze(1), near.time)
        keys = (theirs, self._features(history, near.event), self.phi(age))
        attended = self.attention(torch.cat([own, self._query_time(times)], dim=1), keys, near.mask)
        merged: Tensor = self.merge(torch.cat([attended, own], dim=1))
        return merged

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        logits: Tensor = self.decoder(src, dst)
        return logits

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """``H(T)`` of nodes at ``as_of``: where their states have moved since their latest events."""
        if "update" in self.opt.without:
            normed: Tensor = self.norm(self.encode(state, history, nodes, as_of))
            return normed
        if self.opt.scope == "pair":
            moved = self._updated_in_pairs(state, history, nodes, as_of)
        else:
            members, place = self._members(state, history, nodes, as_of)
            moved = self.ode(*self._graph(state, history, members, as_of)).index_select(0, place)
        result: Tensor = self.norm(moved)
        return result

    def _updated_in_pairs(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        latest = self.latest(state, history, nodes, as_of)
        unique, place = distinct(torch.cat([nodes, latest.partner]), state.num_nodes)
        encoded = self.encode(state, history, unique, as_of).index_select(0, place)
        mine, theirs = encoded[: len(nodes)], encoded[len(nodes) :]
        return self.ode.paired(mine, theirs, latest.exists)

    @torch.no_grad()
    def path(
        self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor, points: int
    ) -> Tensor | None:
        """``H(s)`` for ``s`` from 0 to ``T``: the way inside the last interval, ending at ``updated``."""
        if "update" in self.opt.without:
            return None
        at = torch.linspace(0.0, self.opt.horizon, points).tolist()
        if self.opt.scope == "pair":
            latest = self.latest(state, history, nodes, as_of)
            both = self.encode(state, history, torch.cat([nodes, latest.partner]), as_of)
            steps = self.ode.path(both, pair_graph(latest.exists), at)
            return torch.stack([self.norm(step[: len(nodes)]) for step in steps])
        members, place = self._members(state, history, nodes, as_of)
        steps = self.ode.path(*self._graph(state, history, members, as_of), at)
        return torch.stack([self.norm(step.index_select(0, place)) for step in steps])

    def _members(
        self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The nodes (ascending) that A is taken over, and the place of ``nodes`` among them."""
        if self.opt.scope == "all":
            return torch.arange(state.num_nodes, device=nodes.device), nodes
        partner = self.latest(state, history, nodes, as_of).partner
        members = torch.unique(torch.cat([nodes, partner]))
        return members, torch.searchsorted(members, nodes)

    def _graph(
        self, state: NodeState, history: History, members: Tensor, as_of: Tensor
    ) -> tuple[Tensor, Coupling]:
        """The members' encodings and how their latest events couple them."""
        latest = self.latest(state, history, members, as_of)
        place = torch.searchsorted(members, latest.partner).clamp(max=len(members) - 1)
        inside = latest.exists & (members[place] == latest.partner)
        return self.encode(state, history, members, as_of), latest_graph(place, inside)

    def latest(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Latest:
        """Each node's latest observed event."""
        last = state["last"][nodes]
        exists = last >= 0
        event = last.clamp(min=0)
        columns = history.events
        if not columns.count:
            return Latest(exists, nodes, event, torch.zeros_like(nodes, dtype=torch.float32))
        partner = torch.where(exists, columns["src"][event] + columns["dst"][event] - nodes, nodes)
        age = torch.where(exists, elapsed(as_of, columns["t"][event]), 0.0)
        return Latest(exists, partner, event, age)

    def encode(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """``E``: the encoder on each node's latest event."""
        latest = self.latest(state, history, nodes, as_of)
        real = latest.exists.unsqueeze(1)
        parts = [
            state["h"].index_select(0, nodes),
            state["h"].index_select(0, latest.partner) * real,
            self._features(history, latest.event) * real,
            self.phi(latest.age),
        ]
        if self.node_features is not None:
            known = nodes < len(self.node_features)  # nodes that came later have none
            parts.append(self.node_features[torch.where(known, nodes, 0)] * known.unsqueeze(1))
        encoded: Tensor = self.encoder(torch.cat(parts, dim=1))
        return encoded

    def _features(self, history: History, event: Tensor) -> Tensor:
        if self.edge_width and history.num_events:
            return history.events["features"][event]
        return torch.zeros((*event.shape, self.edge_width), device=event.device)

    def _query_time(self, times: Tensor) -> Tensor:
        when = (
            times.to(torch.float32)
            if self.opt.query_time == "absolute"
            else times.new_zeros(len(times)).float()
        )
        encoded: Tensor = self.phi(when)
        return encoded

    # -- writing ---------------------------------------------------------------------------------

    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        if not len(batch.event):
            return
        mentioned = torch.cat([batch.src, batch.dst])
        nodes, _ = distinct(mentioned, state.num_nodes)
        moved = self.updated(state, history, nodes, batch.t[0])
        state["h"][nodes] = moved  # a node named twice is given the same row twice
        state["last"].scatter_reduce_(0, mentioned, batch.event.repeat(2), "amax")
