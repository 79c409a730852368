"""The contract of every model.

``embed`` only reads, and ``observe`` alone changes state: a batch of events is scored first and
observed afterwards. An embedding for time ``t`` may depend on events strictly before ``t`` only.
``contig.testing`` checks both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contig.history import History, TimeScale
from contig.models.checks import check_embeddings, check_scores
from contig.models.state import NodeState


class Pairs(NamedTuple):
    """The two ends of events, in stream order."""

    src: NDArray[np.int64]
    dst: NDArray[np.int64]


class EventBatch(NamedTuple):
    """A batch of events in stream order; every field is ``[events]``.

    ``as_of`` is the time of the batch's first event, also in a part of the batch.
    """

    event: Tensor  # positions in the stream
    src: Tensor
    dst: Tensor
    t: Tensor
    begun: Tensor | None = None  # the time of the first event of the whole batch, in a part of it

    @classmethod
    def of(cls, history: History, event: Tensor) -> EventBatch:
        """Read the events at these positions of a history."""
        columns = history.events
        return cls(event, columns["src"][event], columns["dst"][event], columns["t"][event])

    @property
    def as_of(self) -> Tensor:
        """The reference time: what the batch may know ends strictly before it."""
        return self.t[0] if self.begun is None else self.begun

    def part(self, rows: slice | Tensor) -> EventBatch:
        """Return some of the events, with the reference time of the whole batch."""
        return EventBatch(self.event[rows], self.src[rows], self.dst[rows], self.t[rows], self.as_of)


class DataShape(NamedTuple):
    """What a model knows about the data when it is built."""

    edge_width: int  # features per event
    node_features: Tensor | None  # [nodes, width]
    num_nodes: int = 0  # of the training stream; new nodes may appear later
    # Of the training events. Keep what a model takes from it in parameters or buffers: when a trained run is
    # opened, models are built with the default, and then their weights are loaded.
    time_scale: TimeScale = TimeScale()
    new_node: Tensor | None = None  # [width] features of nodes that appear after training; zeros if None


class Model(nn.Module, ABC):
    """Embeds nodes at times and scores pairs of embeddings.

    A subclass sets ``name`` and ``options`` (a dataclass whose fields are made by ``contig.option``), takes
    ``(options, data)`` in its constructor, with ``data`` a ``DataShape``, and implements ``embed``. A model
    with a state per node adds ``blank`` and ``observe``; one with a decoder of its own adds ``score``.
    """

    name: ClassVar[str]
    options: ClassVar[type[Any]]
    learns: ClassVar[bool] = True  # False for heuristics, which have nothing to train
    inductive: ClassVar[bool] = True  # False if it knows nothing about nodes outside training
    # Scores closer than this are ties: a matrix library may compute the same row with other last bits at
    # another position of a batch or on another CPU, and no rank may depend on that.
    resolution: ClassVar[float] = 1e-5
    reads_state: bool = True  # False if scores depend on the history and the query's time alone
    blank_last: ClassVar[frozenset[str]] = (
        frozenset()
    )  # tensors with a row per node and a last one for others
    # The most queries that a CPU embeds in one call while ranking: what fits into its caches. None sets no
    # bound, for models whose embeddings depend on the other queries of the call.
    embedded_at_once: int | None = None
    reach: int = 1  # nodes that have to be embedded for each one; a GPU ranks that many times fewer at once
    training_defaults: ClassVar[Mapping[str, Any]] = {}  # overrides of TrainOptions

    @classmethod
    def settled(cls, options: Any, training_events: Callable[[], Pairs]) -> Any:
        """Return ``options`` with the choices made that depend on the training events; by default none does.

        The run keeps the result, so that later events do not change it.
        """
        return options

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

    def nodes_observed(self, state: NodeState, history: History, batch: EventBatch) -> Tensor:
        """Return the nodes whose rows ``observe`` may change (repeats allowed): both ends of every event.

        Override this if ``observe`` changes further rows. Called before ``observe``, with the same arguments.
        """
        return torch.cat([batch.src, batch.dst])

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return the logits ``[...]`` of links between embeddings ``[..., d]``: by default, inner products.

        An inner product has no direction and no weights; ``contig.layers.PairDecoder`` has both.
        """
        return (src * dst).sum(-1)

    def link(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        """Return the logits ``[queries, candidates]`` of links from sources to their candidates.

        Sources and times are ``[queries]``, candidates ``[queries, candidates]``.
        """
        nodes = torch.cat([src, dst.flatten()])
        when = torch.cat([times, times.repeat_interleave(dst.shape[1])])
        embedded = check_embeddings(self, self.embed(state, history, nodes, when, as_of), len(nodes))
        ours, theirs = embedded[: len(src)], embedded[len(src) :].unflatten(0, dst.shape)
        return check_scores(self, self.score(ours.unsqueeze(1), theirs), tuple(dst.shape))

    def prepare(self, history: History) -> None:
        """Initialize from the history of the training events; called once, before the first epoch."""

    def penalty(
        self, state: NodeState, history: History, batch: EventBatch, negative: Tensor
    ) -> Tensor | None:
        """Return a term to add to the loss of a batch's links, or None.

        ``negative`` are the sampled destinations ``[events, negatives]``.
        """
        return None

    def rank(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        """Return the logits ``[queries, candidates]`` of links to many candidates, in bounded memory.

        Candidates are ``[candidates]``, shared by all queries, or ``[queries, candidates]``. ``times`` is
        one time per query, or a single one; with a single time, shared candidates are embedded once.
        """
        if times.ndim == 0 and dst.ndim == 1:
            src, row = _distinct(src)
            logits = self.rank_shared(state, history, src, dst, times, as_of)
            if len(logits) == 1:
                return logits.expand(1 if row is None else len(row), -1)  # without a copy
            return logits if row is None else logits[row]
        return self.link_in_parts(state, history, src, dst, times, as_of, self.pairs_at_once(src.device))

    def rank_shared(
        self, state: NodeState, history: History, src: Tensor, dst: Tensor, time: Tensor, as_of: Tensor
    ) -> Tensor:
        """Return ``rank`` of distinct sources among the same candidates ``[candidates]`` at one time."""
        nodes = torch.cat([src, dst])
        bound = self.embedded_at_once or len(nodes)
        if nodes.is_cuda and self.embedded_at_once:
            bound = self.pairs_at_once(nodes.device)
        embedded = torch.cat(
            [
                check_embeddings(
                    self, self.embed(state, history, part, time.expand(len(part)), as_of), len(part)
                )
                for part in nodes.split(max(1, bound))
            ]
        )
        return self.score_all(embedded[: len(src)], embedded[len(src) :])

    def pairs_at_once(self, device: torch.device) -> int:
        """Return the number of pairs that ``rank`` scores in one call of ``link``."""
        return max(1, pairs_per_call(device) // (self.reach if device.type == "cuda" else 1))

    def link_in_parts(
        self,
        state: NodeState,
        history: History,
        src: Tensor,
        dst: Tensor,
        times: Tensor,
        as_of: Tensor,
        pairs: int,
    ) -> Tensor:
        """Return ``rank`` by calls of ``link`` with at most this many pairs."""
        dst, times = dst.expand(len(src), -1), times.expand(len(src))
        rows = max(1, pairs // max(1, dst.shape[1]))
        parts = zip(src.split(rows), dst.split(rows), times.split(rows), strict=True)
        return torch.cat(
            [
                torch.cat([self.link(state, history, s, c, t, as_of) for c in d.split(pairs, dim=1)], dim=1)
                for s, d, t in parts
            ]
        )

    def score_all(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return the logits ``[n, m]`` of links from each of ``[n, d]`` to each of ``[m, d]``."""
        rows = max(1, pairs_per_call(src.device) // len(dst))
        return torch.cat([self.score(part.unsqueeze(1), dst) for part in src.split(rows)])

    def new_state(self, num_nodes: int, *, on_host: bool = False, on_disk: bool = False) -> NodeState:
        """Create the state before the first event."""
        return NodeState(self.blank(), num_nodes, self.device, on_host=on_host, on_disk=on_disk)

    @property
    def device(self) -> torch.device:
        """The device of the weights; a model without weights works on any device."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))


def pairs_per_call(device: torch.device) -> int:
    """Return the number of pairs to score in one call: it bounds memory, and a GPU needs many to be busy."""
    return 2**16 if device.type == "cuda" else 2**13


def _distinct(nodes: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return distinct nodes, and the row of each given one among them; None where they are all as given.

    A GPU's captured steps need fixed shapes, so there repeated nodes stay.
    """
    if nodes.device.type != "cpu":
        return nodes, None
    distinct, row = torch.unique(nodes, return_inverse=True)
    return (nodes, None) if len(distinct) == len(nodes) else (distinct, row)
