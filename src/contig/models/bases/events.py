"""Parts of models that read events: features, a time encoding, a pair decoder, an attention readout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from contig.errors import ConfigError
from contig.history import History
from contig.kernels.gather import LazyRows
from contig.layers import PairDecoder, TemporalAttention
from contig.layers.time import Frequencies, TimeInput, make_time_encoding
from contig.models.contract import DataShape, Model
from contig.options import option


def time_encoding_option() -> TimeInput:
    """Return the option that chooses what the time encoding encodes."""
    given: TimeInput = option(
        "log",
        "what is encoded: log (the logarithm of an interval), linear (the interval, in units of the training "
        "events), raw (the interval in the stream's own unit, as in the paper)",
    )
    return given


def frequencies_option() -> Frequencies:
    """Return the option for how the frequencies of a time encoding are trained."""
    frequencies: Frequencies = option(
        "log",
        "what is trained of the time encoding's frequencies: log (their logarithms), direct (the frequencies "
        "themselves, as in the paper)",
    )
    return frequencies


class EventModel(Model):
    """A model with a time encoding and a pair decoder, which reads event and node features."""

    fixed_shapes: bool = True  # a promise to contig.streaming.capture
    embedded_at_once: int | None = 2**11

    def __init__(
        self,
        dim: int,
        time_dim: int,
        data: DataShape,
        *,
        time_encoding: TimeInput = "log",
        frequencies: Frequencies = "log",
        scaled_time: bool = False,
    ) -> None:
        super().__init__()
        self.dim, self.edge_width = dim, data.edge_width
        self.node_width = 0 if data.node_features is None else data.node_features.shape[1]
        self.phi: nn.Module
        self.elapsed, self.phi = make_time_encoding(
            time_dim, data.time_scale, time_encoding, frequencies, scaled=scaled_time
        )
        self.decoder = PairDecoder(dim)
        self.node_features: Tensor | None
        self.register_buffer("node_features", data.node_features, persistent=False)
        self.new_node: Tensor
        new_node = torch.zeros(self.node_width) if data.new_node is None else data.new_node
        self.register_buffer("new_node", new_node, persistent=False)

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        logits: Tensor = self.decoder(src, dst)
        return logits

    def score_all(self, src: Tensor, dst: Tensor) -> Tensor:
        return self.decoder.all_pairs(src, dst)

    def event_features(self, history: History, event: Tensor) -> Tensor:
        """Return the features ``[n, width]`` of events ``[n]``; the width is 0 if there are none."""
        return self.feature_rows(history, event.unsqueeze(1)).gather().squeeze(1)

    def feature_rows(self, history: History, event: Tensor) -> LazyRows:
        """Return the features of events ``[n, k]``."""
        if self.edge_width and history.num_events:
            return LazyRows(history.events["features"], event)
        return LazyRows(torch.zeros((1, self.edge_width), device=event.device), torch.zeros_like(event))

    def features_of(self, nodes: Tensor) -> Tensor:
        """Return the features of nodes; those of ``new_node`` for nodes that appeared after training."""
        if self.node_features is None:
            return torch.zeros((len(nodes), 0), device=nodes.device)
        known = nodes < len(self.node_features)
        own = self.node_features[torch.where(known, nodes, 0)]
        return torch.where(known.unsqueeze(1), own, self.new_node)

    def time_now(self) -> Tensor:
        """Return ``Phi(0)`` ``[1, time_dim]``, the time encoding of the query itself."""
        encoded: Tensor = self.phi(torch.zeros(1, device=self.device))
        return encoded


class AttentionReadout(nn.Module):
    """Attention over the last events of a node, then a two-layer perceptron."""

    def __init__(self, dim: int, time_dim: int, edge_width: int, *, heads: int, dropout: float) -> None:
        if heads > dim:
            raise ConfigError(f"heads={heads} must be at most dim={dim}.")
        super().__init__()
        self.attention = TemporalAttention(
            dim + time_dim,
            (dim, edge_width, time_dim),
            inner=(dim + time_dim) // heads * heads,
            heads=heads,
            dropout=dropout,
        )
        self.merge = nn.Sequential(
            nn.Linear(self.attention.inner + dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, dim)
        )

    def forward(
        self,
        own: Tensor,
        query_time: Tensor,
        theirs: LazyRows,
        features: LazyRows,
        ages: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """Map the nodes' vectors ``[q, d]`` and their neighbors' ``[q, k, ...]`` to embeddings ``[q, d]``."""
        attended = self.attention(own, query_time, (theirs, features, LazyRows.of(ages)), mask)
        merged: Tensor = self.merge(torch.cat([attended, own], dim=1))
        return merged
