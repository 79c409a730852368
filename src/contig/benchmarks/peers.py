"""The peer: TGN as one builds it of PyTorch Geometric's parts.

A node's memory is moved by a GRU on its last message (both memories, the event's features, the time
since); its embedding is one transformer convolution over its last neighbours, with the encoded age and
the features of each event on the edges. A step asks for the links of a batch, learns, and then takes the
batch into the memory and the neighbour lists. That is the order of the package's own example, without
reading the loss after every step, which would make a GPU wait.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.benchmarks.timing import need
from contig.data.events import EventStream
from contig.errors import ConfigError

NAME = "PyG's TGN"
HEADS, DROPOUT, LR = 2, 0.1, 1e-4  # those of the package's example
WIDTH = 1  # of the message; the parts do not take 0


class Events(NamedTuple):
    """Some events of a stream in order, each ``[events]``, on one device."""

    src: Tensor
    dst: Tensor
    t: Tensor

    @classmethod
    def of(cls, stream: EventStream, at: NDArray[np.int64], device: torch.device) -> Events:
        columns = (stream.src, stream.dst, stream.t)
        src, dst, t = (torch.from_numpy(column[at]).to(device) for column in columns)
        return cls(src, dst, t.long())  # the parts keep whole times only


class Peer(nn.Module):
    """The network of the peer."""

    def __init__(self, num_nodes: int, dim: int) -> None:
        super().__init__()
        need("torch_geometric")
        from torch_geometric.nn import TransformerConv
        from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, TGNMemory

        if dim % HEADS:
            raise ConfigError(f"dim={dim}: the peer's {HEADS} heads share it; give an even one.")
        message = IdentityMessage(WIDTH, dim, dim)
        self.memory: Any = TGNMemory(num_nodes, WIDTH, dim, dim, message, LastAggregator())
        self.attention: Any = TransformerConv(
            dim, dim // HEADS, heads=HEADS, dropout=DROPOUT, edge_dim=dim + WIDTH
        )
        self.from_src, self.from_dst, self.score = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)

    def embed(self, nodes: Tensor, edges: Tensor, times: Tensor, features: Tensor) -> Tensor:
        """Embeddings of ``nodes``; ``edges`` ``[2, edges]`` name places among them."""
        memory, updated = self.memory(nodes)
        age = (updated[edges[0]] - times).to(features.dtype)
        told = torch.cat([self.memory.time_enc(age), features], dim=1)
        embedded: Tensor = self.attention(memory, edges, told)
        return embedded

    def link(self, src: Tensor, dst: Tensor) -> Tensor:
        logits: Tensor = self.score(torch.relu(self.from_src(src) + self.from_dst(dst)))
        return logits


class PeerWalker:
    """Goes through events with the peer: training, or only scoring with ``learn=False``."""

    upfront = 0.0

    def __init__(
        self,
        events: Events,
        num_nodes: int,
        destinations: NDArray[np.int64],
        *,
        dim: int,
        neighbors: int,
        batch_size: int,
        learn: bool = True,
    ) -> None:
        need("torch_geometric")
        from torch_geometric.nn.models.tgn import LastNeighborLoader

        device = events.src.device
        torch.manual_seed(0)
        self.events, self.batch_size, self.learn = events, batch_size, learn
        self.model = Peer(num_nodes, dim).to(device)
        self.loader: Any = LastNeighborLoader(num_nodes, size=neighbors, device=device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR)
        self.features = torch.zeros((len(events.src), WIDTH), device=device)
        self.destinations = torch.from_numpy(destinations).to(device)
        self.place = torch.empty(num_nodes, dtype=torch.int64, device=device)
        self.step = 0

    @torch.no_grad()  # the switch to evaluation moves all memories
    def rewind(self) -> None:
        self.step = 0
        self.model.train(self.learn)
        self.model.memory.reset_state()
        self.loader.reset_state()

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self.train_step() if self.learn else self.score_step()

    def train_step(self) -> Tensor:
        """Learn from the next batch, then take it in; the loss stays on the device."""
        self.optimizer.zero_grad()
        batch = self._batch()
        logits = self.logits(batch, self.draw(batch))
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
        """The logits ``[events, 2]`` of the next batch, which is then taken in."""
        batch = self._batch()
        logits = self.logits(batch, self.draw(batch))
        self._observe(batch)
        return logits

    def draw(self, batch: Events) -> Tensor:
        """One destination at random for each event."""
        at = torch.randint(len(self.destinations), batch.dst.shape, device=batch.dst.device)
        return self.destinations[at]

    def logits(self, batch: Events, negative: Tensor) -> Tensor:
        """Logits ``[events, 2]`` of the true destinations and of the negatives."""
        asked = torch.cat([batch.src, batch.dst, negative]).unique()
        nodes, edges, events = self.loader(asked)
        self.place[nodes] = torch.arange(len(nodes), device=nodes.device)
        embedded = self.model.embed(nodes, edges, self.events.t[events], self.features[events])
        src, dst, other = (embedded[self.place[which]] for which in (batch.src, batch.dst, negative))
        return torch.cat([self.model.link(src, dst), self.model.link(src, other)], dim=1)

    def _batch(self) -> Events:
        part = slice(self.step * self.batch_size, (self.step + 1) * self.batch_size)
        self.step += 1
        return Events(*(column[part] for column in self.events))

    def _observe(self, batch: Events) -> None:
        features = self.features[: len(batch.src)]
        self.model.memory.update_state(batch.src, batch.dst, batch.t, features)
        self.loader.insert(batch.src, batch.dst)
