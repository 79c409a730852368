"""Recommendation: at which rank does the true destination stand among all the candidates?

Candidates of an event are all destinations of the stream but the *other* true ones of its source and
time. That is also the rule of TGB's ``tgbl-wiki``: its 999 negatives are what its 1,000 destinations
leave. With ``candidates=N`` there are ``N`` rivals instead, drawn once for each event without
replacement: up to half of them destinations that the source met in training, the others any, as TGB
draws for its larger streams. The draws are ours, not those of TGB's files.

Ties count as the mean of the best and the worst rank, so a rule that tells nobody apart gains nothing.

Each candidate is embedded *at the event's own time*. It cannot be done once for a batch: who was active
a minute ago is what decides most ranks, and with the candidates' clock stopped at the batch's first event
a third to a half of the MRR is left (``contig bench --only ranking-times`` measures it).
``as_of="batch"`` asks another question, at a hundredth of the cost: everything, sources included, stands
at the time of the batch's first event, so that no query knows anything of its batch. Benchmarks that
append to their neighbour lists only after a batch measure that.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import Split
from contig.errors import ConfigError, unknown
from contig.history import History
from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.link import EVALUATION_SEED, by_selection, check_scores
from contig.tasks.metrics import rank_metrics
from contig.tasks.results import RankMetrics, RecommendProtocol, RecommendResult, Selections
from contig.tasks.setting import Setting

AsOf = Literal["event", "batch"]
DRAWN_AT_ONCE = 2**22  # random numbers; bounds the memory of drawing rivals

TIES = "mean of the best and the worst rank"
TIMES = {
    "event": "candidates and sources at each event's own time",
    "batch": "candidates and sources at the time of the batch's first event",
}


class Ranker:
    """Walks events in order: ranks each one's true destination among its candidates, then observes them."""

    def __init__(
        self,
        model: Model,
        state: NodeState,
        history: History,
        batch_size: int,
        negatives: Negatives,
        as_of: AsOf = "event",
    ) -> None:
        if as_of not in get_args(AsOf):
            raise ConfigError(unknown("value for as_of", as_of, get_args(AsOf)))
        self.model, self.state, self.history = model, state, history
        self.batch_size, self.negatives, self.as_of = batch_size, negatives, as_of
        self._all = Walker(model, state, history, batch_size, self._among_all)
        self._rivals = self._row = torch.empty(0)

    def __call__(
        self,
        events: NDArray[np.int64],
        rivals: NDArray[np.int64] | None = None,
        progress: Progress = no_progress,
    ) -> NDArray[np.float32]:
        """The rank ``[events]`` of each true destination, 1 being the best; NaN where a score is no number.

        Rivals are all other destinations, or those given as ``[events, count]``, filled up with -1.
        """
        if rivals is None:
            return self._all.read_all(events, progress)
        self._rivals = torch.from_numpy(rivals).to(self.history.device)
        self._row = torch.zeros(self.history.num_events, dtype=torch.int64, device=self.history.device)
        self._row[torch.from_numpy(events).to(self.history.device)] = torch.arange(
            len(events), device=self.history.device
        )
        # a walk of its own: a captured one would go on reading the rivals of the call before
        walker = Walker(self.model, self.state, self.history, self.batch_size, self._among_drawn)
        return walker.read_all(events, progress)

    def _among_all(self, batch: EventBatch) -> Tensor:
        candidates, true = self.negatives.candidates(batch.event)
        return ranks(
            self._logits(batch, candidates),
            torch.searchsorted(candidates, batch.dst),
            ~true,
            self.model.resolution,
        )

    def _among_drawn(self, batch: EventBatch) -> Tensor:
        rivals = self._rivals[self._row[batch.event]]
        own = batch.dst.unsqueeze(1)
        logits = self._logits(batch, torch.cat([own, torch.where(rivals >= 0, rivals, own)], dim=1))
        counts = torch.nn.functional.pad(rivals >= 0, (1, 0))
        return ranks(logits, torch.zeros_like(batch.dst), counts, self.model.resolution)

    def _logits(self, batch: EventBatch, candidates: Tensor) -> Tensor:
        first = batch.t[0]
        times = batch.t if self.as_of == "event" else first
        return self.model.rank(self.state, self.history, batch.src, candidates, times, first)


def ranks(logits: Tensor, own: Tensor, rival: Tensor, resolution: float = 0.0) -> Tensor:
    """The rank ``[n]`` of column ``own`` of each row of ``[n, m]`` among the columns that are rivals.

    Scores within ``resolution`` of the own one are ties, relative to it where it exceeds 1.
    """
    mine = logits.gather(1, own.unsqueeze(1))
    slack = resolution * mine.abs().clamp(min=1)
    above = ((logits > mine + slack) & rival).sum(dim=1)
    tied = ((logits >= mine - slack) & rival).sum(dim=1) - above
    sound = mine.squeeze(1).isfinite() & (logits.isfinite() | ~rival).all(dim=1)
    return torch.where(sound, 1 + above + tied / 2, torch.nan)


