"""Which events a result is about: all of them, those between known nodes, those with a new node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.errors import RunError
from contig.tasks.results import Selections, only_known_nodes
from contig.wording import counted

M = TypeVar("M")


def selection_masks(
    stream: EventStream, split: Split, events: NDArray[np.int64], *, inductive: bool = True
) -> Selections[NDArray[np.bool_]]:
    """Return each selection as a mask ``[events]``.

    For a model that is not ``inductive``, ``transductive`` leaves new nodes out under either holdout.
    """
    new_src, new_dst = split.new_nodes[stream.src[events]], split.new_nodes[stream.dst[events]]
    old_old = ~new_src & ~new_dst
    only_known = only_known_nodes(split.holdout, inductive)
    return Selections(
        transductive=old_old if only_known else np.ones(len(events), dtype=bool),
        inductive=new_src | new_dst,
        old_old=old_old,
        new_old=new_src ^ new_dst,
        new_new=new_src & new_dst,
    )


def by_selection(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    measure: Callable[[NDArray[np.bool_]], M],
    count: Callable[[int], M],
    *,
    inductive: bool = True,
) -> Selections[M]:
    """Measure every selection of the events, given as a mask.

    A model that is not ``inductive`` cannot score events with a new node: ``count`` gets their number.
    """
    unmeasured = () if inductive else ("inductive", "new_old", "new_new")
    masks = selection_masks(stream, split, events, inductive=inductive)
    return Selections(
        **{
            name: count(int(mask.sum())) if name in unmeasured else measure(mask)
            for name, mask in masks.each().items()
        }
    )


def check_finite(stream: EventStream, events: NDArray[np.int64], scores: NDArray[np.floating[Any]]) -> None:
    """Raise a ``RunError`` for scores ``[events, ...]`` that are NaN or infinite."""
    bad = np.flatnonzero(~np.isfinite(scores).all(axis=tuple(range(1, scores.ndim))))
    if len(bad):
        raise RunError(
            f"{stream.origin}: the scores of {counted(len(bad), 'event')} are NaN or infinite (first: event "
            f"{events[bad[0]]}) because the node states have diverged. Train with state_norm=true if the "
            "model has it, or with a smaller lr."
        )
