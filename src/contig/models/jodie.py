"""JODIE: coupled recurrent embeddings with projection.

Kumar et al., "Predicting dynamic embedding trajectory in temporal interaction networks" (2019).

Two recurrent cells, one for sources and one for destinations, apply the latest event,
``h_v <- RNN([h_u | f | Phi(n - n')], h_v)``, where ``n`` is the position of an event in the stream.
The embedding is projected to the query's time, ``(1 + w * dt) * h_v``, where ``dt`` is the time
since the node's latest event.

Departures from the paper: trained by link prediction instead of regression of the next item's
embedding; no one-hot identity is appended, so that new nodes work; ``dt`` enters the projection as
``log(1 + dt)``, in units of the training events (``contig.layers.Elapsed``); the interval in the message
is counted in events of the whole stream unless ``intervals=time`` (see ``PacedMemory``), and ``Phi``
encodes its logarithm; a node uses the cell of the side it was on in its latest event, so that streams
need not be bipartite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from contig.history import History
from contig.layers import SplitRNNCell
from contig.layers.unique import distinct
from contig.models.bases.memory import Intervals, PacedMemory
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class JODIEOptions:
    """Options of JODIE."""

    dim: int = option(172, "width of embeddings; as for the other models", low=1)
    time_dim: int = option(172, "width of the time encoding; as for the other models", low=1)
    intervals: Intervals = option(
        "events", "unit of the intervals between events: events of the whole stream, or the paper's time"
    )


class JODIE(PacedMemory):
    """JODIE: two coupled recurrent memories, projected to the query's time."""

    name = "jodie"
    options = JODIEOptions
    cheap_rows = True
    # as good as 3e-4 on the validation events of collegemsg (84.8 and 85.0), in half the epochs
    training_defaults: ClassVar[Mapping[str, Any]] = {"lr": 1e-3}

    def __init__(self, options: JODIEOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data, o.intervals)
        width = o.dim + data.edge_width + o.time_dim + self.node_width
        self.source_cell = SplitRNNCell(width, o.dim)
        self.destination_cell = SplitRNNCell(width, o.dim)
        self.projection = nn.Linear(1, o.dim)  # w, and an offset as in the authors' code
        nn.init.normal_(self.projection.weight, std=0.1)
        nn.init.zeros_(self.projection.bias)

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        latest = self.latest(state, history, nodes)
        vector = state["h"].index_select(0, nodes)
        partner = state["h"].index_select(0, latest.partner)
        message = self.message(state, history, nodes, latest, partner)
        was_source = torch.zeros_like(latest.exists)
        if history.num_events:
            was_source = history.events["src"][latest.event] == nodes
        moved = torch.where(
            was_source.unsqueeze(1), self.source_cell(message, vector), self.destination_cell(message, vector)
        )
        return torch.where(latest.exists.unsqueeze(1), moved, vector)

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        unique, place = distinct(nodes, state.num_nodes)
        vector = self.read_updated(state, history, unique, as_of).index_select(0, place)
        latest = self.latest(state, history, nodes)
        age = torch.where(latest.exists, self.elapsed(times, latest.time), 0.0)
        projected: Tensor = vector * (1 + self.projection(torch.log1p(age).unsqueeze(1)))
        return projected
