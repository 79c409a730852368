"""DyGFormer: a transformer over the recent events of both nodes of a pair.

Yu et al., "Towards better dynamic graph learning: new architecture and unified library" (2023).

The sequence of a node is the node itself, followed by its partners in the last events before ``t``. An entry
has four channels: features of the node, features of the event, ``Phi(t - t_event)``, and how often the node
occurs in the sequences of both ends of the pair, encoded by a perceptron (neighbor co-occurrence). A sequence
is cut into patches, whose channels are projected and concatenated. A transformer reads the patches of both
sequences together, and the mean over those of one end is projected to its embedding.

Departures from the paper: ``Phi`` encodes the logarithm of an interval, in units of the training events
(``contig.layers.time``); sequences are padded to their full length, not to the longest one in a batch, so
that an answer does not depend on other queries; patches start with the most recent events. As in DyGLib,
padding is not masked, and a channel without features is a learned constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contig.errors import ConfigError
from contig.history import History
from contig.layers import TransformerLayer
from contig.models.bases.joint import JointModel
from contig.models.contract import DataShape
from contig.models.state import NodeState
from contig.options import option

CHANNELS = 4  # node, event, time, co-occurrence


@dataclass(frozen=True)
class DyGFormerOptions:
    """Options of DyGFormer."""

    dim: int = option(172, "width of embeddings; the paper's", low=1)
    time_dim: int = option(100, "width of the time encoding; the paper's", low=1)
    channel_dim: int = option(50, "width of each of the four channels of a patch; the paper's", low=1)
    sequence: int = option(
        32, "length of a sequence: a node and its recent partners; the paper's, which has 256 on mooc", low=2
    )
    patch: int = option(1, "entries of a sequence in one patch; the paper's, which has 8 on mooc", low=1)
    layers: int = option(2, "layers of the transformer; the paper's", low=1)
    heads: int = option(2, "attention heads; the paper's", low=1)
    dropout: float = option(0.1, "dropout in the transformer; the paper's on most streams", low=0, below=1)


class Entries(NamedTuple):
    """The sequences of nodes, each field ``[nodes, length]``; the first entry is the node itself."""

    node: Tensor  # -1 where there is none
    event: Tensor  # 0 for the first entry and where there is none
    time: Tensor
    mask: Tensor  # whether there is an entry


class DyGFormer(JointModel):
    """DyGFormer: a transformer over the past events of both nodes, with their neighbors in common."""

    name = "dygformer"
    options = DyGFormerOptions
    reads_state = False

    def __init__(self, options: DyGFormerOptions, data: DataShape) -> None:
        o = self.opt = options
        if o.sequence % o.patch:
            raise ConfigError(f"patch={o.patch} must divide sequence={o.sequence}.")
        super().__init__(o.dim, o.time_dim, data)
        self.tokens_per_pair = 2 * (o.sequence // o.patch)
        self.cooccurrence = CooccurrenceEncoding(o.channel_dim)
        widths = (self.node_width, data.edge_width, o.time_dim, o.channel_dim)
        self.channels = nn.ModuleList(PatchProjection(width, o.patch, o.channel_dim) for width in widths)
        width = CHANNELS * o.channel_dim
        self.transformer = nn.Sequential(
            *(TransformerLayer(width, heads=o.heads, dropout=o.dropout) for _ in range(o.layers))
        )
        self.out = nn.Linear(width, o.dim)

    def embed_pairs(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor
    ) -> tuple[Tensor, Tensor]:
        count = dst.shape[1]
        when = times.repeat_interleave(count)
        ours, theirs = self._entries(history, src, times), self._entries(history, dst.flatten(), when)
        own = self._own_channels(history, ours, times).repeat_interleave(count, dim=0)
        first, second = cooccurrences(ours.node.repeat_interleave(count, dim=0), theirs.node)
        tokens = torch.cat(
            [self._tokens(own, first), self._tokens(self._own_channels(history, theirs, when), second)], dim=1
        )
        halves = self.transformer(tokens).unflatten(1, (2, -1)).mean(dim=2)  # [pairs, 2, width]
        embedded = self.out(halves).unflatten(0, dst.shape)
        return embedded[:, :, 0], embedded[:, :, 1]

    def _entries(self, history: History, nodes: Tensor, times: Tensor) -> Entries:
        near = history.before(nodes, times, self.opt.sequence - 1)
        own, now = nodes.unsqueeze(1), times.unsqueeze(1).to(near.time.dtype)
        return Entries(
            torch.cat([own, torch.where(near.mask, near.node, -1)], dim=1),
            torch.cat([torch.zeros_like(own), near.event], dim=1),
            torch.cat([now, near.time], dim=1),
            torch.cat([torch.ones_like(own, dtype=torch.bool), near.mask], dim=1),
        )

    def _own_channels(self, history: History, entries: Entries, times: Tensor) -> Tensor:
        """Return the channels that do not depend on the other node, ``[nodes, patches, 3 * channel_dim]``."""
        mask = entries.mask.unsqueeze(2)
        nodes = self.features_of(entries.node.clamp(min=0).flatten()).unflatten(0, entries.node.shape)
        events = self.feature_rows(history, entries.event).gather()
        is_event = torch.cat([torch.zeros_like(mask[:, :1]), mask[:, 1:]], dim=1)
        ages = self.phi(self.elapsed(times.unsqueeze(1), entries.time))
        parts = (nodes * mask, events * is_event, ages * mask)
        return torch.cat(
            [channel(part) for channel, part in zip(self.channels[:3], parts, strict=True)], dim=2
        )

    def _tokens(self, own: Tensor, counts: Tensor) -> Tensor:
        """Add the channel of co-occurrence, of counts ``[pairs, length, 2]``."""
        return torch.cat([own, self.channels[3](self.cooccurrence(counts))], dim=2)


class PatchProjection(nn.Module):
    """Projects patches of a channel; without features it is a learned constant."""

    def __init__(self, width: int, patch: int, dim: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = nn.Linear(patch * width, dim) if width else None
        self.constant = nn.Parameter(torch.zeros(dim)) if not width else None

    def forward(self, x: Tensor) -> Tensor:
        """Map sequences ``[n, length, width]`` to ``[n, length / patch, dim]``."""
        patches = x.unflatten(1, (-1, self.patch)).flatten(2)
        if self.project is None:
            assert self.constant is not None
            return self.constant.expand(*patches.shape[:2], -1)
        projected: Tensor = self.project(patches)
        return projected


class CooccurrenceEncoding(nn.Module):
    """Encodes how often an entry occurs in both sequences: the sum of a perceptron of either count."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(1, dim), nn.Linear(dim, dim)

    def forward(self, counts: Tensor) -> Tensor:
        """Map counts ``[..., 2]`` to ``[..., dim]``."""
        hidden = torch.relu(self.hidden(counts.unsqueeze(-1))).sum(dim=-2)  # the second layer is linear
        encoded: Tensor = self.out(hidden)
        return encoded


def cooccurrences(ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    """Count how often each entry of two sequences ``[n, length]`` occurs in the first and in the second one.

    Both results are ``[n, length, 2]``. An entry of -1 is none and has counts of 0.
    """
    both = torch.stack([ours, theirs], dim=1)  # [n, 2, length]
    ordered = both.sort(dim=2).values
    counts = [_appearances(entries.contiguous(), ordered) for entries in both.unbind(1)]
    return counts[0], counts[1]


def _appearances(entries: Tensor, ordered: Tensor) -> Tensor:
    """Count entries ``[n, length]`` in several ascending sequences ``[n, m, length]``: ``[n, length, m]``."""
    sought = entries.unsqueeze(1).expand_as(ordered).contiguous()
    found = torch.searchsorted(ordered, sought, right=True) - torch.searchsorted(ordered, sought)
    return (found * (entries >= 0).unsqueeze(1)).transpose(1, 2).float()
