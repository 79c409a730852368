"""DyRep: representations over dynamic graphs.

Trivedi et al., "DyRep: learning representations over dynamic graphs" (2019).

A recurrent cell applies the latest event, ``h_v <- RNN([z_u | f | Phi(n - n')], h_v)``. The partner
``u`` enters through attention over its own neighborhood just before the event,
``z_u = attention([h_u | Phi(0)] over [h_nbr | f | Phi(n - n_nbr)])``. The embedding is the vector
itself; ``n`` is the position of an event in the stream.

Departures from the paper: trained by link prediction instead of a point process, as in the
comparison of the TGN paper; the attention of the other models, over the last ``k`` events, replaces
intensities over all neighbors; no dropout, because states must not be random. Intervals are counted
in events of the whole stream unless ``intervals=time`` (see ``PacedMemory``), and ``Phi`` encodes their
logarithm, where the paper adds a linear term of the elapsed days, hours, minutes and seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contig.history import History
from contig.kernels.gather import LazyRows
from contig.layers import SplitRNNCell
from contig.layers.unique import distinct
from contig.models.bases.events import AttentionReadout
from contig.models.bases.memory import Intervals, Latest, PacedMemory
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class DyRepOptions:
    """Options of DyRep."""

    dim: int = option(172, "width of embeddings; as for the other models", low=1)
    time_dim: int = option(172, "width of the time encoding; as for the other models", low=1)
    neighbors: int = option(10, "past events of the partner in the attention; as for TGN", low=1)
    heads: int = option(2, "attention heads; as for TGN", low=1)
    intervals: Intervals = option(
        "events", "unit of the intervals between events: events of the whole stream, or the paper's time"
    )


class DyRep(PacedMemory):
    """DyRep: a recurrent memory whose messages attend to the partner's neighborhood."""

    name = "dyrep"
    options = DyRepOptions

    def __init__(self, options: DyRepOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data, o.intervals)
        self.cell = SplitRNNCell(o.dim + data.edge_width + o.time_dim + self.node_width, o.dim)
        self.structure = AttentionReadout(o.dim, o.time_dim, data.edge_width, heads=o.heads, dropout=0.0)

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        latest = self.latest(state, history, nodes)
        vector = state["h"].index_select(0, nodes)
        structural = self._structural(state, history, latest)
        message = self.message(state, history, nodes, latest, structural)
        return torch.where(latest.exists.unsqueeze(1), self.cell(message, vector), vector)

    def _structural(self, state: NodeState, history: History, latest: Latest) -> Tensor:
        """Attend from the partners to their neighborhoods just before the latest events."""
        near = history.before(latest.partner, latest.time, self.opt.neighbors)
        if self.counts_events:
            ages = (latest.event.unsqueeze(1) - near.event).float()
        else:
            ages = self.elapsed(latest.time.unsqueeze(1), near.time)
        own = state["h"].index_select(0, latest.partner)
        features = self.feature_rows(history, near.event)
        theirs = LazyRows(state["h"], near.node)
        attended: Tensor = self.structure(own, self.time_now(), theirs, features, self.phi(ages), near.mask)
        return attended

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        unique, place = distinct(nodes, state.num_nodes)
        return self.read_updated(state, history, unique, as_of).index_select(0, place)
