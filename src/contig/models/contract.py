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
    training_defaults: ClassVar[Mapping[str, Any]] = {}  # where its training departs from TrainOptions

    @abstractmethod
    def blank(self) -> Mapping[str, Tensor]:
        """The state's row for a node nothing has happened to, by name."""

    @abstractmethod
    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        """Embeddings ``[queries, d]`` of nodes at times; changes nothing.

        ``as_of`` is the one reference time of the states in this call: the first query's time of a
        batch, or the query's own time when it stands alone.
        """

    @abstractmethod
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        """Take a batch of events into the state."""

    @abstractmethod
    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Logits of links between embeddings ``[..., d]``."""

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

    def path(
        self, state: NodeState, history: History, nodes: Tensor, as_of: Tensor, points: int
    ) -> Tensor | None:
        """The states ``[points, nodes, d]`` between each node's latest event and now, evenly spaced.

        None for a model whose states jump.
        """
        return None

    def new_state(self, num_nodes: int) -> NodeState:
        """The state before anything happened."""
        return NodeState(self.blank(), num_nodes, self.device)

    @property
    def fixed_shapes(self) -> bool:
        """Whether every shape follows from the batch size alone, so that a step can be captured."""
        return True

    @property
    def device(self) -> torch.device:
        """Where the weights live; a rule without weights works where its queries are."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))


def distinct(ids: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The distinct ids and each id's place among them: compute once per node, not per mention.

    On a GPU shapes must not depend on data, and computing a row twice costs less than finding out that
    it is the same: there the ids come back as they are, or all nodes where there are fewer of those.
    """
    if ids.is_cuda and num_nodes < len(ids):
        return torch.arange(num_nodes, device=ids.device), ids
    if ids.is_cuda:
        return ids, torch.arange(len(ids), device=ids.device)
    place = torch.full((num_nodes,), -1, dtype=torch.int64)
    place[ids] = 0
    found = (place == 0).nonzero().squeeze(1)
    place[found] = torch.arange(len(found))
    return found, place[ids]
