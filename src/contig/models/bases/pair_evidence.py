"""A network that reads what is known about a pair of nodes.

For a source ``x`` and a candidate ``y`` at time ``t`` it sees, of the events strictly before ``t``:

- the meetings ``x -> y`` and ``y -> x``, and how active ``x`` and ``y`` have been;
- a token for each of the last ``k`` partners ``n`` of ``x``: its age, its features, how active ``n`` is,
  whether ``n`` is ``y``, the meetings of ``n`` and ``y`` in both directions, and how often ``n`` was
  followed by ``y``, and ``y`` by ``n``, in the sequence of partners of any node;
- the same for the last partners of ``y``, with ``x`` in place of ``y``.

Everything counted is described by its count and its recency, events also by decayed counts
(``contig.history.evidence``). Tokens pass through one layer and are pooled by mean, maximum and latest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from contig.history import History, Neighbors, TimeScale
from contig.history.evidence import Evidence, EvidenceSpec, check_steps, follows, incoming, meeting, node
from contig.kernels.gather import LazyRows
from contig.kernels.keyed_events import KeyedEvents
from contig.kernels.token_pool import POOLS, OwnTokens, pool, pool_related
from contig.models.contract import DataShape

ACTIVITY_KEYS = 3  # events of both nodes, incoming events of the candidate
MEETING_KEYS, TRANSITION_KEYS = 2, 2  # in both directions
MATCHES = 2  # whether a token is the other node, and how many of it and the more recent tokens are
TRANSITION_COLUMNS = 2  # count and recency
DECAY_PERCENTILES = (50, 80, 95)  # of the intervals of a node
AGE_SCALE = 0.1  # of log(1 + age / unit)


# The meetings of the two; how active nodes are; how each one's partners met the other; what follows what;
# decayed counts next to plain ones.
EvidencePart = Literal["meetings", "activity", "neighbors", "transitions", "decay"]


class EvidenceScales(NamedTuple):
    """The scales on which evidence is described, in the stream's unit of time."""

    unit: float  # the shortest age that matters
    decay_times: tuple[float, ...]

    @classmethod
    def of(cls, time: TimeScale, *, decayed: bool = True) -> EvidenceScales:
        """Take them from the intervals between consecutive events of a node."""
        return cls(time.percentile(2), tuple(time.percentile(p) for p in DECAY_PERCENTILES if decayed))


class Side(NamedTuple):
    """One side of the pairs: the last partners of a node, and the other node, to which they relate."""

    near: Neighbors  # each field [queries, 1 or candidates, k]
    other: Tensor  # [queries, candidates]


class NodeTokens(NamedTuple):
    """What one side of the pairs says by itself, without the other node, for nodes ``[n]``."""

    nodes: Tensor
    near: Neighbors  # each field [n, k]
    tokens: OwnTokens


