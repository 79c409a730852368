"""Models that embed the two nodes of a pair together."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from contig.history import History
from contig.models.bases.events import EventModel
from contig.models.state import NodeState

CPU_TOKENS, GPU_TOKENS = 2**14, 2**19  # ranked in one call: what fits into a cache, and some gigabytes


class JointModel(EventModel):
    """A model in which the embedding of a node depends on the other node of the pair.

    A subclass defines ``embed_pairs``. A node alone is embedded as in the pair with itself, which no training
    sees: it is meant for pictures and for comparisons, not for scores.
    """

    tokens_per_pair: int

    @abstractmethod
    def embed_pairs(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the embeddings ``[queries, candidates, d]`` of both ends of pairs, sources first.

        Sources and times are ``[queries]``, candidates ``[queries, candidates]``.
        """

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        return self.embed_pairs(state, history, nodes, nodes.unsqueeze(1), times)[0].squeeze(1)

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        return self.score(*self.embed_pairs(state, history, src, dst, times))

    def rank(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        tokens = GPU_TOKENS if src.is_cuda else CPU_TOKENS
        pairs = max(1, tokens // self.tokens_per_pair)
        return self.link_in_parts(state, history, src, dst, times, as_of, pairs)
