"""Seeded streams that behave like real ones, at any size.

A stream is generated user by user and then sorted by time. Each user lives for a part of the
span, acts in sessions with long silences between them, has one interest (a topic) at a
time, and often returns to a partner it met before.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.errors import ConfigError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Shape of the gaps, in seconds, between the extremes measured on the public streams: inside a session the
# median gap is 10 (mooc) to 150 (wikipedia); events more than an hour apart belong to different sessions.
PAUSE_MEDIAN = 60.0
PAUSE_SPREAD = 1.2
SHORTEST_SILENCE = 3600.0
FEATURE_NOISE = 0.5
# The lowest and the highest value of each field of ``_Habits``.
LIMITS = {
    **dict.fromkeys(("activity", "popularity"), (0.0, math.inf)),
    **dict.fromkeys(("drift", "repeat", "dropout"), (0.0, 1.0)),
    "span": (1.0, 2.0**53),
    "session": (1.0, math.inf),
    "silence": (0.05, math.inf),
}


class _Layout(NamedTuple):
    """How often each user acts: events are grouped by user, each user's in time order."""

    counts: Ints  # [users], every one at least 1
    user: Ints  # [events]
    first: Ints  # [users], position of each user's first event
    session_starts: Flags  # [events]

    @property
    def last(self) -> Ints:
        return self.first + self.counts - 1


def synthetic(
    events: int = 100_000,
    *,
    sources: int | None = None,
    destinations: int | None = None,
    seed: int = 0,
    edge_features: int = 0,
    bipartite: bool = True,
    span: float = 2_592_000.0,
    activity: float = 0.75,
    popularity: float = 0.75,
    topics: int | None = None,
    drift: float = 0.2,
    repeat: float = 0.6,
    session: float = 5.0,
    silence: float = 0.7,
    dropout: float = 0.1,
) -> EventStream:
    """Generate a stream of exactly ``events`` events; the same arguments give the same stream.

    Each aspect has its own random generator: adding features, for instance, changes no event.

    - ``sources``: the number of nodes that act; each occurs if there are enough ``events``
      (default: one per 20 events, as in wikipedia).
    - ``destinations``: the number of nodes that can be acted on; unpopular ones may not occur
      (default: one per 5 sources, at least 10).
    - ``edge_features``: width of the float32 features, the center of the topic plus noise (default 0: none).
    - ``bipartite``: False lets nodes of one kind interact with each other, but not with themselves.
    - ``span``: seconds from the first event to the last, at most (default 30 days, as in wikipedia).
    - ``activity``, ``popularity``: exponents of Zipf's law for the events per source and for the
      destinations within a topic; 0 is even (default 0.75: the top 1% of sources make about a quarter of
      the events, as in wikipedia).
    - ``topics``: groups of destinations (default: the root of their number, so both levels matter).
    - ``drift``: probability that a source changes its topic between two sessions (default 0.2: interests
      last five sessions).
    - ``repeat``: probability that an event returns to a partner the source has met, recent ones first;
      new choices may hit known partners too (default 0.6: public streams reach 0.57 to 0.97).
    - ``session``: mean events per session (default 5: wikipedia has 4, mooc 11).
    - ``silence``: Pareto exponent of the gaps between sessions, heavier the smaller (default 0.7, fitted
      to wikipedia).
    - ``dropout``: share of the sources (with two events or more) that drop out. In its last session such
      a source takes up a new topic and repeats nothing; its last event has label 1, all others 0
      (default 0.1: about one event in 200, between wikipedia's 1 in 700 and mooc's 1 in 100).
    """
    sizes = _sizes(events, sources, destinations, topics, bipartite)
    edge_features, seed = _whole("edge_features", edge_features, 0), _whole("seed", seed, 0)
    habits = _Habits(span, activity, popularity, drift, repeat, session, silence, dropout)
    _check_limits(habits)
    rngs = _Generators(*np.random.default_rng(seed).spawn(6))
    drawn = _in_time_order(_draw(rngs, sizes, habits, bipartite))
    stream = EventStream.from_arrays(
        drawn.src,
        drawn.dst,
        drawn.t - drawn.t[0],
        label=drawn.label,
        edge_features=_features(rngs.features, drawn.topic, drawn.dropping_out, sizes.topics, edge_features),
        bipartite=bipartite,
        origin=f"synthetic:{sizes.events}",
    )
    return replace(stream, benchmark=True)