def best_first(scores: Tensor, resolution: float = 0.0) -> Tensor:
    """The order ``[n]`` of scores ``[n]``, best first, where equal ones keep the order they came in.

    Equal are those within ``resolution`` of the best of them, relative to it where it exceeds 1.
    """
    ordered = scores.sort(descending=True, stable=True)
    if not resolution:
        return ordered.indices
    values, group = ordered.values.tolist(), 0
    groups: list[int] = []
    for value in values:
        if values[group] - value > resolution * max(1.0, abs(values[group])):
            group = len(groups)
        groups.append(group)
    place = torch.tensor(groups, dtype=torch.int64, device=scores.device) * len(values) + ordered.indices
    return ordered.indices[place.argsort()]


def draw_rivals(
    stream: EventStream, split: Split, events: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """``count`` distinct rivals of each event's true destination ``[events, count]``, filled up with -1.

    Up to half are destinations that the source met in training, the others any destinations; none is
    true at the event's source and time. They depend on the stream, the split and the events alone, so
    every model and batch size is measured on the same ones.
    """
    if count < 1:
        raise ConfigError(f"candidates={count}: a destination needs at least one rival to be ranked among.")
    negatives = Negatives(stream, events=events)
    everyone = stream.destinations
    met = np.unique(stream.src[split.train] * stream.num_nodes + stream.dst[split.train])
    rng = np.random.default_rng(EVALUATION_SEED)
    parts = []
    for rows in np.array_split(events, -(-2 * len(events) * len(everyone) // DRAWN_AT_ONCE) or 1):
        true = negatives.candidates(torch.from_numpy(rows))[1].numpy()
        known = np.isin(stream.src[rows, None] * stream.num_nodes + everyone, met)
        chosen = _choose(rng.random((len(rows), 2, len(everyone))), true, known & ~true, count)
        parts.append(np.where(np.take_along_axis(true, chosen, axis=1), -1, everyone[chosen]))
    return np.concatenate(parts)


def _choose(
    luck: NDArray[np.float64], true: NDArray[np.bool_], known: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """Columns ``[rows, count]`` by two lots for each, the true ones last.

    By the first lots up to half are chosen of the known, by the second ones the rest of all others: with
    one lot for both, a known column that was not chosen would hardly be chosen among the others.
    """
    early = _smallest(np.where(known, luck[:, 0], np.inf), count // 2)
    order = np.where(true, np.inf, luck[:, 1])
    ahead = np.where(np.take_along_axis(known, early, axis=1), -1.0, np.take_along_axis(order, early, axis=1))
    np.put_along_axis(order, early, ahead, axis=1)
    return _smallest(order, count)


def _smallest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The columns of each row's ``count`` smallest values, in no order; all of them where there are fewer."""
    if count >= values.shape[1]:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, count, axis=1)[:, :count]


def recommend_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    found: NDArray[np.float32],
    *,
    inductive: bool = True,
) -> Selections[RankMetrics]:
    """Measure every selection of the events."""
    check_scores(stream, events, found)

    def metrics(rows: NDArray[np.bool_]) -> RankMetrics:
        return rank_metrics(found[rows])

    def count(number: int) -> RankMetrics:
        return RankMetrics(events=number)

    return by_selection(stream, split, events, metrics, count, inductive=inductive)


def measure(setting: Setting, candidates: int | None = None, as_of: AsOf = "event") -> RecommendResult:
    """Ranks of the test events' destinations among all others, or among ``candidates`` drawn ones."""
    stream, split, events = setting.stream, setting.split, setting.split.test
    negatives = Negatives(stream, events=events, device=setting.history.device)
    ranker = Ranker(setting.model, setting.state, setting.history, setting.batch_size, negatives, as_of)
    if candidates is not None and candidates >= len(stream.destinations) - 1:
        candidates = None  # nobody would be left out
    rivals = None if candidates is None else draw_rivals(stream, split, events, candidates)
    with setting.bar("ranking", len(events)) as progress:
        found = ranker(events, rivals, progress)
    chosen = f"all {len(stream.destinations):,} destinations but the other true ones of that source and time"
    if candidates is not None:
        chosen = (
            f"{candidates:,} drawn for each event, up to half of them met by its source in training, none "
            "true at its source and time"
        )
    protocol = RecommendProtocol.of(
        "recommend",
        split.holdout,
        inductive=setting.model.inductive,
        candidates=chosen,
        ties=TIES,
        times=TIMES[as_of],
        candidate_seed=None if candidates is None else EVALUATION_SEED,
    )
    report = recommend_report(stream, split, events, found, inductive=setting.model.inductive)
    return RecommendResult(protocol=protocol, **report.each())
