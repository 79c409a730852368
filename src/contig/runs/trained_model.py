"""A trained model that answers for any node and time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import TimeLike, parse_time
from contig.data.events import EventStream
from contig.data.ids import Side
from contig.errors import ConfigError, DataError
from contig.history import History
from contig.models import Model, NodeState
from contig.models.checks import check_embeddings
from contig.streaming.playback import Playback
from contig.tasks.ranking import best_first

QUERIES_AT_ONCE = 4096  # bounds the memory of embedding a whole graph


class Recommendation(NamedTuple):
    """A destination, by the user's id, and its score.

    ``score`` is the logit of a learned model, or the score of a heuristic. ``probability`` is that of the
    logit: of being the true destination rather than a random one. A heuristic has none.
    """

    node: int | str
    score: float
    probability: float | None


@dataclass(frozen=True)
class Trajectory:
    """The embedding of one node over time."""

    node: int | str
    times: NDArray[Any]  # [times]
    embeddings: NDArray[np.float32]  # [times, d]


class TrainedModel:
    """A trained model, its events, and its state after all of them.

    Nodes are given by the user's own ids. A time is a number as in the events, or a date: text, ``datetime``
    or numpy's, in UTC unless it has a time zone. Every answer for a time uses the events strictly before it,
    whether that time is inside the stream or after its end. Past times are fastest in ascending order.
    """

    def __init__(self, stream: EventStream, model: Model, state: NodeState, batch_size: int) -> None:
        self.stream, self.model, self.state, self.batch_size = stream, model, state, batch_size
        history = History.from_stream(stream, "cpu" if state.on_host else state.device)
        self.history = history.pinned_copy(state.device) if state.on_host else history

    def embed(
        self,
        nodes: Sequence[int | str] | None = None,
        at: TimeLike | None = None,
        side: Side | None = None,
    ) -> NDArray[np.float32]:
        """Embed nodes (by default all) at a time (by default just after the last event): ``[nodes, d]``.

        ``side`` is needed only for ids that name both a source and a destination.
        """
        if nodes is not None and (isinstance(nodes, str) or not isinstance(nodes, Iterable)):
            raise ConfigError(f"nodes={nodes!r}: pass a list of ids, such as [{nodes!r}].")
        rows = np.arange(self.stream.num_nodes) if nodes is None else self._rows(nodes, side)
        time = self._time(at)
        return self._embed(self.state_at(time), torch.from_numpy(rows), time)

    def recommend(self, node: int | str, at: TimeLike | None = None, k: int = 10) -> list[Recommendation]:
        """Return the ``k`` destinations that a source is most likely to meet at a time, best first.

        The candidates are the destinations of all events before that time.
        """
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise ConfigError(f"k={k!r}: pass a whole number of at least 1.")
        source = torch.from_numpy(self._rows([node], side="src")).to(self.history.device)
        time = self._time(at)
        candidates = self._destinations_before(time)
        candidates = candidates[candidates != source]
        if not len(candidates):
            return []
        scores = self._scores(source, candidates, time)
        best = best_first(scores, self.model.resolution)[:k]  # ties in the order of their ids
        names = self.stream.ids.labels[candidates[best].cpu().numpy()].tolist()
        top = scores[best].double()
        likely = top.sigmoid().tolist() if self.model.learns else [None] * len(top)
        return [Recommendation(*one) for one in zip(names, top.tolist(), likely, strict=True)]

    def trajectory(
        self, node: int | str, times: Sequence[TimeLike] | NDArray[Any], side: Side | None = None
    ) -> Trajectory:
        """Embed one node at many times (ascending), between its events too.

        Times after the node's latest event give its continuous path from there to now.
        """
        ascending = self._ascending(times)
        rows = torch.from_numpy(self._rows([node], side=side))
        embeddings = []
        for value in ascending.tolist():
            time = self._time(value)
            embeddings.append(self._embed(self._past.at(time), rows, time)[0])
        return Trajectory(node, ascending, np.stack(embeddings))

    def state_at(self, time: Tensor) -> NodeState:
        """Return the state that has observed exactly the events strictly before ``time``.

        Read it before the next query, which may change it.
        """
        after_all = bool(time > self.history.events["t"][-1])
        return self.state if after_all else self._past.at(time)

    @cached_property
    def _past(self) -> Playback:
        """Kept between queries, so that ascending times observe each event once."""
        return Playback(self.model, self.history, self.stream.num_nodes, self.batch_size)

    # -- batches of queries ----------------------------------------------------------------------

    @torch.no_grad()
    def _embed(self, state: NodeState, nodes: Tensor, time: Tensor) -> NDArray[np.float32]:
        parts = [
            check_embeddings(
                self.model,
                self.model.embed(state, self.history, part, time.repeat(len(part)), time),
                len(part),
            )
            for part in nodes.to(self.history.device).split(QUERIES_AT_ONCE)
        ]
        embeddings: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return embeddings

    @torch.no_grad()
    def _scores(self, source: Tensor, candidates: Tensor, time: Tensor) -> Tensor:
        state = self.state_at(time)
        parts = [
            self.model.rank(state, self.history, source, part, time, time)[0]
            for part in candidates.split(QUERIES_AT_ONCE)
        ]
        return torch.cat(parts)

    def _destinations_before(self, time: Tensor) -> Tensor:
        earlier = int(self.history.events.count_before(time.reshape(1)))
        return torch.from_numpy(self.stream[:earlier].destinations).to(self.history.device)

    # -- ids and times ---------------------------------------------------------------------------

    def _rows(self, nodes: Sequence[int | str], side: Side | None = None) -> NDArray[np.int64]:
        return np.array([self.stream.ids.find(node, side) for node in nodes], dtype=np.int64)

    def _time(self, given: TimeLike | None) -> Tensor:
        """Return a time on the history's device; None means just after the last event."""
        t = self.history.events["t"]
        if given is None:
            last = t[-1]
            return torch.nextafter(last, last.new_tensor(math.inf)) if last.is_floating_point() else last + 1
        at = parse_time(given, self.stream.t, f"at={given!r}")
        if not abs(at) < 2**62:
            raise DataError(f"at={at}: pass a finite time.")
        # Embeddings move between two whole times too.
        return torch.tensor(at, dtype=t.dtype if math.floor(at) == at else torch.float64, device=t.device)

    def _ascending(self, times: Sequence[TimeLike] | NDArray[Any]) -> NDArray[Any]:
        """Convert times to numbers of the stream; raise unless they ascend."""
        numbers = np.asarray(times)
        if numbers.ndim == 1 and numbers.dtype.kind not in "iuf":
            numbers = np.array([parse_time(one, self.stream.t, f"times: {one!r}") for one in times])
        if numbers.ndim != 1 or not len(numbers) or np.any(np.diff(numbers) < 0):
            raise DataError("times must be a non-empty sequence in ascending order.")
        return numbers
