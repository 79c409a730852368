"""TGN: temporal graph networks.

Rossi et al., "Temporal graph networks for deep learning on dynamic graphs" (2020).

A GRU applies the latest event of a node to its memory, ``s_v <- GRU(m_v, s_v)``, with the message
``m_v = [s_v | s_u | f | Phi(t - t')]``, where ``t'`` is the time of the last event that the memory
contains. Of several events in one batch only the last is applied. The embedding is attention of
``[s_v | Phi(0)]`` over the last ``k`` events with keys ``[s_nbr | f | Phi(t - t_event)]``.

Departures from the paper: the message reads the partner's memory when it is applied, not a copy from when
it was created; the interval is 0 at a node's first event, not the absolute time; ``Phi`` encodes the
logarithm of an interval, in units of the training events, its frequencies are trained by their logarithms
(``contig.layers.time``; ``time_encoding=raw`` and ``frequencies=direct`` switch back), and it has
``time_dim / 2`` of them without phases; node features enter the message; key and value projections are
folded into the query.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contig.history import History
from contig.layers import SplitGRUCell
from contig.layers.time import Frequencies, TimeInput
from contig.models.bases.events import AttentionReadout, frequencies_option, time_encoding_option
from contig.models.bases.memory import AttentiveMemory, RecurrentMemory
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class TGNOptions:
    """Options of TGN."""

    dim: int = option(172, "width of memory and embeddings; the paper's", low=1)
    time_dim: int = option(172, "width of the time encoding; as wide as the memory", low=1)
    neighbors: int = option(10, "past events in the attention (k); the paper's", low=1)
    heads: int = option(2, "attention heads; the paper's", low=1)
    time_encoding: TimeInput = time_encoding_option()
    frequencies: Frequencies = frequencies_option()
    dropout: float = option(0.1, "dropout in attention and readout; the paper's", low=0, below=1)


class TGN(AttentiveMemory, RecurrentMemory):
    """TGN: a GRU memory, read by attention over a node's past events."""

    name = "tgn"
    options = TGNOptions

    def __init__(self, options: TGNOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data, time_encoding=o.time_encoding, frequencies=o.frequencies)
        self.neighbors = o.neighbors
        self.cell = SplitGRUCell(2 * o.dim + data.edge_width + o.time_dim + self.node_width, o.dim)
        self.readout = AttentionReadout(o.dim, o.time_dim, data.edge_width, heads=o.heads, dropout=o.dropout)

    def updated(self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor) -> Tensor:
        latest = self.latest(state, history, nodes)
        memory = state["h"].index_select(0, nodes)
        partner = state["h"].index_select(0, latest.partner)
        message = self.message(state, history, nodes, latest, memory, partner)
        return torch.where(latest.exists.unsqueeze(1), self.cell(message, memory), memory)
