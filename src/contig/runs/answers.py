"""What a trained run answers: scores, recommendations, trajectories and classifications."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array
from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.files import as_path
from contig.tasks.calibration import LabelQuality
from contig.tasks.classify import LabelParts
from contig.tasks.label_warnings import (
    equal_probabilities,
    few_labels,
    loses_to_baseline,
    no_better_than_chance,
    no_test_labels,
)
from contig.tasks.tables import percent
from contig.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure


class Recommendation(NamedTuple):
    """A candidate, by the user's id, and its score.

    ``score`` is the logit of a learned model, or the score of a heuristic. ``probability`` is that of the
    logit: of being the true destination rather than a random one. A heuristic and a cold start have none.
    """

    node: int | str
    score: float
    probability: float | None


ScoreKind = Literal["logit", "heuristic", "events"]
SHOWN = 3  # recommendations in a repr


class RecommendationList(list[Recommendation]):
    """The recommendations for one node, best first.

    ``node`` is the user's id, ``at`` the time they are for and ``last_event`` that of the last event they
    know, None if there is none. ``cold_start`` marks a node without events before that time: its list holds
    the candidates with the most events, scored by their number. ``score_kind`` says what scores are: logits
    of a learned model, scores of a heuristic, or numbers of events. ``dates`` says whether the run was
    trained on dates; the times are then Unix seconds.
    """

    def __init__(
        self,
        found: Iterable[Recommendation],
        *,
        node: int | str,
        at: float,
        last_event: float | None,
        cold_start: bool,
        learns: bool,
        dates: bool = False,
    ) -> None:
        super().__init__(found)
        self.dates = dates
        self.node, self.at, self.last_event, self.cold_start = node, at, last_event, cold_start
        warm: ScoreKind = "logit" if learns else "heuristic"
        self.score_kind: ScoreKind = "events" if cold_start else warm

    def __repr__(self) -> str:
        """Return the best nodes and their scores, and say so where they are the same for every new node."""
        best = [f"{one.node!r} {one.score:.4g}" for one in self[:SHOWN]]
        more = [f"... {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        cold = ", cold start" if self.cold_start else ""
        return (
            f"RecommendationList({self.node!r} at {self.at}{cold}: {', '.join([*best, *more]) or 'nothing'})"
        )

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per recommendation, and the columns that ``recommend`` writes.

        Times are timestamps if the run was trained on dates.
        """
        from contig.data.exports import as_pandas

        return as_pandas(list_table([self]), dates=self.dates)


class RecommendationLists(list[RecommendationList]):
    """The recommendations for several nodes, a list for each in the order of the nodes."""

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per recommendation, and the columns that ``recommend`` writes.

        Times are timestamps if the run was trained on dates.
        """
        from contig.data.exports import as_pandas

        return as_pandas(list_table(self), dates=any(one.dates for one in self))


def list_table(lists: Sequence[RecommendationList]) -> pa.Table:
    """Return one row per recommendation of each list."""
    import pyarrow as pa

    rows = [(of, rank, one) for of in lists for rank, one in enumerate(of, 1)]
    return pa.table(
        {
            "node": [of.node for of, _, _ in rows],
            "rank": [rank for _, rank, _ in rows],
            "recommended": [one.node for _, _, one in rows],
            "score": [one.score for _, _, one in rows],
            "probability": pa.array([one.probability for _, _, one in rows], pa.float64()),
            "score_kind": [of.score_kind for of, _, _ in rows],
            "cold_start": [of.cold_start for of, _, _ in rows],
            "at": [of.at for of, _, _ in rows],
            "last_event": [of.last_event for of, _, _ in rows],
        }
    )


def mean_overlap(lists: Sequence[RecommendationList]) -> float:
    """Return how many nodes two of the lists have in common on average; 0 for a single list."""
    if len(lists) < 2:
        return 0.0
    times = Counter(one.node for found in lists for one in found)
    shared = sum(count * (count - 1) for count in times.values())
    return shared / (len(lists) * (len(lists) - 1))


class SimilarNode(NamedTuple):
    """A node, by the user's id, and the cosine similarity of its embedding."""

    node: int | str
    similarity: float


class SimilarNodes(list[SimilarNode]):
    """The nodes most similar to one node, best first.

    ``node`` is the user's id, ``at`` the time of the embeddings and ``last_event`` that of the last event
    they know, None if there is none.
    """

    def __init__(
        self, found: Iterable[SimilarNode], *, node: int | str, at: float, last_event: float | None
    ) -> None:
        super().__init__(found)
        self.node, self.at, self.last_event = node, at, last_event


