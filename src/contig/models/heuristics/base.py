"""The base class of heuristics, and of those that look at one pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contig.errors import ConfigError
from contig.history import History
from contig.history.evidence import EvidenceSpec, meeting
from contig.models.contract import DataShape, Model
from contig.models.state import NodeState
from contig.options import option


@dataclass(frozen=True)
class WindowOptions:
    """Options of a heuristic that can forget."""

    window: float | None = option(
        None,
        "how long an event counts, in the stream's time unit; unlimited by default",
        above=0,
        below=math.inf,
    )


class Heuristic(Model):
    """A model without weights, state and embeddings: a subclass defines ``link`` and nothing else.

    ``link`` returns float64: in float32, ages and counts of more than 2^24 would tie where they differ.
    """

    learns = False
    fixed_shapes = True  # a promise to contig.streaming.capture
    reads_state = False
    resolution = 0.0  # counts and ages are exact

    def __init__(self, options: Any, data: DataShape) -> None:
        super().__init__()
        self.opt = options

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        raise self._no_embeddings()

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        raise self._no_embeddings()

    def rank_shared(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, time: Tensor, as_of: Tensor
    ) -> Tensor:
        return self.link_in_parts(state, history, src, dst, time, as_of, self.pairs_at_once(src.device))

    def _no_embeddings(self) -> ConfigError:
        return ConfigError(
            f"{self.name} is a heuristic: it scores pairs and has no embeddings. "
            "Use a trained model, such as contig."
        )


class PairHeuristic(Heuristic):
    """A heuristic that depends on when the source last met this destination, in this direction."""

    def age(self, history: History, src: Tensor, dst: Tensor, times: Tensor) -> Tensor:
        """Return the time from the last event of each pair to the query, ``[q, c]`` as float64.

        Sources and times are ``[q]``, destinations ``[q, c]``. The age is infinite for a pair without any.
        """
        when = times.unsqueeze(1).expand(dst.shape).reshape(-1)
        keys = meeting(src.unsqueeze(1).expand(dst.shape), dst).reshape(-1)
        count, last = history.evidence(EvidenceSpec()).events.find(keys, when)
        age = torch.where(count > 0, (when - last).double(), torch.inf)
        return age.view(dst.shape)
