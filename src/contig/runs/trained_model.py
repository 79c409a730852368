"""A trained model that answers for any node and time."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import TYPE_CHECKING, Any, Self, Unpack, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import TimeLike, in_unit_of
from contig.data.columns import Array, Column, row_place
from contig.data.events import EventStream
from contig.data.growing import GrowingIds, reject_other_side
from contig.data.ids import KIND_OF_SIDE, Side
from contig.data.read_options import ReadKeywords, ReadOptions, reading_options
from contig.data.readers import read_pairs
from contig.data.validation import EventColumns, check_lengths, validate_ids
from contig.errors import ConfigError, DataError, NoEventsError, unknown
from contig.history import History
from contig.history.columns import comparable_times
from contig.models import Model, NodeState
from contig.models.checks import check_embeddings
from contig.models.state import SavedRows
from contig.options import check_flag
from contig.runs.answers import (
    Embeddings,
    RecommendationList,
    RecommendationLists,
    Scores,
    SimilarNode,
    SimilarNodes,
    Trajectory,
    embedding_table,
)
from contig.runs.arrivals import Arrivals
from contig.runs.observed import GrowingStream
from contig.runs.queries import (
    ascending_times,
    check_as_of,
    check_k,
    pair_times,
    paired,
    query_time,
    score_times,
)
from contig.runs.recommending import Recommender, best, known_candidates
from contig.runs.repeated_events import Policy
from contig.runs.scoring import Group, Pairs, grouped, score_pairs
from contig.streaming.online import OnlineState
from contig.streaming.sharing import ReadWriteLock
from contig.tasks.recommend import AsOf

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("contig")

QUERIES_AT_ONCE = 4096  # bounds the memory of embedding a whole graph


class TrainedModel:
    """A trained model, its events, and its state after all of them.

    Nodes are given by the user's own ids. A time is a number as in the events, or a date: text, ``datetime``
    or numpy's, in UTC unless it has a time zone. Every answer for a time uses the events strictly before it,
    whether that time is inside the stream or after its end. The first query about a past time observes the
    stream up to it; snapshots that are kept on the way make later queries about the past fast.

    Any number of threads may query it, also while another one adds events (``observe_columns``): an answer
    knows all events of such a call or none of them.
    """

    def __init__(
        self,
        stream: EventStream,
        model: Model,
        state: NodeState,
        batch_size: int,
        *,
        tip: SavedRows | None = None,
    ) -> None:
        self.model, self.batch_size = model, batch_size
        self.new_node: Array | None = None  # the features of nodes that appear after training; zeros if None
        self._lock = ReadWriteLock()
        self._set_events(Arrivals(stream), state, tip)

    def _set_events(
        self,
        arrivals: Arrivals,
        state: NodeState,
        tip: SavedRows | None = None,
        history: History | None = None,
    ) -> None:
        """Use these events, and the state after them."""
        history = history or arrivals.index(self.model, state)
        self.online = OnlineState(
            self.model, history, state, self.batch_size, tip=tip, late=arrivals.late, lock=self._lock
        )
        self.arrivals = arrivals  # all events so far, in the order in which they became known
        self._growing: GrowingStream | None = None

    @property
    def stream(self) -> EventStream:
        """All events so far, in time order."""
        return self.arrivals.in_time_order

    @property
    def history(self) -> History:
        """The index of all events so far."""
        return self.online.history

    @property
    def state(self) -> NodeState:
        """The state after all events so far."""
        return self.online.state

    def observe_columns(
        self,
        events: EventColumns,
        place: Callable[[int], str],
        *,
        repeated: Policy = "reject",
        late: Policy | None = None,
    ) -> int:
        """Add new events and return their number; nothing is saved.

        ``place`` names a row in error messages. Rejected events raise ``DataError`` and change nothing.
        """
        with self.online.writing():
            growing = self._growing_stream()
            new = growing.check(events, place, repeated=repeated, late=late)
            self.online.observe(*new.tensors(self.history.device))
            growing.append(new)
            self.arrivals = growing.arrivals
            return len(new.t)

    def known_positions(self, events: EventColumns, place: Callable[[int], str]) -> NDArray[np.int64]:
        """Return the position, in order of arrival, of the known event that each row repeats, or -1."""
        with self.online.writing():
            return self._growing_stream().known(events, place)

    def _growing_stream(self) -> GrowingStream:
        if self._growing is None:
            self._growing = GrowingStream(self.arrivals, self.history, self.new_node)
        return self._growing

    def embed(
        self,
        nodes: Sequence[int | str] | None = None,
        at: TimeLike | None = None,
        side: Side | None = None,
    ) -> Embeddings:
        """Embed nodes (by default all) at a time (by default just after the last event): ``[nodes, d]``.

        The result is an array that also has the time (``at``) and that of the ``last_event`` it knows.
        ``side`` selects the sources or the destinations if no nodes are given, and is needed for ids that
        name both a source and a destination.
        """
        with self.online.reading():
            return self._embed_rows(self._rows_to_embed(nodes, side), self._time(at))

    def embed_table(
        self,
        nodes: Sequence[int | str] | None = None,
        at: TimeLike | None = None,
        side: Side | None = None,
        *,
        wide: bool = False,
    ) -> pa.Table:
        """Embed nodes as ``embed`` does, as an Arrow table: node, side, t, last_event and embedding.

        ``t`` is the time that the embeddings are for, ``last_event`` that of the last event they know, and
        ``side`` (src or dst) is there in a bipartite stream. Embeddings are one column of lists, or with
        ``wide`` the columns e0, e1, ....
        """
        with self.online.reading():
            rows = self._rows_to_embed(nodes, side)
            vectors = self._embed_rows(rows, self._time(at))
            return embedding_table(self.stream.ids, rows, vectors, wide=wide)

    def _embed_rows(self, rows: NDArray[np.int64], time: Tensor) -> Embeddings:
        with self.state_at(time) as state:
            vectors = self._embed(state, torch.from_numpy(rows), time)
        return Embeddings.of(vectors, time.item(), self._last_event(self._known_events(time)))

    def _known_events(self, time: Tensor) -> int:
        """Return how many events there are strictly before a time."""
        if not len(self.arrivals.late):
            return int(self.history.events.count_before(time.reshape(1)))
        t = self.stream.t  # the clock of the history counts a late event when it arrives
        return int(np.searchsorted(t, comparable_times(time, self.history.events["t"].dtype).item()))

    def _last_event(self, known: int) -> float | None:
        """Return the time of the last of the first ``known`` events."""
        return None if not known else self.stream.t[known - 1].item()

    def _rows_to_embed(self, nodes: Sequence[int | str] | None, side: Side | None) -> NDArray[np.int64]:
        if side not in (None, *get_args(Side)):
            raise ConfigError(unknown("side", str(side), get_args(Side)))
        if nodes is None:
            column = {None: np.arange(self.stream.num_nodes), "src": self.stream.src, "dst": self.stream.dst}
            return np.unique(column[side])
        if isinstance(nodes, str) or not isinstance(nodes, Iterable):
            raise ConfigError(f"nodes={nodes!r}: pass a list of ids, such as [{nodes!r}].")
        return self._rows(nodes, side)

    @overload
    def recommend(  # type: ignore[overload-overlap]  # text is a sequence of text, too
        self,
        nodes: int | str,
        at: TimeLike | None = ...,
        k: int = ...,
        *,
        exclude_seen: bool = ...,
        candidates: Sequence[int | str] | None = ...,
        side: Side = ...,
    ) -> RecommendationList: ...
    @overload
    def recommend(
        self,
        nodes: Sequence[int | str] | NDArray[Any],
        at: TimeLike | None = ...,
        k: int = ...,
        *,
        exclude_seen: bool = ...,
        candidates: Sequence[int | str] | None = ...,
        side: Side = ...,
    ) -> RecommendationLists: ...

    def recommend(
        self,
        nodes: int | str | Sequence[int | str] | NDArray[Any],
        at: TimeLike | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = False,
        candidates: Sequence[int | str] | None = None,
        side: Side = "src",
    ) -> RecommendationList | RecommendationLists:
        """Return the ``k`` destinations that a source is most likely to meet at a time, best first.

        Several sources get a list each. The candidates are the destinations of all events before that time,
        or those given, without unknown ones; ``exclude_seen`` leaves out those that the source has met.
        ``side="dst"`` recommends sources to destinations. A node without events before that time gets the
        most popular candidates, and its list is marked as ``cold_start``. Scores of a learned model within
        1e-5 of the best of them tie (``Model.resolution``), and tied nodes keep the order of ``stream.ids``.
        """
        check_k(k)
        check_flag("exclude_seen", exclude_seen)
        if side not in get_args(Side):
            raise ConfigError(unknown("side", str(side), get_args(Side)))
        if isinstance(candidates, str) or not isinstance(candidates, Iterable | None):
            raise ConfigError(f"candidates={candidates!r}: pass a list of ids, such as [{candidates!r}].")
        one = isinstance(nodes, str) or not isinstance(nodes, Iterable)
        names: list[int | str] = [nodes] if one else list(nodes)  # type: ignore[list-item, arg-type]
        with self.online.reading():
            time = self._time(at)
            past = self.stream[: self._known_events(time)]
            if candidates is None:
                among = known_candidates(past, side)
            else:
                among = self._candidates(candidates, "dst" if side == "src" else "src")
            with self.state_at(time) as state:
                recommender = Recommender(self.model, state, self.history, past, time, side)
                lists = recommender.answers(names, among, k, exclude_seen)
        return lists[0] if one else RecommendationLists(lists)

    def _candidates(self, given: Sequence[int | str], side: Side) -> NDArray[np.int64]:
        """Return the numbers of candidates without unknown ones; raise ``DataError`` if none is known."""
        ids, names = self.stream.ids, list(given)
        try:
            rows = np.array(
                [ids.number_of(name, dst=side == "dst") if ids.has(name) else -1 for name in names], np.int64
            )
            if len(rows) and rows.max() < 0:
                ids.find(names[0], side)  # says why it is not known
        except DataError as error:
            raise type(error)(f"candidates (--candidates): {error}") from None
        if len(left_out := np.flatnonzero(rows < 0)):
            log.warning(
                f"candidates (--candidates): left out {len(left_out):,} of {len(rows):,} that no event has "
                f"as a {KIND_OF_SIDE[side]}, such as {names[left_out[0]]!r}."
            )
        return np.unique(rows[rows >= 0])

    def nearest(
        self, node: int | str, k: int = 10, at: TimeLike | None = None, side: Side | None = None
    ) -> SimilarNodes:
        """Return the ``k`` nodes with the most similar embeddings at a time, by cosine, best first.

        They are on the same side as the node in a bipartite stream, and have events before that time.
        """
        check_k(k)
        with self.online.reading():
            return self._nearest(node, k, at, side)

    def _nearest(self, node: int | str, k: int, at: TimeLike | None, side: Side | None) -> SimilarNodes:
        time, row = self._time(at), int(self._rows([node], side)[0])
        past = self.stream[: self._known_events(time)]
        others = np.setdiff1d(np.concatenate([past.src, past.dst]), [row])
        if (is_dst := self.stream.ids.is_dst) is not None:
            others = others[is_dst[others] == is_dst[row]]
        nodes = torch.from_numpy(np.concatenate([[row], others]))
        with self.state_at(time) as state:
            vectors = torch.from_numpy(self._embed(state, nodes, time)).double()
        units = torch.nn.functional.normalize(vectors, dim=1)
        chosen, values = best(units[1:] @ units[0], k, self.model.resolution)
        names = self.stream.ids.labels[others[chosen]].tolist()
        found = [SimilarNode(*one) for one in zip(names, values.tolist(), strict=True)]
        return SimilarNodes(found, node=node, at=time.item(), last_event=self._last_event(len(past)))

    def score(
        self,
        src: int | str | Sequence[int | str] | NDArray[Any],
        dst: int | str | Sequence[int | str] | NDArray[Any] | None = None,
        t: TimeLike | Sequence[TimeLike] | NDArray[Any] | None = None,
        *,
        as_of: AsOf | None = None,
    ) -> Scores:
        """Score pairs of sources and destinations, all at one time or each at its own.

        The default time is just after the last event. A single id is paired with all of the other side.
        Every pair is scored from the events strictly before its time. ``as_of`` is when states are read:

        - ``event``: at the pair's own time, as ``embed`` and ``recommend`` do, in one pass per distinct time;
        - ``batch``: as evaluation does, at the start of the pair's batch (after the last event: just after
          it), while neighbors and counts are those of the pair's own time. 100,000 times take seconds.

        The default is ``event`` for a single time and ``batch`` for a time per pair.

        A node without events before a pair's time is scored by what the model knows of any new node, and the
        pair is marked as ``cold_start``. Nodes that no event has named are such nodes; with some of
        them a call takes longer, since the state is copied.

        The pairs of a file or a table: ``score_pairs``.
        """
        if dst is None:
            raise ConfigError(
                "score has no dst: pass score(src, dst, t), or a file or a table of pairs to score_pairs."
            )
        with self.online.reading():
            return self._score(src, dst, t, as_of)

    def score_pairs(
        self,
        pairs: Any,
        reading: ReadOptions | None = None,
        *,
        as_of: AsOf = "batch",
        **options: Unpack[ReadKeywords],
    ) -> Scores:
        """Score the rows of a file or a table, each at its own time, in their order (see ``score``).

        ``pairs`` is anything that ``observe`` takes. ``reading`` and keywords say how it is read:
        ``score_pairs("log.csv", src="who", t="when")``. Columns that are not named are those that the run was
        trained with, or are recognized by their names.
        """
        check_as_of(as_of)  # before a large file is read
        given = reading_options(reading).updated(**options)
        try:
            table = read_pairs(pairs, given, usual=self.stream.read_as)
        except NoEventsError as error:
            log.warning(f"{error.problem}; nothing is scored.")
            return self._no_scores()
        return self.score_columns(table.columns, table.place, as_of)

    def _score(self, src: Any, dst: Any, t: Any, as_of: AsOf | None) -> Scores:
        one_time = t is None or isinstance(t, str) or not isinstance(t, Iterable)
        sources, destinations = paired(src, dst)
        if one_time:
            times = np.broadcast_to(self._time(t).cpu().numpy(), len(sources))
        else:
            times = pair_times(t, self.stream.time_span, self.stream.date_format)
        check_lengths({"src": len(sources), "dst": len(destinations), "t": len(times)}, "score")
        pairs = EventColumns(
            validate_ids(Column.of(sources, "src", "score")),
            validate_ids(Column.of(destinations, "dst", "score")),
            times,
        )
        return self.score_columns(pairs, row_place("score"), as_of or ("event" if one_time else "batch"))

    def score_columns(
        self, pairs: EventColumns, place: Callable[[int], str], as_of: AsOf = "batch"
    ) -> Scores:
        """Score the pairs of a table (see ``score``); ``place`` names a row in error messages."""
        check_as_of(as_of)
        with self.online.reading():
            return self._score_columns(pairs, place, as_of)

    def _score_columns(self, pairs: EventColumns, place: Callable[[int], str], as_of: AsOf) -> Scores:
        src = self.stream.ids.numbers_of(pairs.src, "src")
        dst = self.stream.ids.numbers_of(pairs.dst, "dst")
        if (src < 0).any() or (dst < 0).any():
            return self._with_nodes_of(pairs, place)._score_columns(pairs, place, as_of)
        span = self.stream.time_span
        t = score_times(in_unit_of(span, pairs.t, dates=pairs.dates), span, place)
        order = np.argsort(t, kind="stable")
        ordered = Pairs(
            *(torch.from_numpy(column[order]).to(self.history.device) for column in (src, dst, t))
        )
        found = score_pairs(self.model, self.history, ordered, self._groups(ordered, as_of), self.state_at)
        score, cold = np.empty(len(t)), np.empty(len(t), dtype=np.bool_)
        score[order] = found.double().cpu().numpy()
        events = [self.history.count_before(nodes, ordered.t) for nodes in (ordered.src, ordered.dst)]
        cold[order] = (torch.minimum(*events) == 0).cpu().numpy()
        return self._scores_of(src, dst, t, score, cold)

    def _with_nodes_of(self, pairs: EventColumns, place: Callable[[int], str]) -> Self:
        """Return a copy, for reading only, that also knows the nodes of pairs that no event has named."""
        known = GrowingIds(self.stream.ids)
        found = known.number(pairs.src, pairs.dst)
        reject_other_side(known, found, place)
        arrivals = self.arrivals.with_nodes(found.labels, found.is_dst, self.new_node)
        state = self.state.blank_like(arrivals.stream.num_nodes)
        state.restore(self.state.snapshot())
        grown = copy(self)
        grown._lock = ReadWriteLock()
        history = self.history.with_nodes(arrivals.stream.num_nodes)
        grown._set_events(arrivals, state, self.online.tip, history)
        return grown

    def _groups(self, pairs: Pairs, as_of: AsOf) -> list[Group]:
        now = self._time(None)
        if not self.model.reads_state:
            return [Group(0, len(pairs.t), now)]
        return grouped(pairs, as_of, self.online.batches, self.history.events["t"][-1], now)

    def _no_scores(self) -> Scores:
        none = np.empty(0, np.int64)
        return self._scores_of(none, none, self.stream.t[:0], np.empty(0), np.empty(0, np.bool_))

    def _scores_of(
        self,
        src: NDArray[np.int64],
        dst: NDArray[np.int64],
        t: Array,
        score: NDArray[np.float64],
        cold: NDArray[np.bool_],
    ) -> Scores:
        known = np.searchsorted(self.stream.t, t, side="left")
        probability = surprise = None
        if self.model.learns:
            surprise = np.logaddexp(0, -score) / math.log(2)  # keeps its digits where 1 + exp(-x) loses them
            probability = np.exp2(-surprise)
        labels = self.stream.ids.labels
        last = self._last_events(known)
        ends, dates = (labels[src], labels[dst]), self.stream.dates
        return Scores(*ends, t, score, probability, surprise, known, last, cold, dates)

    def trajectory(
        self, node: int | str, times: Sequence[TimeLike] | NDArray[Any], side: Side | None = None
    ) -> Trajectory:
        """Embed one node at many times (ascending), between its events too.

        Times after the node's latest event give its continuous path from there to now.
        """
        with self.online.reading():
            ascending = ascending_times(times, self.stream.time_span, self.stream.date_format)
            rows = torch.from_numpy(self._rows([node], side=side))
            embeddings = []
            for value in ascending.tolist():
                time = self._time(value)
                with self.state_at(time) as state:
                    embeddings.append(self._embed(state, rows, time)[0])
            last = self._last_events(np.searchsorted(self.stream.t, ascending, side="left"))
            return Trajectory(node, ascending, np.stack(embeddings), last, self.stream, int(rows[0]))

    def _last_events(self, known: NDArray[np.int64]) -> np.ma.MaskedArray[Any, Any]:
        """Return the time of the last of the first events, for numbers of events; masked where it is 0."""
        return np.ma.masked_array(self.stream.t[np.maximum(known - 1, 0)], mask=known == 0)

    def state_at(self, time: Tensor) -> AbstractContextManager[NodeState]:
        """Return a context with the state that has observed exactly the events strictly before ``time``.

        Only read it, and only inside the context.
        """
        return self.online.at(time)

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

    # -- ids and times ---------------------------------------------------------------------------

    def _rows(self, nodes: Sequence[int | str], side: Side | None = None) -> NDArray[np.int64]:
        return np.array([self.stream.ids.find(node, side) for node in nodes], dtype=np.int64)

    def _time(self, given: TimeLike | None) -> Tensor:
        """Return a time on the history's device; None means just after the last event."""
        return query_time(given, self.stream.time_span, self.history.events["t"], self.stream.date_format)
