"""What a trained run answers: scores, recommendations and trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import Array

if TYPE_CHECKING:
    import pyarrow as pa


class Recommendation(NamedTuple):
    """A destination, by the user's id, and its score.

    ``score`` is the logit of a learned model, or the score of a heuristic. ``probability`` is that of the
    logit: of being the true destination rather than a random one. A heuristic has none.
    """

    node: int | str
    score: float
    probability: float | None


@dataclass(frozen=True)
class Trajectory:
    """The embedding of one node over time."""

    node: int | str
    times: NDArray[Any]  # [times]
    embeddings: NDArray[np.float32]  # [times, d]


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of pairs at times; every column is ``[pairs]``, in the order of the query.

    ``score`` is the logit of a learned model, or the score of a heuristic. ``probability`` is that of the
    logit: of being a true pair rather than one with a random destination. ``surprise`` is
    ``-log2(probability)``, in bits: 0 for a pair that was certain, 1 for one as likely as not, and one more
    each time the probability halves. A heuristic has neither. ``known_events`` counts the events strictly
    before each pair's time, and ``last_event`` is the time of the last of them, masked if there is none.
    """

    src: Array
    dst: Array
    t: Array
    score: NDArray[np.float64]
    probability: NDArray[np.float64] | None
    surprise: NDArray[np.float64] | None
    known_events: NDArray[np.int64]
    last_event: np.ma.MaskedArray[Any, Any]

    def __len__(self) -> int:
        return len(self.score)

    def table(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        import pyarrow as pa

        columns: dict[str, Array | None] = {"src": self.src, "dst": self.dst, "t": self.t}
        columns |= {"score": self.score, "probability": self.probability, "surprise": self.surprise}
        arrays = {name: pa.array(column) for name, column in columns.items() if column is not None}
        last = pa.array(self.last_event.data, mask=np.ma.getmaskarray(self.last_event))
        return pa.table({**arrays, "last_event": last})
