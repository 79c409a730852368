"""Transition: what usually followed the last partner will follow it again.

The score of a pair ``(u, v)`` is the number of times that ``v`` came right after ``u``'s latest partner
``p``, in the sequence of partners of any node, divided by the number of events of ``p``. Only events strictly
before the query count; a source without events scores 0. Unlike EdgeBank and recency, it can predict pairs
that never met.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contig.history import History
from contig.history.evidence import EvidenceSpec, follows
from contig.models.heuristics.base import Heuristic
from contig.models.state import NodeState

SPEC = EvidenceSpec(steps=(1,))


@dataclass(frozen=True)
class TransitionOptions:
    """Transition has no options."""


class Transition(Heuristic):
    """Transition: scores a destination by how often it followed the source's latest partner."""

    name = "transition"
    options = TransitionOptions

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        latest = history.before(src, times, 1)
        partner, when = latest.node.expand(dst.shape), times.unsqueeze(1).expand(dst.shape)
        keys = torch.where(latest.mask, follows(partner, dst), -1)
        count, _ = history.evidence(SPEC).transitions.find(keys.reshape(-1), when.reshape(-1))
        departures = history.count_before(latest.node.squeeze(1), times).clamp(min=1)
        return count.view(dst.shape).double() / departures.unsqueeze(1)
