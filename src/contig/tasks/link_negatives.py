"""The negatives by which link prediction is measured, the same for every model, seed and batch size.

Every event has one negative (protocol ``ours``). Every inductive event, one with a new node, has a second one
(protocol ``dyglib``): TGN's code, DyGLib and TPNet draw the negatives of inductive events among those events
alone, which is harder, and published inductive figures can only be compared with that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.negative_edges import NegativeEdges, sample_edges
from contig.data.negatives import Negatives
from contig.data.splits import Split
from contig.tasks.link import NegativeKind
from contig.tasks.task import EVALUATION_SEED

DYGLIB_SEED = EVALUATION_SEED + 1
RANDOM: tuple[NegativeKind, ...] = ("random", "random-any")


@dataclass(frozen=True)
class LinkNegatives:
    """The negatives of some events, by both protocols."""

    kind: NegativeKind
    events: NDArray[np.int64]
    inductive: NDArray[np.bool_]  # [events] which of them have a new node
    ours: NegativeEdges  # [events]
    dyglib: NegativeEdges  # [inductive events]

    @property
    def replace_source(self) -> bool:
        """Return whether a negative may have another source than its event."""
        return self.kind in ("historical", "inductive")

    @property
    def random_fallback(self) -> float:
        """Return the share of negatives that are random though they should not be; NaN for random ones."""
        return nan if self.kind in RANDOM else self.ours.fallback_share

    @property
    def random_fallback_dyglib(self) -> float:
        """Return the same for the negatives by ``dyglib``."""
        return nan if self.kind in RANDOM else self.dyglib.fallback_share


def draw_negatives(
    stream: EventStream, split: Split, events: NDArray[np.int64], kind: NegativeKind = "random"
) -> LinkNegatives:
    """Draw the negatives of events (ascending positions).

    - ``random``: any destination; by ``dyglib`` any of the inductive events' destinations.
    - ``random-any``: the same without a look at what is true, as TGN's code and DyGLib draw them: with few
      destinations some negatives are true, so that no model can reach 100%.
    - ``historical`` and ``inductive``: see ``contig.data.negative_edges``; by ``dyglib`` edges of the
      inductive events alone, among which the two kinds are the same.
    - ``historical-source``: a destination that the source met in training, else a random one.

    Only ``random-any`` may draw a true event of its source at that time.
    """
    inductive = split.new_nodes[stream.src[events]] | split.new_nodes[stream.dst[events]]
    new = events[inductive]
    if kind == "random-any":
        ours = _draw_any(stream, events, stream.destinations, EVALUATION_SEED)
        dyglib = _draw_any(stream, new, np.unique(stream.dst[new]), DYGLIB_SEED)
        return LinkNegatives(kind, events, inductive, ours, dyglib)
    if kind == "historical" or kind == "inductive":
        only_new = kind == "inductive"
        ours = sample_edges(stream, events, np.random.default_rng(EVALUATION_SEED), only_new=only_new)
        dyglib = sample_edges(stream, new, np.random.default_rng(DYGLIB_SEED), among=new, only_new=only_new)
    else:
        ours = _draw(
            Negatives(stream, kind, train=split.train, events=events, seed=EVALUATION_SEED), stream, events
        )
        dyglib = _draw_among_own(stream, split, new, kind)
    return LinkNegatives(kind, events, inductive, ours, dyglib)


def _draw(negatives: Negatives, stream: EventStream, events: NDArray[np.int64]) -> NegativeEdges:
    src = stream.src[events]
    at, sources = torch.from_numpy(events), torch.from_numpy(src)
    dst = negatives.draw(at, sources).squeeze(1).numpy()
    return NegativeEdges(src, dst, negatives.falls_back(at, sources).numpy())


def _draw_any(
    stream: EventStream, events: NDArray[np.int64], destinations: NDArray[np.int64], seed: int
) -> NegativeEdges:
    place = np.random.default_rng(seed).integers(0, max(1, len(destinations)), len(events))
    dst = destinations[place] if len(events) else stream.dst[events]
    return NegativeEdges(stream.src[events], dst, np.zeros(len(events), dtype=bool))


def _draw_among_own(
    stream: EventStream, split: Split, events: NDArray[np.int64], kind: NegativeKind
) -> NegativeEdges:
    """Draw among the destinations of these events; among all where a source has all of those at once."""
    if not len(events):
        return sample_edges(stream, events, np.random.default_rng(0))
    assert kind == "random" or kind == "historical-source"
    own = Negatives(
        stream,
        kind,
        train=split.train,
        destinations=stream.dst[events],
        events=events[:0],
        seed=DYGLIB_SEED,
    )
    drawn = _draw(own, stream, events)
    full = own.without_negative(torch.from_numpy(events)).numpy() & (drawn.fallback | (kind == "random"))
    if not full.any():
        return drawn
    everyone = _draw(Negatives(stream, events=events, seed=DYGLIB_SEED), stream, events)
    return NegativeEdges(drawn.src, np.where(full, everyone.dst, drawn.dst), drawn.fallback | full)
