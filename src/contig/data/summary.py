"""A summary of a stream in numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.clock import Number, TimeSpan
from contig.data.events import EventStream
from contig.data.repeated_rows import repeated_rows
from contig.data.splits import Holdout, chronological_split, intervals
from contig.errors import DataError

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
EXAMPLES = 3


@dataclass(frozen=True)
class Ties:
    """The number of events at the same time as another."""

    events: int
    distinct_times: int
    largest_group: int


@dataclass(frozen=True)
class Part:
    """One part of the split; a node is new if it has no training event.

    The times and shares of an empty part are None.
    """

    events: int
    first: Number | None
    last: Number | None
    nodes: int
    new_nodes: int
    new_node_share: float | None
    events_with_new_node: int
    events_with_new_node_share: float | None


@dataclass(frozen=True)
class Repeats:
    """The number of distinct ordered pairs of source and destination.

    ``ratio`` is the share of events whose pair occurred earlier in the stream. ``rows`` counts the events
    with the same source, destination, time and features as an earlier one; it is None for an index on disk.
    """

    pairs: int
    ratio: float
    rows: int | None


@dataclass(frozen=True)
class Parts:
    """The parts of a chronological 70/15/15 split, and its holdout."""

    holdout: Holdout
    train: Part
    val: Part
    test: Part


@dataclass(frozen=True)
class Intervals:
    """Time since an event's source last appeared (``splits.intervals``).

    ``quantiles`` maps a share of the events to the interval that this share does not exceed;
    ``zeros`` counts first appearances and appearances at an equal time.
    """

    zeros: int
    quantiles: dict[str, float]


@dataclass(frozen=True)
class Degrees:
    """Events per node on one side; ``top_share`` is the share of the events at the busiest 1% of nodes.

    The 1% is rounded up to a whole number of nodes.
    """

    nodes: int
    median: float
    max: int
    top_share: float


@dataclass(frozen=True)
class Sides:
    """Events sent per source, and received per destination."""

    sources: Degrees
    destinations: Degrees


@dataclass(frozen=True)
class Features:
    """Widths of the feature vectors; 0 if there are none."""

    edge: int
    node: int


@dataclass(frozen=True)
class Ids:
    """What the user's node ids look like: integers or text, and the first few of each side."""

    type: Literal["integer", "text"]
    sources: list[int | str]
    destinations: list[int | str]


@dataclass(frozen=True)
class Summary:
    """The result of ``summarize``.

    ``nodes`` counts nodes that occur in the events; of these ``sources`` send, ``destinations``
    receive and ``both`` do both. ``labels`` counts events per class, if there are labels.
    """

    events: int
    nodes: int
    origin: str
    sources: int
    destinations: int
    both: int
    bipartite: bool
    time: TimeSpan
    ties: Ties
    repeats: Repeats
    split: Parts
    intervals: Intervals
    degrees: Sides
    features: Features
    labels: dict[str, int] | None
    ids: Ids
    notices: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain dictionaries, lists and numbers, for JSON."""
        return asdict(self) | {"notices": list(self.notices)}


def summarize(stream: EventStream) -> Summary:
    """Describe a stream: size, time, repetition, split, intervals, degrees, labels and ids."""
    if not len(stream):
        raise DataError(f"{stream.origin}: there are no events to summarize; a summary needs at least one.")
    sent = np.bincount(stream.src, minlength=stream.num_nodes)
    received = np.bincount(stream.dst, minlength=stream.num_nodes)
    return Summary(
        events=len(stream),
        nodes=int(np.count_nonzero(sent + received)),
        origin=stream.origin,
        sources=int(np.count_nonzero(sent)),
        destinations=int(np.count_nonzero(received)),
        both=int(np.count_nonzero(sent * received)),
        bipartite=stream.bipartite,
        time=stream.time_span,
        ties=_ties(stream),
        repeats=_repeats(stream),
        split=_parts(stream),
        intervals=_intervals(stream),
        degrees=Sides(_degrees(sent), _degrees(received)),
        features=Features(
            edge=stream.edge_width,
            node=0 if stream.node_features is None else stream.node_features.shape[1],
        ),
        labels=_labels(stream),
        ids=_ids(stream, sent, received),
        notices=stream.notices,
    )


def _ties(stream: EventStream) -> Ties:
    starts = np.flatnonzero(stream.t[1:] != stream.t[:-1]) + 1
    sizes = np.diff(starts, prepend=0, append=len(stream))
    return Ties(int(sizes[sizes > 1].sum()), len(sizes), int(sizes.max()))


def _repeats(stream: EventStream) -> Repeats:
    pairs = len(np.unique(stream.src * stream.num_nodes + stream.dst))
    return Repeats(pairs, (len(stream) - pairs) / len(stream), repeated_rows(stream))


def _parts(stream: EventStream) -> Parts:
    split = chronological_split(stream, holdout="paper")
    train, val, test = (_part(stream, p, split.new_nodes) for p in (split.train, split.val, split.test))
    return Parts(split.holdout, train, val, test)


def _part(stream: EventStream, events: NDArray[np.int64], is_new: NDArray[np.bool_]) -> Part:
    if not len(events):
        return Part(0, None, None, 0, 0, None, 0, None)
    src, dst, t = stream.src[events], stream.dst[events], stream.t[events]
    nodes = np.union1d(src, dst)
    new_nodes = int(np.count_nonzero(is_new[nodes]))
    touching = int(np.count_nonzero(is_new[src] | is_new[dst]))
    return Part(
        events=len(events),
        first=t[0].item(),
        last=t[-1].item(),
        nodes=len(nodes),
        new_nodes=new_nodes,
        new_node_share=new_nodes / len(nodes),
        events_with_new_node=touching,
        events_with_new_node_share=touching / len(events),
    )


def _intervals(stream: EventStream) -> Intervals:
    dt = intervals(stream)
    cuts = np.quantile(dt, SHARES).tolist()
    zeros = int(np.count_nonzero(dt == 0))
    return Intervals(zeros, {str(share): cut for share, cut in zip(SHARES, cuts, strict=True)})


def _degrees(counts: NDArray[np.int64]) -> Degrees:
    busy = np.sort(counts[counts > 0])[::-1]
    top = math.ceil(len(busy) / 100)
    return Degrees(len(busy), float(np.median(busy)), int(busy[0]), float(busy[:top].sum() / busy.sum()))


def _labels(stream: EventStream) -> dict[str, int] | None:
    if stream.label is None:
        return None
    classes, counts = np.unique(stream.label, return_counts=True)
    return {str(c): n for c, n in zip(classes.tolist(), counts.tolist(), strict=True)}


def _ids(stream: EventStream, sent: NDArray[np.int64], received: NDArray[np.int64]) -> Ids:
    labels = stream.ids.labels
    return Ids(
        type="integer" if labels.dtype.kind == "i" else "text",
        sources=labels[np.flatnonzero(sent)[:EXAMPLES]].tolist(),
        destinations=labels[np.flatnonzero(received)[:EXAMPLES]].tolist(),
    )
