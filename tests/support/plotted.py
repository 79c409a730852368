"""A stream to draw."""

from __future__ import annotations

import numpy as np

from contig.data.events import EventStream

DAY = 86_400


def some_stream(start: int = 0, events: int = 700) -> EventStream:
    rng = np.random.default_rng(5)
    t = start + np.sort(rng.integers(0, 10 * DAY, events))
    t[0], t[-1] = start, start + 10 * DAY
    return EventStream.from_arrays(rng.integers(0, 23, events), rng.integers(0, 61, events), t)
