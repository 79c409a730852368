"""Chronological splits, new nodes, and the intervals between a node's appearances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.errors import ConfigError, unknown

Holdout = Literal["tgn", "paper"]
HOLDOUTS: tuple[Holdout, ...] = ("tgn", "paper")


@dataclass(frozen=True, eq=False)
class Split:
    """Which events are for training, validation and test, and which nodes are new.

    ``train``, ``val`` and ``test`` are ascending event positions. ``new_nodes[v]`` is true
    for a node no training event touches. Under the rule ``tgn`` a seeded tenth of the nodes
    is hidden from training besides, and ``train`` leaves their events out.
    """

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]
    new_nodes: NDArray[np.bool_]
    holdout: Holdout
    seed: int


def chronological_split(
    stream: EventStream,
    *,
    val: float = 0.15,
    test: float = 0.15,
    holdout: Holdout = "tgn",
    hidden: float = 0.1,
    seed: int = 2020,
) -> Split:
    """Split by time quantile: training up to the first cut, test after the second.

    Events at a cut's very time fall before it, so equal times are never parted. ``hidden`` is
    the share of all nodes that rule ``tgn`` hides, drawn with ``seed`` from those that occur
    after the training cut. The default seed is the split's own, apart from any training seed,
    so that runs of several seeds are measured on the same events.
    """
    if holdout not in HOLDOUTS:
        raise ConfigError(unknown("holdout", holdout, HOLDOUTS))
    if not (val >= 0 and test >= 0 and val + test < 1):
        raise ConfigError(f"val={val} and test={test} must be shares >= 0 that leave events to train on.")
    if not 0 <= hidden <= 1:
        raise ConfigError(f"hidden={hidden} must be a share of the nodes, from 0 to 1.")
    train_cut, val_cut = np.quantile(stream.t, [1 - val - test, 1 - test])
    first_val = int(np.searchsorted(stream.t, train_cut, side="right"))
    first_test = int(np.searchsorted(stream.t, val_cut, side="right"))
    train = np.arange(first_val)
    if holdout == "tgn":
        secret = _hidden_nodes(stream, first_val, hidden, seed)
        train = train[~(secret[stream.src[:first_val]] | secret[stream.dst[:first_val]])]
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
    )


def _hidden_nodes(stream: EventStream, first_val: int, share: float, seed: int) -> NDArray[np.bool_]:
    later = np.unique(np.concatenate([stream.src[first_val:], stream.dst[first_val:]]))
    count = min(int(share * stream.num_nodes), len(later))
    secret = np.zeros(stream.num_nodes, dtype=bool)
    secret[np.random.default_rng(seed).choice(later, count, replace=False)] = True
    return secret


def intervals(stream: EventStream) -> NDArray[np.float64]:
    """Time since each event's source last appeared, as source or destination (0 for the first).

    This is the paper's Definition 3. An event of the same time but earlier in the stream counts
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
    """The interval set of each event: 0 for the shortest fifth up to 4 for the longest."""
    return np.searchsorted(np.quantile(dt, cuts), dt, side="left")