class _Habits(NamedTuple):
    """How sources behave; see ``synthetic``."""

    span: float
    activity: float
    popularity: float
    drift: float
    repeat: float
    session: float
    silence: float
    dropout: float


class _Drawn(NamedTuple):
    """Events without their features; every field is ``[events]``."""

    src: Ints
    dst: Ints
    t: Ints
    label: Ints
    topic: Ints
    dropping_out: Flags  # in the last session of a source that drops out


class _Generators(NamedTuple):
    """A random generator per aspect."""

    activity: np.random.Generator
    times: np.random.Generator
    topics: np.random.Generator
    partners: np.random.Generator
    dropouts: np.random.Generator
    features: np.random.Generator


def _draw(rngs: _Generators, sizes: _Sizes, habits: _Habits, bipartite: bool) -> _Drawn:
    """Draw the events, grouped by source."""
    layout = _layout(rngs.activity, sizes.events, sizes.sources, habits.activity, habits.session)
    t = _times(rngs.times, layout, habits.span, habits.silence)
    dropouts = (layout.counts > 1) & (rngs.dropouts.random(len(layout.counts)) < habits.dropout)
    dropping_out = _last_session(layout) & dropouts[layout.user]
    interest = _topics(rngs.topics, layout, sizes.topics, habits.drift, dropping_out)
    parent = _parents(rngs.partners, layout, habits.repeat, dropping_out)
    item = _items(rngs.partners, interest, sizes.topics, sizes.destinations, habits.popularity)[parent]
    offset = sizes.sources if bipartite else None
    dst = _partners(rngs.partners, layout.user, item, sizes.destinations, offset)
    label = np.zeros(sizes.events, dtype=np.int64)
    label[layout.last[dropouts]] = 1
    return _Drawn(layout.user, dst, t, label, item % sizes.topics, dropping_out)


def _in_time_order(drawn: _Drawn) -> _Drawn:
    order = np.argsort(drawn.t, kind="stable")
    src, dst, t, label, topic, dropping_out = drawn
    return _Drawn(src[order], dst[order], t[order], label[order], topic[order], dropping_out[order])


class _Sizes(NamedTuple):
    """The numbers of events, sources, destinations and topics."""

    events: int
    sources: int
    destinations: int
    topics: int