class Embeddings(np.ndarray[tuple[int, int], np.dtype[np.float32]]):
    """Embeddings ``[nodes, d]``: a numpy array that knows its time.

    ``at`` is the time they are for and ``last_event`` that of the last event they know, None if there is
    none. Slices and copies keep both; what is computed from them is a plain array.
    """

    at: float
    last_event: float | None

    @classmethod
    def of(cls, vectors: NDArray[np.float32], at: float, last_event: float | None) -> Embeddings:
        """Return an array as embeddings of a time, without a copy."""
        found = vectors.view(cls)
        found.at, found.last_event = at, last_event
        return found

    def __array_finalize__(self, source: Any) -> None:
        self.at = getattr(source, "at", math.nan)
        self.last_event = getattr(source, "last_event", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __reduce__(self) -> Any:
        return Embeddings.of, (np.asarray(self), self.at, self.last_event)


@dataclass(frozen=True)
class Trajectory:
    """The embedding of one node over time.

    ``last_event`` is the time of the last event that each embedding knows, masked if there is none.
    """

    node: int | str
    times: NDArray[Any]  # [times]
    embeddings: NDArray[np.float32]  # [times, d]
    last_event: np.ma.MaskedArray[Any, Any] = field(compare=False)  # [times]
    stream: EventStream = field(compare=False)
    row: int = field(compare=False)  # of the node in the stream

    def __repr__(self) -> str:
        span = self.stream.time_span
        ends = " to ".join(span.written(self.times[i].item()) for i in (0, -1))
        times, width = self.embeddings.shape
        return f"Trajectory({self.node!r}: {counted(times, 'time')}, {ends}; embeddings of width {width})"

    def to_arrow(self, *, wide: bool = False, dates: bool = False) -> pa.Table:
        """Return the columns t and last_event, and the embeddings as lists or (``wide``) as e0, e1, ....

        With ``dates``, times that are Unix times become timestamps.
        """
        import pyarrow as pa

        from contig.data.exports import timestamps, vector_columns

        times = timestamps(self.times, self.stream) if dates else pa.array(self.times)
        last = pa.array(self.last_event.data, mask=np.ma.getmaskarray(self.last_event))
        return pa.table(
            {"t": times, "last_event": last, **vector_columns(self.embeddings, "embedding", "e", wide=wide)}
        )

    def to_frame(self, *, dates: bool = False) -> Any:
        """Return a pandas frame with a row per time and the columns t, last_event, e0, e1, ...."""
        from contig.data.exports import as_pandas

        return as_pandas(self.to_arrow(wide=True, dates=dates))

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the path, and save it if a file (png, svg or pdf) is given."""
        from contig import plots
        from contig.data.summary import summarize

        title = f"Node {self.node} in {Path(self.stream.origin).name}"
        summary = summarize(self.stream)
        figure = plots.trajectory(self.stream, summary, self.row, self.times, self.embeddings, title)
        if path is not None:
            plots.save(figure, as_path(path, "path"))
        return figure


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of pairs at times; every column is ``[pairs]``, in the order of the query.

    ``score`` is the logit of a learned model, or the score of a heuristic. ``probability`` is that of the
    logit: of being a true pair rather than one with a random destination. ``surprise`` is
    ``-log2(probability)``, in bits: 0 for a pair that was certain, 1 for one as likely as not, and one more
    each time the probability halves. A heuristic has neither. ``known_events`` counts the events strictly
    before each pair's time, and ``last_event`` is the time of the last of them, masked if there is none.
    ``cold_start`` marks pairs with a node that has no events before that time. ``dates`` says whether the run
    was trained on dates; the times are then Unix seconds.
    """

    src: Array
    dst: Array
    t: Array
    score: NDArray[np.float64]
    probability: NDArray[np.float64] | None
    surprise: NDArray[np.float64] | None
    known_events: NDArray[np.int64]
    last_event: np.ma.MaskedArray[Any, Any]
    cold_start: NDArray[np.bool_]
    dates: bool = False

    def __len__(self) -> int:
        return len(self.score)

    def __repr__(self) -> str:
        if not len(self):
            return "Scores(0 pairs)"
        low, high = self.score.min(), self.score.max()
        times = f"t {self.t.min()} to {self.t.max()}"
        cold = f"; {counted(int(self.cold_start.sum()), 'cold start')}" if self.cold_start.any() else ""
        return f"Scores({counted(len(self), 'pair')}, {times}; score {low:.4g} to {high:.4g}{cold})"

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per pair and the columns of ``table``, ``dates`` as timestamps."""
        from contig.data.exports import as_pandas

        return as_pandas(self.table(), dates=self.dates)

    def table(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        import pyarrow as pa

        columns: dict[str, Array | None] = {"src": self.src, "dst": self.dst, "t": self.t}
        columns |= {"score": self.score, "probability": self.probability, "surprise": self.surprise}
        arrays = {name: pa.array(column) for name, column in columns.items() if column is not None}
        last = pa.array(self.last_event.data, mask=np.ma.getmaskarray(self.last_event))
        return pa.table({**arrays, "last_event": last, "cold_start": pa.array(self.cold_start)})


def embedding_table(ids: NodeIds, rows: NDArray[np.int64], vectors: Embeddings, *, wide: bool) -> pa.Table:
    """Return the embeddings of nodes as a table (see ``embed_table``)."""
    import pyarrow as pa

    from contig.data.exports import vector_columns

    columns = {"node": pa.array(ids.labels[rows])}
    if ids.is_dst is not None:
        columns["side"] = pa.array(np.where(ids.is_dst[rows], "dst", "src"))
    columns["t"] = pa.array(np.full(len(rows), vectors.at))
    last = vectors.last_event
    columns["last_event"] = pa.array([last] * len(rows), columns["t"].type if last is None else None)
    return pa.table({**columns, **vector_columns(np.asarray(vectors), "embedding", "e", wide=wide)})


@dataclass(frozen=True, eq=False)
class Classification:
    """The probability of label 1 for events; every column is ``[events]``, in the order of the query.

    ``baseline`` is the probability by boosted trees on simple columns, without the graph. ``label`` and the
    qualities are None where events have no labels. For the events of the run itself, ``part`` says to which
    part each belongs (unused: to none), and the qualities are those of the test events. ``last_event`` is the
    time of the last event that a decision knew, masked if there was none. ``decoder`` was chosen by
    ``validation_aucs``; ``fitted_on`` counts the labels of the parts of the run that it was fitted and tested
    on. ``test_events`` is the number of test events of the run, with or without a label; None for new events.
    ``label_delay`` is how long after its event a label becomes known. ``dates`` says whether the run was
    trained on dates; the times are then Unix seconds.
    """

    src: Array
    dst: Array
    t: Array
    probability: NDArray[np.float64]
    baseline: NDArray[np.float64]
    label: NDArray[np.int64] | None
    part: NDArray[np.str_] | None
    quality: LabelQuality | None
    baseline_quality: LabelQuality | None
    last_event: np.ma.MaskedArray[Any, Any]
    decoder: str
    validation_aucs: dict[str, float]
    fitted_on: LabelParts
    test_events: int | None
    label_delay: float
    dates: bool = False

    def __len__(self) -> int:
        return len(self.probability)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say why the probabilities are of little use, if they are, and what to do."""
        if not len(self):
            return ()
        auc = self.validation_aucs[self.decoder]
        equal = equal_probabilities(self.probability, auc, self.fitted_on)
        useless = equal or no_better_than_chance(self.quality)
        which = "new" if self.part is None else "test"
        loss = None if equal else loses_to_baseline(self.quality, self.baseline_quality, which)
        unmeasured = no_test_labels(self.test_events or 0, self.fitted_on)
        return tuple(text for text in (useless, loss, unmeasured, few_labels(self.fitted_on)) if text)

    def __repr__(self) -> str:
        parts = [counted(len(self), "event")]
        if len(self):
            parts.append(f"probability {self.probability.min():.4g} to {self.probability.max():.4g}")
        if self.quality is not None and not math.isnan(self.quality.auc):
            which = "" if self.part is None else " of the test events"
            parts.append(f"AUC {percent(self.quality.auc)}%, AP {percent(self.quality.ap)}%{which}")
        return f"Classification({'; '.join(parts)})"

    def to_frame(self) -> Any:
        """Return a pandas frame with the columns of ``table``, ``dates`` as timestamps."""
        from contig.data.exports import as_pandas

        return as_pandas(self.table(), dates=self.dates)

    def table(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        import pyarrow as pa

        from contig.data.exports import label_column

        columns: dict[str, Array | None] = {"src": self.src, "dst": self.dst, "t": self.t}
        columns |= {"probability": self.probability, "baseline": self.baseline}
        columns |= {"label": self.label, "part": self.part}
        arrays = {name: pa.array(column) for name, column in columns.items() if column is not None}
        if self.label is not None:
            arrays["label"] = label_column(self.label)
        last = pa.array(self.last_event.data, mask=np.ma.getmaskarray(self.last_event))
        return pa.table({**arrays, "last_event": last})
