"""GraphMixer: an MLP-mixer over a node's most recent events.

Cong et al., "Do we really need complicated model architectures for temporal networks?" (2023).

There is neither memory nor attention. The embedding of ``v`` at ``t`` is ``W [m_v | n_v]``:

- the link encoder ``m_v``: a token for each of the last ``k`` events before ``t``, a projection of
  ``[f | Phi(t - t_event)]``, or of zeros where there are fewer events. The frequencies of ``Phi`` are fixed
  (``contig.layers.time.FixedTimeEncoding``). Tokens pass through a mixer (``contig.layers.mixer``) and are
  averaged;
- the node encoder ``n_v``: the node's features plus the mean features of its recent partners. It is empty if
  nodes have no features.

Departures from the paper: the unit of intervals is not that of the stream but the 2nd percentile of those
between a node's training events, so that the fastest wave tells the shortest intervals of any stream apart;
the node encoder reads at most ``gap_events`` events, since shapes are fixed. Widths are those of DyGLib.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from contig.history import History
from contig.layers import Elapsed, FixedTimeEncoding, MixerLayer
from contig.models.bases.events import EventModel
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option

UNIT = 2  # percentile of the intervals of a node


@dataclass(frozen=True)
class GraphMixerOptions:
    """Options of GraphMixer."""

    dim: int = option(172, "width of tokens and embeddings; DyGLib's", low=1)
    time_dim: int = option(100, "width of the time encoding; the paper's", low=1)
    layers: int = option(2, "layers of the mixer; DyGLib's", low=1)
    neighbors: int = option(20, "past events of a node that are mixed (k); DyGLib's on most streams", low=1)
    dropout: float = option(0.1, "dropout in the mixer; DyGLib has up to 0.5", low=0, below=1)
    gap: float | None = option(
        None,
        "age up to which partners count in the node encoder, in the stream's time unit; unlimited by default",
        above=0,
        below=math.inf,
    )
    gap_events: int = option(100, "past events that the node encoder reads at most", low=1)


class GraphMixer(EventModel):
    """GraphMixer: an MLP-mixer over a node's past events, without memory and attention."""

    name = "graphmixer"
    options = GraphMixerOptions
    reads_state = False

    def __init__(self, options: GraphMixerOptions, data: DataShape) -> None:
        o = self.opt = options
        super().__init__(o.dim, o.time_dim, data)
        self.elapsed = Elapsed(data.time_scale, UNIT)
        self.phi = FixedTimeEncoding(o.time_dim)
        self.project = nn.Linear(o.time_dim + data.edge_width, o.dim)
        self.mixer = nn.Sequential(
            *(MixerLayer(o.neighbors, o.dim, dropout=o.dropout) for _ in range(o.layers))
        )
        self.out = nn.Linear(o.dim + self.node_width, o.dim)

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, times, self.opt.neighbors)
        ages = self.phi(self.elapsed(times.unsqueeze(1), near.time))
        features = self.feature_rows(history, near.event).gather()
        tokens = torch.cat([ages, features], dim=2) * near.mask.unsqueeze(2)
        mixed = self.mixer(self.project(tokens)).mean(dim=1)
        embedded: Tensor = self.out(torch.cat([mixed, self._surroundings(history, nodes, times)], dim=1))
        return embedded

    def _surroundings(self, history: History, nodes: Tensor, times: Tensor) -> Tensor:
        """Return the features of nodes plus the mean of their recent partners', ``[nodes, width]``."""
        own: Tensor = self.features_of(nodes)
        if not self.node_width:
            return own
        near = history.before(nodes, times, self.opt.gap_events)
        counted = near.mask
        if self.opt.gap is not None:
            counted = counted & (times.unsqueeze(1) - near.time <= self.opt.gap)
        theirs = self.features_of(near.node.flatten()).unflatten(0, near.node.shape)
        total = (theirs * counted.unsqueeze(2)).sum(dim=1)
        around: Tensor = own + total / counted.sum(dim=1, keepdim=True).clamp(min=1)
        return around