class PairEvidence(nn.Module):
    """Maps pairs ``[queries, candidates]`` at times to vectors ``[queries, candidates, width]``."""

    def __init__(
        self,
        width: int,
        data: DataShape,
        *,
        neighbors: int,
        steps: tuple[int, ...],
        dropout: float,
        without: Collection[EvidencePart] = (),
    ) -> None:
        super().__init__()
        check_steps(steps)
        self.neighbors, self.edge_width = neighbors, data.edge_width
        self.steps = () if "transitions" in without else steps
        self.meetings, self.activity = "meetings" not in without, "activity" not in without
        self.relations = "neighbors" not in without
        self.scales = EvidenceScales.of(data.time_scale, decayed="decay" not in without)
        counted = 2 + len(self.scales.decay_times)  # columns that describe an event
        alone = 1 + counted * self.activity + data.edge_width
        shared = (
            MEETING_KEYS * counted * self.relations
            + MATCHES * self.meetings
            + TRANSITION_KEYS * len(self.steps) * TRANSITION_COLUMNS
        )
        keys = MEETING_KEYS * self.meetings + ACTIVITY_KEYS * self.activity
        self.own = nn.ModuleList(nn.Linear(alone, width) for _ in range(2))
        self.shared = nn.ModuleList(nn.Linear(shared, width, bias=False) for _ in range(2 if shared else 0))
        self.pair = nn.Sequential(nn.Linear(keys * counted, width), nn.GELU()) if keys else None
        merged = (2 * POOLS + bool(keys)) * width
        self.merge = nn.Sequential(nn.LayerNorm(merged), nn.Dropout(dropout), nn.Linear(merged, width))

    def get_extra_state(self) -> Tensor:
        """Return what is saved with the weights: the scales."""
        return torch.tensor([self.scales.unit, *self.scales.decay_times], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Load the scales."""
        unit, *decay_times = state.tolist()
        self.scales = EvidenceScales(unit, tuple(decay_times))

    def forward(self, history: History, src: Tensor, dst: Tensor, times: Tensor) -> Tensor:
        """Read pairs of sources and candidates; sources and times are ``[queries]``."""
        evidence = self._evidence(history)
        when = times.unsqueeze(1).expand(dst.shape)
        x, y = src.unsqueeze(1).expand(dst.shape), dst
        sides = (
            Side(self._near(history, src.unsqueeze(1), times.unsqueeze(1)), other=y),
            Side(self._near(history, dst, when), other=x),
        )
        parts = self._pair_parts(evidence, x, y, when)
        for number, side in enumerate(sides):
            hidden = self.own[number](self._own_columns(history, evidence, side.near, times))
            if self.shared:
                hidden = hidden + self.shared[number](self._shared(evidence, side, times))
            hidden = hidden.expand(*dst.shape, -1, -1)
            parts.append(pool(nn.functional.gelu(hidden), side.near.mask))
        merged: Tensor = self.merge(torch.cat(parts, -1))
        return merged

    def is_unknown(self, history: History, nodes: Tensor, time: Tensor) -> Tensor:
        """Return which of the nodes ``[n]`` no event before a time was counted for."""
        found = self._look_up(self._evidence(history).events, [node(nodes)], time.expand(len(nodes)))
        return found[:, 0] == 0

    def node_tokens(self, history: History, side: int, nodes: Tensor, time: Tensor) -> NodeTokens:
        """Read what nodes say by themselves at one time, as sources (0) or candidates (1) of many pairs."""
        near = self._near(history, nodes.unsqueeze(1), time.expand(len(nodes), 1), trim=True)
        hidden = self.own[side](self._own_columns(history, self._evidence(history), near, time.reshape(1)))
        near = Neighbors(*(field.squeeze(1) for field in near))
        return NodeTokens(nodes, near, OwnTokens.of(hidden.squeeze(1), near.mask))

    def pair_vectors(
        self, history: History, sources: NodeTokens, candidates: NodeTokens, time: Tensor
    ) -> Tensor:
        """Read all pairs of sources and candidates at one time: ``[sources, candidates, width]``.

        The same as ``forward``, in evaluation mode: what nodes say by themselves is given, and tokens that do
        not relate to the other node, which are most in a large graph, cost little.
        """
        evidence, times = self._evidence(history), time.expand(len(sources.nodes))
        x, y = torch.broadcast_tensors(sources.nodes.unsqueeze(1), candidates.nodes)
        parts = self._pair_parts(evidence, x, y, time.expand(x.shape))
        for number, (own, other) in enumerate(((sources, y), (candidates, x))):
            near = Neighbors(*(field.unsqueeze(1 - number) for field in own.near))
            parts.append(self._pooled(evidence, number, own, Side(near, other), times))
        merged: Tensor = self.merge(torch.cat(parts, -1))
        return merged

    def _pooled(self, evidence: Evidence, number: int, own: NodeTokens, side: Side, times: Tensor) -> Tensor:
        """Return the pooled tokens of one side, ``[sources, candidates, POOLS * width]``."""
        if not self.shared:
            return own.tokens.pooled().unsqueeze(1 - number).expand(*side.other.shape, -1)
        related, weight = self._shared(evidence, side, times), self.shared[number].weight
        assert isinstance(weight, Tensor)
        return pool_related(own.tokens, related, weight, number)

    def _evidence(self, history: History) -> Evidence:
        return history.evidence(EvidenceSpec(self.scales.decay_times, nodes=True, steps=self.steps))

    def _pair_parts(self, evidence: Evidence, x: Tensor, y: Tensor, when: Tensor) -> list[Tensor]:
        """Return what is known about the pairs themselves ``[..., width]``, if anything is looked up."""
        keys = [meeting(x, y), meeting(y, x)] if self.meetings else []
        keys += [node(x), node(y), incoming(y)] if self.activity else []
        return [self.pair(self._look_up(evidence.events, keys, when))] if self.pair is not None else []

    def _near(self, history: History, nodes: Tensor, times: Tensor, *, trim: bool = False) -> Neighbors:
        """Look up the last partners of nodes ``[queries, n]``: ``[queries, n, k]``.

        ``trim`` leaves out tokens that no node of the call has, on a CPU: the last bits may differ.
        """
        near = history.before(nodes.reshape(-1), times.reshape(-1), self.neighbors)
        if trim and not nodes.is_cuda:
            # One more than the most, where there is one: the maximum over tokens counts a missing one as 0.
            most = int(near.mask.sum(dim=1).max()) + 1 if nodes.numel() else 1
            near = Neighbors(*(field[:, :most].contiguous() for field in near))
        return Neighbors(*(field.view(*nodes.shape, near.node.shape[1]) for field in near))

    def _own_columns(self, history: History, evidence: Evidence, near: Neighbors, times: Tensor) -> Tensor:
        """Return what tokens say by themselves, ``[queries, 1 or candidates, k, width]``."""
        when = times.view(-1, 1, 1)
        age = (when - near.time).double() / self.scales.unit
        parts = [AGE_SCALE * torch.log1p(age).float().unsqueeze(-1)]
        if self.activity:
            keys = torch.where(near.mask, node(near.node), -1)
            parts.append(self._look_up(evidence.events, [keys], when.expand(keys.shape)))
        if self.edge_width:
            parts.append(self._features(history, near.event))
        return torch.cat(parts, -1)

    def _shared(self, evidence: Evidence, side: Side, times: Tensor) -> Tensor:
        """Return how tokens relate to the other node, ``[queries, candidates, k, width]``."""
        shape = (*side.other.shape, side.near.node.shape[-1])
        n, other = side.near.node.expand(shape), side.other.unsqueeze(-1).expand(shape)
        mask, when = side.near.mask.expand(shape), times.view(-1, 1, 1).expand(shape)
        parts = []
        if self.relations:
            keys = [torch.where(mask, key, -1) for key in (meeting(n, other), meeting(other, n))]
            parts.append(self._look_up(evidence.events, keys, when))
        if self.meetings:
            match = ((n == other) & mask).float()
            parts += [match.unsqueeze(-1), match.cumsum(-1).unsqueeze(-1)]
        if self.steps:
            keys = [key for step in self.steps for key in (follows(n, other, step), follows(other, n, step))]
            masked = [torch.where(mask, key, -1) for key in keys]
            parts.append(self._look_up(evidence.transitions, masked, when))
        return torch.cat(parts, -1)

    def _look_up(self, keyed: KeyedEvents, keys: list[Tensor], times: Tensor) -> Tensor:
        """Describe several keys ``[...]`` at the same times ``[...]``: ``[..., keys * columns]``."""
        stacked = torch.stack(keys, -1)
        when = times.unsqueeze(-1).expand(stacked.shape)
        found = keyed.features(stacked.reshape(-1), when.reshape(-1), self.scales.unit)
        return found.view(*times.shape, len(keys) * keyed.columns)

    def _features(self, history: History, event: Tensor) -> Tensor:
        if not history.num_events:
            return torch.zeros((*event.shape, self.edge_width), device=event.device)
        rows = LazyRows(history.events["features"], event.flatten(0, 1)).gather()
        return rows.view(*event.shape, self.edge_width)
