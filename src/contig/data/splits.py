"""Chronological splits, held-out nodes, and the intervals between a node's appearances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.cuts import DEFAULT_SPLIT, SplitLike, parse_split
from contig.data.events import EventStream, check_stream
from contig.errors import ConfigError, unknown

Holdout = Literal["tgn", "paper", "none"]
HOLDOUTS: tuple[Holdout, ...] = ("tgn", "paper", "none")
DEFAULT_DESCRIPTION = str(parse_split(DEFAULT_SPLIT))
EVERYTHING = "every event is a training event"


@dataclass(frozen=True, eq=False)
class Split:
    """The events for training, validation and test, and the nodes that training does not see.

    ``train``, ``val`` and ``test`` are ascending event positions. ``new_nodes[v]`` is true
    for a node without training events. With the holdout ``tgn`` a seeded tenth of the nodes
    is held out in addition, and ``train`` leaves out their events, ``hidden_events`` of them.
    ``paper`` and ``none`` hide nothing; they differ in which test events count (see ``Selections``).
    ``description`` says how the stream was cut; with ``final`` every event is a training event.
    """

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]
    new_nodes: NDArray[np.bool_]
    holdout: Holdout
    seed: int
    description: str = DEFAULT_DESCRIPTION
    hidden_events: int = 0
    final: bool = False


def chronological_split(
    stream: EventStream,
    split: SplitLike = DEFAULT_SPLIT,
    *,
    final: bool = False,
    holdout: Holdout = "tgn",
    hidden: float = 0.1,
    seed: int = 2020,
) -> Split:
    """Split by time: training up to the first cut, test after the second.

    ``split`` is two shares of the events (``"0.7,0.15"``: training and validation, the rest is the test), or
    the two times at which validation and test begin (``"2024-05-01,2024-06-01"``), as text or as a
    sequence. Events at equal times are never separated. ``final`` makes every event a training event.

    ``hidden`` is the share of all nodes that the holdout ``tgn`` hides from training, drawn with ``seed``
    from those that occur after the training cut. The default seed is independent of the training seed, so
    that runs with several seeds are evaluated on the same events.
    """
    if holdout not in HOLDOUTS:
        raise ConfigError(unknown("holdout", str(holdout), HOLDOUTS))
    check_stream(stream)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed={seed!r} must be a whole number of at least 0.")
    if not isinstance(hidden, int | float) or not 0 <= hidden <= 1:
        raise ConfigError(f"hidden={hidden} must be a fraction of the nodes, from 0 to 1.")
    cuts = parse_split(split)
    first_val, first_test = (len(stream), len(stream)) if final else cuts.positions(stream)
    train = np.arange(first_val)
    if holdout == "tgn":
        held_out = _hidden_nodes(stream, first_val, hidden, seed)
        train = train[~(held_out[stream.src[:first_val]] | held_out[stream.dst[:first_val]])]
    seen = np.zeros(stream.num_nodes, dtype=bool)
    seen[stream.src[train]] = True
    seen[stream.dst[train]] = True
    return Split(
        train=train,
        val=np.arange(first_val, first_test),
        test=np.arange(first_test, len(stream)),
        new_nodes=~seen,
        holdout=holdout,
        seed=seed,
        description=EVERYTHING if final else str(cuts),
        hidden_events=first_val - len(train),
        final=final,
    )


def _hidden_nodes(stream: EventStream, first_val: int, share: float, seed: int) -> NDArray[np.bool_]:
    later = np.unique(np.concatenate([stream.src[first_val:], stream.dst[first_val:]]))
    count = min(int(share * stream.num_nodes), len(later))
    held_out = np.zeros(stream.num_nodes, dtype=bool)
    held_out[np.random.default_rng(seed).choice(later, count, replace=False)] = True
    return held_out


def intervals(stream: EventStream) -> NDArray[np.float64]:
    """Return the time since each event's source last appeared, on either side (0 for the first time).

    This is Definition 3 of the paper. An event at the same time but earlier in the stream counts
    as an appearance, so ties give 0.
    """
    events = np.arange(len(stream))
    nodes = np.stack([stream.src, stream.dst], axis=1).ravel()
    order = np.argsort(nodes, kind="stable")  # by node, then by event, an event's source first
    event = np.repeat(events, 2)[order]
    previous = np.full(len(order), -1)
    same = nodes[order][1:] == nodes[order][:-1]
    previous[1:][same] = event[:-1][same]
    last = np.empty(len(order), dtype=np.int64)
    last[order] = previous
    last_of_src = last[0::2]
    dt = (stream.t - stream.t[last_of_src]).astype(np.float64)
    return np.where(last_of_src >= 0, dt, 0.0)


def interval_sets(
    dt: NDArray[np.float64], cuts: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
) -> NDArray[np.int64]:
    """Return the interval set of each event: 0 for the shortest fifth, up to 4 for the longest."""
    return np.searchsorted(np.quantile(dt, cuts), dt, side="left")
