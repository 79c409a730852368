"""DyRep: representations over dynamic graphs (Trivedi et al., 2019).

A recurrent cell takes the latest event in, ``h_v <- RNN([z_u | f | Phi(n - n')], h_v)``, where the
partner ``u`` speaks through attention over its own neighbourhood just before the event,
``z_u = attention([h_u | Phi(0)] over [h_nbr | f | Phi(n - n_nbr)])``; the embedding is the vector itself.
``n`` are the numbers of events in the stream.

Departures: trained by link prediction like every model here instead of a point process, as the TGN
paper's own comparison does; the attention is the one the other models use, over the last ``k`` events,
instead of intensities over all neighbours; no dropout, since what is observed must not depend on luck.
Intervals are counted in events of the whole stream, and ``Phi`` are waves of their logarithm, where the
paper adds a linear drive of the elapsed days, hours, minutes and seconds: see ``PacedMemory``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contig.history import History
from contig.kernels.gather import LazyRows
from contig.layers import SplitRNNCell, elapsed
from contig.layers.unique import distinct
from contig.models.bases.events import AttentionReadout
from contig.models.bases.memory import Latest, PacedMemory
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class DyRepOptions:
    """What can be chosen about DyRep."""

    dim: int = option(172, "width of embeddings; as for the other models", low=1)
    time_dim: int = option(172, "width of the time encoding; as for the other models", low=1)
    neighbors: int = option(10, "past events of the partner attended to; as for TGN", low=1)
    heads: int = option(2, "attention heads; as for TGN", low=1)


class DyRep(PacedMemory):
    """See the module's text."""

    name = "dyrep"
    options = DyRepOptions

    def __init__(self, options: DyRepOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data)
        self.cell = SplitRNNCell(o.dim + data.edge_width + o.time_dim + self.node_width, o.dim)
        self.structure = AttentionReadout(o.dim, o.time_dim, data.edge_width, heads=o.heads, dropout=0.0)

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        latest = self.latest(state, history, nodes)
        vector = state["h"].index_select(0, nodes)
        said = self._structural(state, history, latest)
        message = self.message(state, history, nodes, latest, said)
        return torch.where(latest.exists.unsqueeze(1), self.cell(message, vector), vector)

    def _structural(self, state: NodeState, history: History, latest: Latest) -> Tensor:
        """Attention of the partners over their neighbourhoods just before the latest events."""
        near = history.before(latest.partner, latest.time, self.opt.neighbors)
        ages = self.phi(elapsed(latest.event.unsqueeze(1), near.event))
        own = state["h"].index_select(0, latest.partner)
        features = self.feature_rows(history, near.event)
        theirs = LazyRows(state["h"], near.node)
        spoken: Tensor = self.structure(own, self.time_now(), theirs, features, ages, near.mask)
        return spoken

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        unique, place = distinct(nodes, state.num_nodes)
        return self.updated(state, history, unique, as_of).index_select(0, place)