def _sizes(
    events: int, sources: int | None, destinations: int | None, topics: int | None, bipartite: bool
) -> _Sizes:
    """Fill in the defaults; raise ``ConfigError`` for sizes that do not fit one another."""
    events = _whole("events", events, 1)
    sources = max(2, events // 20) if sources is None else _whole("sources", sources, 1)
    destinations = max(10, sources // 5) if destinations is None else _whole("destinations", destinations, 1)
    topics = math.isqrt(destinations) if topics is None else _whole("topics", topics, 1)
    if topics > destinations:
        raise ConfigError(
            f"topics={topics} is more than the {destinations} destinations; each topic needs one."
        )
    if not bipartite and destinations < 2:
        raise ConfigError(
            "destinations=1 with bipartite=False leaves a node without a partner; use at least 2."
        )
    return _Sizes(events, sources, destinations, topics)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name}={value!r} must be a whole number of at least {least}.")
    return int(value)


def _check_limits(habits: _Habits) -> None:
    for name, value in habits._asdict().items():
        low, high = LIMITS[name]
        numeric = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not numeric or not low <= value <= high or not math.isfinite(value):
            bound = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
            raise ConfigError(f"{name}={value!r} must be a finite number {bound}.")


def _zipf(size: int, exponent: float) -> Floats:
    return np.asarray(np.arange(1, size + 1, dtype=np.float64) ** -exponent)


def _layout(rng: np.random.Generator, events: int, sources: int, activity: float, session: float) -> _Layout:
    weights = rng.permutation(_zipf(sources, activity))
    once = int(events >= sources)  # every source acts at least once where that is possible
    counts = once + rng.multinomial(events - once * sources, weights / weights.sum())
    # Where some sources never act the others move up; the stream would number them so anyway.
    counts = counts[counts > 0]
    first = np.cumsum(counts) - counts
    starts = rng.random(events) < 1.0 / session
    starts[first] = True
    return _Layout(counts, np.repeat(np.arange(len(counts)), counts), first, starts)


def _times(rng: np.random.Generator, layout: _Layout, span: float, silence: float) -> Ints:
    """Draw times in whole seconds; gaps that exceed their source's lifetime are shrunk in proportion."""
    events, users = len(layout.user), len(layout.counts)
    gaps = rng.lognormal(math.log(PAUSE_MEDIAN), PAUSE_SPREAD, events)
    between = np.flatnonzero(layout.session_starts)
    with np.errstate(over="ignore"):
        silences = SHORTEST_SILENCE * (1.0 - rng.random(len(between))) ** (-1.0 / silence)
    gaps[between] = np.minimum(silences, span)
    since_start = np.cumsum(gaps)
    since_start -= np.repeat(since_start[layout.first], layout.counts)

    lived = since_start[layout.last]
    lifetime = span * rng.random(users)
    pace = np.minimum(1.0, lifetime / np.maximum(lived, 1.0))
    # More often near both ends: sources that were there before the span began, or that outlast it.
    begin = (span - lived * pace) * rng.beta(0.7, 0.7, users)
    since_start *= np.repeat(pace, layout.counts)
    since_start += np.repeat(begin, layout.counts)
    return np.minimum(since_start, span).astype(np.int64)


def _last_session(layout: _Layout) -> Flags:
    number = np.cumsum(layout.session_starts)
    return np.asarray(number == np.repeat(number[layout.last], layout.counts))


def _topics(
    rng: np.random.Generator, layout: _Layout, topics: int, drift: float, dropping_out: Flags
) -> Ints:
    """Draw the source's interest at each event: a new one at its first, and when it drifts or drops out."""
    events = len(layout.user)
    anew = layout.session_starts & ((rng.random(events) < drift) | dropping_out)
    anew[layout.first] = True
    since = np.maximum.accumulate(np.where(anew, np.arange(events), 0))
    return rng.integers(topics, size=events)[since]


def _parents(rng: np.random.Generator, layout: _Layout, repeat: float, dropping_out: Flags) -> Ints:
    """Choose the earlier event of its source whose partner each event repeats; itself when it is fresh."""
    events = len(layout.user)
    position = np.arange(events) - np.repeat(layout.first, layout.counts)
    fresh = (rng.random(events) >= repeat) | dropping_out
    # floor((p + 1)^u) is in 1..p with weights near 1/lag: recent first, yet old ones never die out.
    lag = np.exp(rng.random(events) * np.log1p(position)).astype(np.int64)
    lag = np.minimum(lag, position)
    lag[fresh] = 0
    parent = np.arange(events) - lag
    while True:  # pointer doubling: a chain of n repeats is resolved in log2(n) rounds
        grandparent = parent[parent]
        if np.array_equal(grandparent, parent):
            return parent
        parent = grandparent


def _items(rng: np.random.Generator, topic: Ints, topics: int, destinations: int, popularity: float) -> Ints:
    """Draw a destination of each given topic; topic k owns the items k, k + topics, k + 2 topics, ..."""
    sizes = (destinations - 1 - np.arange(topics)) // topics + 1
    reach = np.cumsum(_zipf(int(sizes.max()), popularity))
    draw = rng.random(len(topic)) * reach[sizes - 1][topic]
    rank = np.minimum(np.searchsorted(reach, draw, side="right"), (sizes - 1)[topic])
    return np.asarray(rank * topics + topic)


def _partners(rng: np.random.Generator, src: Ints, item: Ints, destinations: int, offset: int | None) -> Ints:
    """Return the node ids of the items, shuffled so that an id does not reveal its topic.

    ``offset`` None gives sources and destinations the same ids.
    """
    node = rng.permutation(destinations)
    if offset is not None:
        return node[item] + offset
    dst = node[item]
    self_loops = np.flatnonzero(dst == src)
    dst[self_loops] = node[(item[self_loops] + 1) % destinations]
    return dst


def _features(
    rng: np.random.Generator, topic: Ints, dropping_out: Flags, topics: int, width: int
) -> NDArray[np.float32] | None:
    if not width:
        return None
    centers = rng.standard_normal((topics, width), dtype=np.float32)
    departure = rng.standard_normal(width, dtype=np.float32)
    features = rng.standard_normal((len(topic), width), dtype=np.float32)
    features *= FEATURE_NOISE
    features += centers[topic]
    features[dropping_out] += departure
    return features
