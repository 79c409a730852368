"""The contract every model keeps.

``embed`` only reads; ``observe`` is the only thing that changes state; events are scored first and
observed after. Nothing an ``embed`` returns for time ``t`` may depend on an event at or after ``t``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from contig.history import History
from contig.models.state import NodeState


class EventBatch(NamedTuple):
    """Consecutive events of a stream, each ``[events]``."""

    event: Tensor  # position in the stream
    src: Tensor
    dst: Tensor
    t: Tensor

    @classmethod
    def of(cls, history: History, event: Tensor) -> EventBatch:
        """The events of these positions, read from the history's columns."""
        columns = history.events
        return cls(event, columns["src"][event], columns["dst"][event], columns["t"][event])


class DataShape(NamedTuple):
    """What a model must know of the data before it is built."""

    edge_width: int
    node_features: Tensor | None
    num_nodes: int = 0  # of the stream it trains on; others may come later


class Model(nn.Module, ABC):
    """A way to embed nodes at times, with a decoder that scores pairs of embeddings.

    A model is one file: subclass this, give ``options`` (a dataclass of typed options) and register
    it in ``contig.models``. The constructor takes those options and the ``DataShape``.
    """

    name: ClassVar[str]
    options: ClassVar[type[Any]]
    learns: ClassVar[bool] = True  # False for a rule, which has nothing to train
    inductive: ClassVar[bool] = True  # False where it can tell nothing of a node it was not trained on
    # Scores closer than this are equal: a matrix library computes the same row with another last bit at
    # another place of a batch or on another CPU, and no rank may depend on that.
    resolution: ClassVar[float] = 1e-5
    training_defaults: ClassVar[Mapping[str, Any]] = {}  # where its training departs from TrainOptions

    def blank(self) -> Mapping[str, Tensor]:
        """Return the initial state of a node, by name; none by default.

        The state holds one such row per node (``state["name"][nodes]``).
        """
        return {}

    @abstractmethod
    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        """Return embeddings ``[queries, d]`` of nodes at times, without changing anything.

        ``state`` and ``history`` may only be read, and of the history only events strictly before the
        query's time. ``as_of`` is the reference time of the states in this call: the time of the batch's
        first query.
        """

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        """Update the state with a batch of events; by default there is no state to update."""

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return the logits ``[...]`` of links between embeddings ``[..., d]``: by default, inner products.

        An inner product has no direction and no weights; ``contig.layers.PairDecoder`` has both.
        """
        return (src * dst).sum(-1)

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        """Logits ``[queries, candidates]`` of sources ``[queries]`` meeting their candidates."""
        nodes = torch.cat([src, dst.flatten()])
        when = torch.cat([times, times.repeat_interleave(dst.shape[1])])
        embedded = self.embed(state, history, nodes, when, as_of)
        ours, theirs = embedded[: len(src)], embedded[len(src) :].unflatten(0, dst.shape)
        return self.score(ours.unsqueeze(1), theirs)

    def prepare(self, history: History) -> None:
        """Take from the training events what is needed before the first step; called once."""

    def penalty(self, state: NodeState, history: History, as_of: Tensor) -> Tensor | None:
        """What a batch's loss has besides the cross-entropy of its links; None for nothing."""
        return None

    def rank(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        """Logits ``[queries, candidates]`` of sources meeting many candidates, a part at a time.

        Candidates are ``[candidates]``, the same for all, or ``[queries, candidates]``. ``times`` are the
        queries' own, or a single one for all of them: then a candidate common to all is embedded once.
        """
        if times.ndim == 0 and dst.ndim == 1:
            when = times.expand(len(src) + len(dst))
            embedded = self.embed(state, history, torch.cat([src, dst]), when, as_of)
            return self.score_all(embedded[: len(src)], embedded[len(src) :])
        rows = max(1, at_once(src.device) // dst.shape[-1])
        dst, times = dst.expand(len(src), -1), times.expand(len(src))
        parts = zip(src.split(rows), dst.split(rows), times.split(rows), strict=True)
        return torch.cat([self.link(state, history, s, d, t, as_of) for s, d, t in parts])

    def score_all(self, src: Tensor, dst: Tensor) -> Tensor:
        """Logits ``[n, m]`` of links between all embeddings ``[n, d]`` and all ``[m, d]``."""
        rows = max(1, at_once(src.device) // len(dst))
        return torch.cat([self.score(part.unsqueeze(1), dst) for part in src.split(rows)])

    def path(
        self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor, points: int
    ) -> Tensor | None:
        """The states ``[points, nodes, d]`` between each node's latest event and now, evenly spaced.

        None for a model whose states jump.
        """
        return None

    def new_state(self, num_nodes: int, *, on_host: bool = False) -> NodeState:
        """The state before anything happened."""
        return NodeState(self.blank(), num_nodes, self.device, on_host=on_host)

    @property
    def device(self) -> torch.device:
        """Where the weights live; a rule without weights works where its queries are."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))


def at_once(device: torch.device) -> int:
    """How many pairs are scored in one go, which bounds the memory: a GPU needs many to be busy."""
    return 2**16 if device.type == "cuda" else 2**13
