"""The answers of a live engine, in the user's ids."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import LATEST, TimeLike, TimeSpan, check_unit, parse_time
from contig.data.columns import Array
from contig.data.ids import KIND_OF_SIDE, Side
from contig.errors import ConfigError, DataError, UnknownNodeError, unknown
from contig.live.answers import Embeddings, FoundNode, LiveTrajectory, PastEvent
from contig.live.graph import LiveGraph, View
from contig.live.ids import NodeIndex
from contig.live.partners import Partners
from contig.models.checks import check_embeddings
from contig.options import check_flag
from contig.runs.answers import Recommendation, RecommendationList, Scores
from contig.runs.queries import check_k
from contig.runs.recommending import CANDIDATES_AT_ONCE, best

MAX_STEPS = 10_000
MAX_EXACT = 2**53  # float64 holds all integers up to here

Id = int | str
Ints = NDArray[np.int64]


class Queries:
    """Answers from a graph and the user's ids; any number of threads may ask."""

    def __init__(
        self,
        graph: LiveGraph,
        ids: NodeIndex,
        partners: Partners,
        span: TimeSpan,
        date_format: str | None = None,
    ) -> None:
        self.graph, self.ids, self.partners = graph, ids, partners
        self.span, self._date_format = span, date_format  # used to convert dates

    # -- answers -----------------------------------------------------------------------------------------

    def embed(self, ids: Sequence[Id], at: TimeLike | None = None, side: Side | None = None) -> Embeddings:
        """Embed nodes at a time."""
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise ConfigError(f"ids={ids!r}: pass a list of ids, such as [{ids!r}].")
        names = list(ids)
        time = self._time(at)
        with self.graph.view(time) as view:
            rows = self._known([self._find(name, side) for name in names])
            vectors = self._vectors(view, rows)
            return Embeddings(tuple(names), vectors, view.at.item(), self._last_event(view))

    def score(self, src: Sequence[Id], dst: Sequence[Id], at: TimeLike | None = None) -> Scores:
        """Score pairs at a time."""
        sources, destinations = list(src), list(dst)
        if len(sources) != len(destinations) or not sources:
            raise DataError(
                f"src has {len(sources):,} ids and dst {len(destinations):,}; pass pairs, at least one."
            )
        time = self._time(at)
        with self.graph.view(time, with_state=self.graph.model.reads_state) as view:
            ours = self._known([self._find(name, "src") for name in sources])
            theirs = self._known([self._find(name, "dst") for name in destinations])
            return self._scores(ours, theirs, self._logits(view, ours, theirs), view)

    def recommend(
        self,
        id: Id,
        at: TimeLike | None = None,
        k: int = 10,
        exclude_seen: bool = False,
        side: Side = "src",
    ) -> RecommendationList:
        """Rank the candidates on the other side for a node at a time."""
        check_k(k)
        check_flag("exclude_seen", exclude_seen)
        if side not in get_args(Side):
            raise ConfigError(unknown("side", str(side), get_args(Side)))
        time = self._time(at)
        with self.graph.view(time, with_state=self.graph.model.reads_state) as view:
            node = self._node_or_new(id, side)
            candidates = self.partners.candidates(side, view.at)
            candidates = candidates[candidates != node]
            warm = node >= 0 and self._has_events(node, view.at)
            if warm and exclude_seen:
                candidates = np.setdiff1d(candidates, self.partners.met(node, side, view.at))
            if warm:
                found = self._ranked(view, node, candidates, k, side)
            else:
                found = self._popular(candidates, k, side, view.at)
            return RecommendationList(
                found,
                node=id,
                at=view.at.item(),
                last_event=self._last_event(view),
                cold_start=not warm,
                learns=self.graph.model.learns,
                dates=self.span.dates,
            )

    def trajectory(
        self, id: Id, start: TimeLike, end: TimeLike, steps: int, side: Side | None = None
    ) -> LiveTrajectory:
        """Embed a node at equally spaced times."""
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS:
            raise ConfigError(f"steps={steps!r}: pass a whole number from 1 to {MAX_STEPS:,}.")
        first, last = (self._given_time(given).item() for given in (start, end))
        if last < first:
            ends = self.span.written(last), self.span.written(first)
            raise DataError(f"The trajectory ends, at {ends[0]}, before it starts, at {ends[1]}.")
        times = _spaced(first, last, steps)
        whole = self._tensor(times) if (np.floor(times) == times).all() else torch.from_numpy(times)
        whole = whole.to(self.graph.history.device)
        vectors, known = [], None
        for time in whole:
            with self.graph.view(time) as view:
                node = self._known([self._find(id, side)])
                vectors.append(self._vectors(view, node))
                known = self.graph.history.events["t"][-1].item()
        assert known is not None
        return LiveTrajectory(id, whole.cpu().numpy(), np.concatenate(vectors), known)

    def recent_events(self, id: Id, k: int = 20, side: Side | None = None) -> list[PastEvent]:
        """List the last events of a node, newest first."""
        check_k(k)
        with self.graph.lock.reading():
            node = self._find(id, side)
            events, times = self.partners.last_events(node, k)
            columns = self.graph.history.events
            src, dst = (self.ids.names(columns[name][events].tolist()) for name in ("src", "dst"))
            return [PastEvent(*one) for one in zip(src, dst, times.tolist(), strict=True)]

    def find(self, prefix: str, limit: int = 20) -> list[FoundNode]:
        """List nodes whose ids start with a prefix, in order of their ids."""
        # Nodes that were applied stay as they are, so sorting many ids need not keep events waiting.
        numbers = self.ids.by_prefix(str(prefix), limit, self.graph.history.num_nodes)
        return [FoundNode(self.ids.labels[number], self.ids.side(number)) for number in numbers]

    # -- nodes and times ---------------------------------------------------------------------------------

    def _find(self, label: Id, side: Side | None) -> int:
        return self.ids.find(label, side, below=self.graph.history.num_nodes)

    def _known(self, numbers: list[int]) -> Tensor:
        return self._tensor(np.array(numbers, dtype=np.int64))

    def _tensor(self, array: Array) -> Tensor:
        t = self.graph.history.events["t"]
        if array.dtype.kind == "f" and not t.is_floating_point():
            array = array.astype(np.int64)
        return torch.from_numpy(array).to(self.graph.history.device)

    def _node_or_new(self, label: Id, side: Side) -> int:
        """Return a node, -1 for one that no event has named; reject the other side's nodes."""
        try:
            return self._find(label, side)
        except UnknownNodeError:
            if self.ids.bipartite:
                other: Side = "dst" if side == "src" else "src"
                try:
                    self._find(label, other)
                except UnknownNodeError:
                    return -1
                raise DataError(
                    f"Node {label!r} is a {KIND_OF_SIDE[other]}; pass side={other} to get a list for it."
                ) from None
            return -1

    def _time(self, given: TimeLike | None) -> Tensor | None:
        """Return a time as a tensor; None stays None, which means just after the last event."""
        return None if given is None else self._given_time(given)

    def _given_time(self, given: TimeLike) -> Tensor:
        t = self.graph.history.events["t"]
        at = parse_time(given, self.span, f"at={given!r}", self._date_format)
        if not abs(at) < LATEST:
            raise DataError(f"at={given!r}: pass a finite time.")
        check_unit(np.array([at]), self.span, lambda _: "at")
        whole = math.floor(at) == at
        return torch.tensor(at, dtype=t.dtype if whole else torch.float64, device=t.device)

    def _last_event(self, view: View) -> int | float | None:
        """Return the time of the last event before the query."""
        if not view.events:
            return None
        last: int | float = self.graph.history.events["t"][view.events - 1].item()
        return last

    def _has_events(self, node: int, time: Tensor) -> bool:
        nodes = self._known([node])
        return bool(self.graph.history.count_before(nodes, time.reshape(1))[0] > 0)

    # -- the model ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def _vectors(self, view: View, nodes: Tensor) -> NDArray[np.float32]:
        model, history = self.graph.model, self.graph.history
        found = model.embed(view.state, history, nodes, view.at.repeat(len(nodes)), view.as_of)
        vectors: NDArray[np.float32] = check_embeddings(model, found, len(nodes)).float().cpu().numpy()
        return vectors

    @torch.no_grad()
    def _logits(self, view: View, src: Tensor, dst: Tensor) -> Tensor:
        times = view.at.repeat(len(src))
        model, history = self.graph.model, self.graph.history
        return model.rank(view.state, history, src, dst.unsqueeze(1), times, view.as_of).squeeze(1)

    @torch.no_grad()
    def _ranked(self, view: View, node: int, candidates: Ints, k: int, side: Side) -> list[Recommendation]:
        if not len(candidates):
            return []
        ours, parts = self._known([node]), []
        model, history = self.graph.model, self.graph.history
        for theirs in self._tensor(candidates).split(CANDIDATES_AT_ONCE):
            src, dst = (ours, theirs) if side == "src" else (theirs, ours)
            parts.append(model.rank(view.state, history, src, dst, view.at, view.as_of).flatten())
        chosen, scores = best(torch.cat(parts), k, model.resolution)
        values = scores.double()
        likely = values.sigmoid().tolist() if model.learns else [None] * len(values)
        names = self.ids.names(candidates[chosen].tolist())
        return [Recommendation(*one) for one in zip(names, values.tolist(), likely, strict=True)]

    def _popular(self, candidates: Ints, k: int, side: Side, time: Tensor) -> list[Recommendation]:
        counts = self.partners.counts(candidates, side, time)
        order = np.argsort(-counts, kind="stable")[:k]
        names = self.ids.names(candidates[order].tolist())
        return [Recommendation(name, float(n), None) for name, n in zip(names, counts[order], strict=True)]

    def _scores(self, src: Tensor, dst: Tensor, logits: Tensor, view: View) -> Scores:
        score = logits.double().cpu().numpy()
        surprise = probability = None
        if self.graph.model.learns:
            surprise = np.logaddexp(0, -score) / math.log(2)
            probability = np.exp2(-surprise)
        last = self._last_event(view)
        times = np.full(len(score), view.at.item())
        known = np.full(len(score), view.events)
        masked: Any = np.ma.masked_array(np.full(len(score), 0 if last is None else last), mask=last is None)
        labels = [np.array(self.ids.names(rows.tolist())) for rows in (src, dst)]
        at = view.at.repeat(len(src))
        counts = [self.graph.history.count_before(nodes, at) for nodes in (src, dst)]
        cold = (torch.minimum(*counts) == 0).cpu().numpy()
        dates = self.span.dates
        return Scores(labels[0], labels[1], times, score, probability, surprise, known, masked, cold, dates)


def _spaced(first: float, last: float, steps: int) -> Array:
    """Return equally spaced times; integers that float64 cannot hold, such as nanoseconds, stay integers."""
    whole = isinstance(first, int) and isinstance(last, int)
    if not whole or max(abs(first), abs(last)) <= MAX_EXACT:
        return np.linspace(first, last, steps)
    return np.array([first + (last - first) * i // max(steps - 1, 1) for i in range(steps)])
