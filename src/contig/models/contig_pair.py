"""ConTIG with evidence about the pair.

ConTIG scores a pair by two embeddings that are computed independently of each other. This model scores it by
what the history says about the two nodes together (``contig.models.bases.pair_evidence``): how often and how
recently they met, and which of their recent partners met or followed one another.

Embeddings, states and trajectories are those of ConTIG, trained by its own loss next to that of the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from contig.history import History
from contig.kernels.threads import share_among_threads
from contig.layers.losses import link_loss
from contig.models.bases.pair_evidence import EvidencePart, PairEvidence
from contig.models.contig import ConTIG, ConTIGOptions, Scope
from contig.models.contract import DataShape, EventBatch
from contig.models.state import NodeState
from contig.options import option

KEPT = 0.5  # share of events that see embeddings in training; the others learn from evidence alone
CPU_SOURCES = 4  # scored in one call; candidates are read by themselves once for all calls
CPU_CANDIDATES, CPU_MOST_CANDIDATES = 2**9, 2**11  # read by themselves in one call, few and many of them
CPU_PAIRS, GPU_PAIRS = 2**10, 2**16  # ranked in one call: what fits into a cache, and some gigabytes

Fusion = Literal["apart", "joined", "none"]


@dataclass(frozen=True)
class ConTIGPairOptions(ConTIGOptions):
    """Options of ConTIG with evidence."""

    # The embedding hardly changes the scores, so its links are never worth the cost of all nodes.
    scope: Scope = option("near", "links of A, as in contig")
    tokens: int = option(
        20, "recent partners of each node, whose relation to the other node is looked up", low=1
    )
    width: int = option(128, "width of the network that reads the evidence", low=1)
    steps: tuple[int, ...] = option(
        (1, 2), "transitions to count: from a partner to the one this many events later"
    )
    evidence_dropout: float = option(0.1, "dropout in the network that reads the evidence", low=0, below=1)
    without_evidence: tuple[EvidencePart, ...] = option(
        (), "kinds of evidence to leave out (for ablations), for instance transitions"
    )
    embedding: Fusion = option(
        "apart",
        "ConTIG's embeddings: trained apart from the evidence, joined with it in the score, or not trained",
    )


class ConTIGPair(ConTIG):
    """ConTIG-pair: ConTIG that scores pairs by exact, causal evidence about them."""

    name = "contig-pair"
    options = ConTIGPairOptions
    opt: ConTIGPairOptions
    training_defaults: ClassVar[Mapping[str, Any]] = {
        "lr": 1e-3,
        "negatives": 2,
        "loss": "softmax",
        "averaging": 0.999,
    }

    def __init__(self, options: ConTIGPairOptions, data: DataShape) -> None:
        super().__init__(options, data)
        o = options
        self.evidence = PairEvidence(
            o.width,
            data,
            neighbors=o.tokens,
            steps=o.steps,
            dropout=o.evidence_dropout,
            without=o.without_evidence,
        )
        self.verdict = nn.Sequential(nn.GELU(), nn.Linear(o.width, 1))
        self.reads_state = o.embedding == "joined"
        if o.embedding == "joined":
            self.from_src = nn.Linear(o.dim, o.width, bias=False)
            self.from_dst = nn.Linear(o.dim, o.width, bias=False)

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        hidden = self.evidence(history, src, dst, times)
        if self.opt.embedding == "joined":
            nodes = torch.cat([src, dst.flatten()])
            when = torch.cat([times, times.repeat_interleave(dst.shape[1])])
            embedded = self.embed(state, history, nodes, when, as_of)
            ours, theirs = self.from_src(embedded[: len(src)]), self.from_dst(embedded[len(src) :])
            joined = ours.unsqueeze(1) + theirs.unflatten(0, dst.shape)
            if self.training:
                joined = joined * (torch.rand((len(src), 1, 1), device=src.device) < KEPT)
            hidden = hidden + joined
        logits: Tensor = self.verdict(hidden)
        return logits.squeeze(-1)

    def penalty(
        self, state: NodeState, history: History, batch: EventBatch, negative: Tensor
    ) -> Tensor | None:
        """Train the embeddings as ConTIG does: by true links and one negative for each."""
        if self.opt.embedding != "apart":
            return None
        candidates = torch.stack([batch.dst, negative[:, 0]], dim=1)
        logits = super().link(state, history, batch.src, candidates, batch.t, batch.as_of)
        return link_loss(logits, "logistic")

    def rank_shared(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, time: Tensor, as_of: Tensor
    ) -> Tensor:
        if self.training or src.is_cuda or not len(dst):  # a GPU captures fixed shapes
            return self.link_in_parts(state, history, src, dst, time, as_of, self.pairs_at_once(src.device))
        joined = self._embedded(state, history, src, dst, time, as_of)
        # Candidates with equally many events are read together: most have few, and few tokens cost less.
        count, order = history.count_before(dst, time.expand(len(dst))).sort(stable=True)
        alike = (count == 0) & self.evidence.is_unknown(history, dst[order], time) & (joined is None)
        unknown, order = order[alike], torch.cat([order[alike][:1], order[~alike]])
        logits = torch.empty(len(src), len(dst))
        single = self.evidence.node_tokens(history, 0, src, time) if len(src) == 1 else None

        def score(some: Tensor) -> None:
            candidates = self.evidence.node_tokens(history, 1, dst[some], time)
            for rows in torch.arange(len(src)).split(max(1, CPU_PAIRS // len(some))):
                sources = single or self.evidence.node_tokens(history, 0, src[rows], time)
                hidden = self.evidence.pair_vectors(history, sources, candidates, time)
                if joined is not None:
                    hidden = hidden + (joined[0][rows].unsqueeze(1) + joined[1][some])
                logits[rows[:, None], some] = self.verdict(hidden).squeeze(-1)

        share_among_threads(score, order.split(_candidates_at_once(len(src), len(order))))
        if len(unknown):
            logits[:, unknown] = logits[:, unknown[:1]]
        return logits

    def _embedded(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, time: Tensor, as_of: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Return what the embeddings of sources and candidates add to the evidence, if anything."""
        if self.opt.embedding != "joined":
            return None
        parts = torch.cat([src, dst]).split(self.embedded_at_once or len(src) + len(dst))
        embedded = torch.cat(
            [self.embed(state, history, part, time.expand(len(part)), as_of) for part in parts]
        )
        return self.from_src(embedded[: len(src)]), self.from_dst(embedded[len(src) :])

    def pairs_at_once(self, device: torch.device) -> int:
        return GPU_PAIRS if device.type == "cuda" else CPU_PAIRS


def _candidates_at_once(sources: int, candidates: int) -> int:
    """Return how many candidates to read in one call: fewer have more alike numbers of events."""
    if sources > 1:
        return min(CPU_CANDIDATES, CPU_PAIRS // min(sources, CPU_SOURCES))
    return max(CPU_CANDIDATES, min(CPU_MOST_CANDIDATES, candidates // 16))
