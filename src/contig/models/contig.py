"""ConTIG: continuous representation learning on temporal interaction graphs.

For a query about node ``v`` at time ``t``, with stored embedding ``h_v`` and latest event
``(v, r_v, tau_v)`` with features ``f``:

1. encoder: ``E_v = W [h_v | h_{r_v} | f | Phi(as_of - tau_v)] + b``;
2. update: ``H = H(T)`` of ``dH/ds = z_l * H(0) + z_n * (A H) - z_i * H``, ``H(0) = E``
   (``contig.layers.ode``), where ``A`` couples every node with its latest partner;
3. transform: attention of ``[H_v | Phi(0)]`` over the last ``k`` events of ``v`` before ``t`` with
   keys ``[H_nbr | f_event | Phi(t - t_event)]``, then ``MLP([attention | H_v])``. With ``activity`` the
   last coordinate of an embedding is ``log(1 + number of v's events before t)``, which attention over ``k``
   events cannot count;
4. a two-layer decoder on the pair.

``Phi`` encodes ``log(1 + dt / unit)``, where ``unit`` is the median interval between the training events of
a node (``contig.layers.time``).

After a batch of events, ``h_v <- H_v`` for its nodes, and their latest events are updated.

Departures from the paper that are options: a LayerNorm on ``H(T)`` (as published, the recurrence
grows without bound), ``Phi(0)`` instead of ``Phi(t)`` for the query (``Phi`` is never trained on
the absolute times of the test), the logarithm and the unit in ``Phi`` (the paper encodes ``dt`` itself),
frequencies trained by their logarithm, ``Phi`` not divided by ``sqrt(time_dim)``, and the ``scope`` of ``A``.
Departures that are not: one ``as_of`` per batch, the time of its first event; node features enter the encoder
next to ``h_v`` instead of being its initial value, so that their width is free. All of them are listed in
``docs/results/departures.md``.

``scope="all"`` is the paper's ``A``, whose cost grows with the number of nodes. ``near`` approximates it
at a cost that does not: exact degrees, the links of a node to its latest partner and from nodes whose
latest partner it is (``contig.models.bases.links``), and walks of at most ``hops`` such links. What it
leaves out is damped: walks of ``n`` links have a factor of at most ``(beta T / 2)^n / n!``. ``pair`` couples
a node with its latest partner as if they had no other links. ``auto``, the default, is ``all`` on graphs of
moderate size where ``near`` would find few of the links, because a few nodes are the latest partner of many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from contig.errors import ConfigError
from contig.history import History
from contig.layers import GatedODE, SplitLinear
from contig.layers.ode import Coupling, Factor, Ring, Solver, latest_graph
from contig.layers.time import Frequencies, TimeInput
from contig.layers.unique import distinct, packed
from contig.models.bases.events import AttentionReadout, frequencies_option, time_encoding_option
from contig.models.bases.links import count_namers, foreseen_links, links_of, share_of_links_found
from contig.models.bases.memory import AttentiveMemory
from contig.models.contract import DataShape, EventBatch, Pairs
from contig.models.state import NodeState
from contig.options import option

Scope = Literal["auto", "near", "pair", "batch", "all"]
MAX_NODES_OF_ALL = 20_000  # with which scope=auto may choose all
FEW_LINKS = 0.25  # a smaller share of the links of A is too few for scope=near
Part = Literal["transform", "update", "adaptive", "latest", "neighbor", "inherent"]


@dataclass(frozen=True)
class ConTIGOptions:
    """Options of ConTIG."""

    dim: int = option(172, "width of embeddings; the paper's", low=1)
    time_dim: int = option(172, "width of the time encoding; the paper's", low=1)
    neighbors: int = option(15, "past events in the attention (k); the paper's", low=1)
    heads: int = option(2, "attention heads; the paper's", low=1)
    horizon: float = option(1.0, "end T of the ODE; the paper's", above=0)
    beta: float = option(0.95, "upper bound of the spectrum of A; the paper's", above=0, below=1)
    scope: Scope = option(
        "auto",
        "links of A: near (within hops of a node), pair (with its latest partner alone), batch (between the "
        "nodes of a batch), all (the paper's; the cost grows with the number of nodes), auto (near, or all "
        "where near would find few of the links and there are not too many nodes)",
    )
    hops: int = option(1, "links that scope=near follows from a node", low=1)
    namers: int = option(
        32, "latest events of a node in which scope=near looks for nodes whose latest partner it is", low=1
    )
    solver: Solver = option("series", "ODE solver; the series is exact to its tolerance and the fastest")
    tolerance: float = option(1e-6, "bound on the relative truncation error of the series; float32 precision")
    state_norm: bool = option(True, "LayerNorm on H(T); without it states grow and training may diverge")
    query_time: Literal["zero", "absolute"] = option(
        "zero", "time encoding of the query: Phi(0), or the paper's Phi(t), which does not generalize"
    )
    time_encoding: TimeInput = time_encoding_option()
    frequencies: Frequencies = frequencies_option()
    scaled_time: bool = option(False, "divide the time encoding by sqrt(time_dim), as the paper does")
    activity: bool = option(False, "use one coordinate of the embedding for log(1 + number of past events)")
    dropout: float = option(0.1, "dropout in attention and readout; the paper's", low=0, below=1)
    without: tuple[Part, ...] = option(
        (), "parts to leave out (the paper's ablations), for instance transform"
    )


class ConTIG(AttentiveMemory):
    """ConTIG: node states that move by an ODE between events, read by attention over past events."""

    name = "contig"
    options = ConTIGOptions

    def __init__(self, options: ConTIGOptions, data: DataShape) -> None:
        o = self.opt = options
        if o.activity and o.dim == 1:
            raise ConfigError(
                "dim=1: activity=true takes one coordinate of the embedding; use dim=2 or more."
            )
        super().__init__(
            o.dim,
            o.time_dim,
            data,
            time_encoding=o.time_encoding,
            frequencies=o.frequencies,
            scaled_time=o.scaled_time,
        )
        self.neighbors = o.neighbors
        self.encoder = SplitLinear(2 * o.dim + data.edge_width + o.time_dim + self.node_width, o.dim)
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
        self.scope = "near" if o.scope == "auto" else o.scope  # auto that no training events have settled
        if self.scope == "near":
            self.ode.check_walks(o.hops)
        self.fixed_shapes = self.scope != "batch" and o.solver == "series"
        self.follows_links = self.scope == "near" and o.hops == 1 and "update" not in o.without
        # An adaptive solver takes the same steps for all rows of a call.
        self.independent_rows = "update" in o.without or (
            self.scope in ("near", "pair") and o.solver == "series"
        )
        if self.scope in ("batch", "all"):  # all nodes of a call, or of the graph, are computed together
            self.embedded_at_once = None
        self.norm = nn.LayerNorm(o.dim) if o.state_norm else nn.Identity()
        self.readout = AttentionReadout(o.dim, o.time_dim, data.edge_width, heads=o.heads, dropout=o.dropout)

    @classmethod
    def settled(cls, options: ConTIGOptions, training_events: Callable[[], Pairs]) -> ConTIGOptions:
        if options.scope != "auto":
            return options
        src, dst = training_events()
        seen = np.zeros(1 + max(int(ends.max()) if len(ends) else 0 for ends in (src, dst)), dtype=bool)
        seen[src] = seen[dst] = True
        small = np.count_nonzero(seen) <= MAX_NODES_OF_ALL
        exact = small and share_of_links_found(src, dst, options.namers) < FEW_LINKS
        return replace(options, scope="all" if exact else "near")

    def blank(self) -> Mapping[str, Tensor]:
        if self.scope != "near":
            return super().blank()
        return {**super().blank(), "named": torch.tensor(0)}  # how many others have it as latest partner

    def nodes_read(self, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        if "transform" in self.opt.without:
            return nodes.unsqueeze(1)
        return super().nodes_read(history, nodes, times)

    def nodes_linked(
        self, state: NodeState | None, history: History, nodes: Tensor, as_of: Tensor, since: int
    ) -> Tensor:
        """Return the nodes ``[nodes, n]`` that these will be linked to (for ``contig.streaming.packing``)."""
        return foreseen_links(state, history, nodes, as_of, since, self.opt.namers)

    # -- reading ---------------------------------------------------------------------------------

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        if "transform" in self.opt.without:  # no neighbors are read
            unique, place = packed(nodes, state.num_nodes, state.room.read, fixed_shapes=self.fixed_shapes)
            embedded = self.read_updated(state, history, unique, as_of).index_select(0, place)
        else:
            embedded = super().embed(state, history, nodes, times, as_of)
        if not self.opt.activity:
            return embedded
        activity = torch.log1p(history.count_before(nodes, times).to(embedded.dtype))
        return torch.cat([embedded[:, :-1], activity.unsqueeze(1)], dim=1)

    def query_time(self, times: Tensor) -> Tensor:
        if self.opt.query_time == "zero":
            return super().query_time(times)
        encoded: Tensor = self.phi(self.elapsed.since_start(times))
        return encoded

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Return ``H(T)`` at ``as_of``: the nodes' states as they have moved since their latest events."""
        if "update" in self.opt.without:
            normed: Tensor = self.norm(self.encode(state, history, nodes, as_of))
            return normed
        if self.scope == "pair":
            moved = self._updated_in_pairs(state, history, nodes, as_of)
        elif self.scope == "near":
            members, rings = self._rings(state, history, nodes, as_of)
            moved = self.ode.along_walks(self.encode(state, history, members, as_of), rings)
        else:
            members, place = self._members(state, history, nodes)
            moved = self.ode(*self._graph(state, history, members, as_of)).index_select(0, place)
        result: Tensor = self.norm(moved)
        return result

    def grouping_key(self, state: NodeState, history: History, nodes: Tensor) -> Tensor:
        """Return the larger of a node and its partner, so that linked nodes mostly have equal numbers."""
        return torch.maximum(nodes, self.latest(state, history, nodes).partner)

    def _updated_in_pairs(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        latest = self.latest(state, history, nodes)
        unique, place = distinct(torch.cat([nodes, latest.partner]), state.num_nodes)
        encoded = self.encode(state, history, unique, as_of)
        return self.ode.paired(encoded, place[: len(nodes)], place[len(nodes) :], latest.exists)

    def _rings(
        self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor
    ) -> tuple[Tensor, list[Ring]]:
        """Return all nodes within ``hops`` links, and the rings that lead from them to ``nodes``."""
        rings: list[Ring] = []
        room = state.room.linked if self.follows_links else None  # which includes the nodes themselves
        for _ in range(self.opt.hops):
            links = links_of(self, state, history, nodes, as_of, self.opt.namers)
            ids = torch.cat([nodes, links.node.flatten()])
            members, place = packed(ids, state.num_nodes, room, fixed_shapes=self.fixed_shapes)
            own, linked = place.split([len(nodes), links.node.numel()])
            rings.insert(0, Ring(own, linked.view_as(links.node), links.weight))
            nodes = members
        return nodes, rings

    def _members(self, state: NodeState, history: History, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nodes (ascending) that ``A`` couples, and the positions of ``nodes`` among them."""
        if self.scope == "all":
            return torch.arange(state.num_nodes, device=nodes.device), nodes
        partner = self.latest(state, history, nodes).partner
        members = torch.unique(torch.cat([nodes, partner]))
        return members, torch.searchsorted(members, nodes)

    def _graph(
        self, state: NodeState, history: History, members: Tensor, as_of: Tensor
    ) -> tuple[Tensor, Coupling]:
        """Return the members' encodings and their coupling by latest events."""
        latest = self.latest(state, history, members)
        place = torch.searchsorted(members, latest.partner).clamp(max=len(members) - 1)
        inside = latest.exists & (members[place] == latest.partner)
        return self.encode(state, history, members, as_of), latest_graph(place, inside)

    def encode(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        """Return ``E``, the encoding of each node's latest event."""
        latest = self.latest(state, history, nodes)
        real = latest.exists.unsqueeze(1)
        age = torch.where(latest.exists, self.elapsed(as_of, latest.time), 0.0)
        parts = [
            state["h"].index_select(0, nodes),
            state["h"].index_select(0, latest.partner) * real,
            self.event_features(history, latest.event) * real,
            self.phi(age),
            self.features_of(nodes),
        ]
        encoded: Tensor = self.encoder(*parts)
        return encoded

    # -- observing -------------------------------------------------------------------------------

    def nodes_observed(self, state: NodeState, history: History, batch: EventBatch) -> Tensor:
        ends = super().nodes_observed(state, history, batch)
        if self.scope != "near":
            return ends
        return torch.cat([ends, self.latest(state, history, ends).partner])  # they lose a namer

    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        if self.scope != "near" or not len(batch.event):
            super().observe(state, history, batch)
            return
        ends = torch.cat([batch.src, batch.dst])
        before = self.latest(state, history, ends)
        super().observe(state, history, batch)
        count_namers(state, batch, before, self.latest(state, history, ends))
