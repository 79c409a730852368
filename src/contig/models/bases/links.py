"""The graph of latest partners, looked up for a few nodes at a time.

Every node is linked with its latest partner, so a node's links are one of its own and those of the nodes
that *name* it, whose latest partner it is. A node names ``v`` by an event that ``v`` had too and that is the
node's latest, so the history of ``v`` finds its namers and no further index is needed. How many there are is
kept in the state as ``named``, which makes degrees exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.history import History
from contig.models.bases.memory import Latest, MemoryModel
from contig.models.contract import EventBatch
from contig.models.state import NodeState


class Links(NamedTuple):
    """The links of nodes, ``[nodes, slots]``: the other ends, and their entries of ``D^-1/2 S D^-1/2``."""

    node: Tensor  # the node itself where there is no link
    weight: Tensor  # 0 where there is no link


def links_of(
    model: MemoryModel, state: NodeState, history: History, nodes: Tensor, as_of: Tensor, namers: int
) -> Links:
    """Look up the links of nodes at ``as_of``: to their latest partners, and from nodes that name them.

    The latter are looked for in the last ``namers`` events of each node. If there are more of them, those
    found represent the rest, with weights to match.
    """
    latest = model.latest(state, history, nodes)
    partner = model.latest(state, history, latest.partner)
    mutual = _is_mutual(nodes, latest, partner)
    near = history.before(nodes, as_of.repeat(len(nodes)), namers)
    found = near.mask & (state["last"][near.node] == near.event) & (near.node != nodes.unsqueeze(1))
    found &= near.node != latest.partner.unsqueeze(1)  # a mutual pair is one link
    stands_for = (state["named"][nodes] - mutual) / found.sum(dim=1).clamp(min=1)
    inward = stands_for.unsqueeze(1) * _inverse_root(1 + state["named"][near.node])
    outward = _inverse_root(_degree(model, state, history, latest.partner, partner))
    degree = latest.exists + state["named"][nodes] - mutual
    exists = torch.cat([latest.exists.unsqueeze(1), found], dim=1)
    other = torch.cat([latest.partner.unsqueeze(1), near.node], dim=1)
    weight = _inverse_root(degree).unsqueeze(1) * torch.cat([outward.unsqueeze(1), inward], dim=1)
    return Links(torch.where(exists, other, nodes.unsqueeze(1)), torch.where(exists, weight, 0.0))


def foreseen_links(
    state: NodeState | None, history: History, nodes: Tensor, as_of: Tensor, since: int, namers: int
) -> Tensor:
    """Return the nodes ``[nodes, 1 + namers]`` that ``links_of`` will find at later times ``as_of``.

    By then the state has observed, in addition to what it knows now (nothing, if it is None), the events from
    position ``since`` on that come before ``as_of`` (``[nodes]``). Empty places hold the node itself.
    """

    def latest(nodes: Tensor, as_of: Tensor) -> Tensor:
        found = history.before(nodes, as_of, 1)
        later = torch.where(found.mask & (found.event >= since), found.event, -1).squeeze(1)
        return later if state is None else torch.maximum(later, state["last"][nodes])

    near = history.before(nodes, as_of, namers)
    own = latest(nodes, as_of)
    theirs = latest(near.node.flatten(), as_of.repeat_interleave(namers)).view(near.event.shape)
    src, dst = (history.events[end][own.clamp(min=0)] for end in ("src", "dst"))
    partner = torch.where(own >= 0, src + dst - nodes, nodes).unsqueeze(1)
    names = near.mask & (theirs == near.event)
    return torch.cat([partner, torch.where(names, near.node, nodes.unsqueeze(1))], dim=1)


def share_of_links_found(src: NDArray[np.int64], dst: NDArray[np.int64], namers: int) -> float:
    """Return the share of the nodes that ``links_of`` finds as namers after these events; 1 without any.

    A namer is found if fewer than ``namers`` events of its latest partner are later than theirs.
    """
    if not len(src):
        return 1.0
    src, dst, events = src.astype(np.int64), dst.astype(np.int64), len(src)
    entries = np.unique(np.concatenate([src, dst]) * events + np.tile(np.arange(events), 2))
    node, event = entries // events, entries % events
    last = np.flatnonzero(np.append(node[1:] != node[:-1], True))  # the last entry of every node
    end = np.zeros(node[-1] + 1, dtype=np.int64)
    end[node[last]] = last
    partner = (src + dst)[event[last]] - node[last]
    later = end[partner] - np.searchsorted(entries, partner * events + event[last])
    linked = partner != node[last]
    return float(np.mean(later[linked] < namers)) if linked.any() else 1.0


def _degree(model: MemoryModel, state: NodeState, history: History, nodes: Tensor, latest: Latest) -> Tensor:
    partner = model.latest(state, history, latest.partner)
    return latest.exists + state["named"][nodes] - _is_mutual(nodes, latest, partner)


def _is_mutual(nodes: Tensor, latest: Latest, partner: Latest) -> Tensor:
    """Return 1 where a node and its latest partner name each other, as integers."""
    named_back = partner.exists & (partner.partner == nodes) & (latest.partner != nodes)
    return (latest.exists & named_back).long()


def _inverse_root(degree: Tensor) -> Tensor:
    return degree.clamp(min=1).to(torch.float32).rsqrt()


def count_namers(state: NodeState, batch: EventBatch, before: Latest, after: Latest) -> None:
    """Update ``named`` by the latest events of a batch's ends, sources first, before and after it."""
    ends, event = torch.cat([batch.src, batch.dst]), batch.event.repeat(2)
    # A node counts once: at its latest event, unless that is a repetition or the other end of a self-loop.
    again = torch.cat([torch.zeros_like(batch.event[:1]), batch.event.diff() == 0]).bool()
    counted = (after.event == event) & ~torch.cat([again, again | (batch.src == batch.dst)])
    counted &= ~(before.exists & (before.event == event))
    # sums of integers do not depend on their order, so this is deterministic on a GPU too
    lost = counted & before.exists & (before.partner != ends)
    gained = counted & (after.partner != ends)
    state["named"].index_add_(0, before.partner, -lost.long())
    state["named"].index_add_(0, after.partner, gained.long())
