"""The peer of most measurements: TGN built from PyTorch Geometric's parts.

A GRU updates a node's memory from its last message (both memories, the event's features, the elapsed
time). A node's embedding is one transformer convolution over its last neighbors, with the encoded age
and the features of each event on the edges. A step scores a batch, learns from it, and then adds it to
the memory and the neighbor lists, in the order of the package's own example. Unlike the example it does
not read the loss after every step, which would make a GPU wait.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.benchmarks.environment import require
from contig.data.events import EventStream
from contig.errors import ConfigError

NAME = "PyG TGN"
HEADS, DROPOUT, LR = 2, 0.1, 1e-4  # as in the package's example
MESSAGE_DIM = 1  # the package's parts do not accept 0


class PeerEvents(NamedTuple):
    """Events of a stream in order, each column ``[events]``, on one device."""

    src: Tensor
    dst: Tensor
    t: Tensor

    @classmethod
    def select(cls, stream: EventStream, events: NDArray[np.int64], device: torch.device) -> PeerEvents:
        columns = (stream.src, stream.dst, stream.t)
        src, dst, t = (torch.from_numpy(column[events]).to(device) for column in columns)
        return cls(src, dst, t.long())  # the package's memory stores integer times only


class PeerModel(nn.Module):
    """The peer's network."""

    def __init__(self, num_nodes: int, dim: int) -> None:
        super().__init__()
        require("torch_geometric")
        from torch_geometric.nn import TransformerConv
        from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, TGNMemory

        if dim % HEADS:
            raise ConfigError(f"dim={dim} must be divisible by the {HEADS} attention heads of {NAME}.")
        message = IdentityMessage(MESSAGE_DIM, dim, dim)
        self.memory: Any = TGNMemory(num_nodes, MESSAGE_DIM, dim, dim, message, LastAggregator())
        self.attention: Any = TransformerConv(
            dim, dim // HEADS, heads=HEADS, dropout=DROPOUT, edge_dim=dim + MESSAGE_DIM
        )
        self.from_src, self.from_dst, self.score = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)

    def embed(self, nodes: Tensor, edges: Tensor, times: Tensor, features: Tensor) -> Tensor:
        """Embed ``nodes``; ``edges`` ``[2, edges]`` index into them."""
        memory, updated = self.memory(nodes)
        age = (updated[edges[0]] - times).to(features.dtype)
        edge_features = torch.cat([self.memory.time_enc(age), features], dim=1)
        embedded: Tensor = self.attention(memory, edges, edge_features)
        return embedded

    def link(self, src: Tensor, dst: Tensor) -> Tensor:
        logits: Tensor = self.score(torch.relu(self.from_src(src) + self.from_dst(dst)))
        return logits


class PeerTGN:
    """Steps through events with the peer: trains, or only scores with ``learn=False``."""

    overhead = 0.0

    def __init__(
        self,
        events: PeerEvents,
        num_nodes: int,
        destinations: NDArray[np.int64],
        *,
        dim: int,
        neighbors: int,
        batch_size: int,
        learn: bool = True,
    ) -> None:
        require("torch_geometric")
        from torch_geometric.nn.models.tgn import LastNeighborLoader

        device = events.src.device
        torch.manual_seed(0)
        self.events, self.batch_size, self.learn = events, batch_size, learn
        self.model = PeerModel(num_nodes, dim).to(device)
        self.loader: Any = LastNeighborLoader(num_nodes, size=neighbors, device=device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR)
        self.features = torch.zeros((len(events.src), MESSAGE_DIM), device=device)
        self.destinations = torch.from_numpy(destinations).to(device)
        self._row = torch.empty(num_nodes, dtype=torch.int64, device=device)  # of a node in the embeddings
        self.step = 0

    @torch.no_grad()  # switching to evaluation mode updates every memory
    def rewind(self) -> None:
        self.step = 0
        self.model.train(self.learn)
        self.model.memory.reset_state()
        self.loader.reset_state()

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self.train_step() if self.learn else self.score_step()

    def train_step(self) -> Tensor:
        """Learn from the next batch, then observe it; the loss stays on the device."""
        self.optimizer.zero_grad()
        batch = self._next_batch()
        logits = self.logits(batch, self.draw_negatives(batch))
        truth = torch.zeros_like(logits)
        truth[:, 0] = 1
        loss = binary_cross_entropy_with_logits(logits, truth)
        self._observe(batch)
        loss.backward()
        self.optimizer.step()
        self.model.memory.detach()
        return loss.detach()

    @torch.no_grad()
    def score_step(self) -> Tensor:
        """Return the logits ``[events, 2]`` of the next batch, then observe it."""
        batch = self._next_batch()
        logits = self.logits(batch, self.draw_negatives(batch))
        self._observe(batch)
        return logits

    def draw_negatives(self, batch: PeerEvents) -> Tensor:
        """Draw one random destination for each event."""
        index = torch.randint(len(self.destinations), batch.dst.shape, device=batch.dst.device)
        return self.destinations[index]

    def logits(self, batch: PeerEvents, negative: Tensor) -> Tensor:
        """Return the logits ``[events, 2]`` of the true destinations and of the negatives."""
        queried = torch.cat([batch.src, batch.dst, negative]).unique()
        nodes, edges, events = self.loader(queried)
        self._row[nodes] = torch.arange(len(nodes), device=nodes.device)
        embedded = self.model.embed(nodes, edges, self.events.t[events], self.features[events])
        src, dst, other = (embedded[self._row[which]] for which in (batch.src, batch.dst, negative))
        return torch.cat([self.model.link(src, dst), self.model.link(src, other)], dim=1)

    def _next_batch(self) -> PeerEvents:
        part = slice(self.step * self.batch_size, (self.step + 1) * self.batch_size)
        self.step += 1
        return PeerEvents(*(column[part] for column in self.events))

    def _observe(self, batch: PeerEvents) -> None:
        features = self.features[: len(batch.src)]
        self.model.memory.update_state(batch.src, batch.dst, batch.t, features)
        self.loader.insert(batch.src, batch.dst)
