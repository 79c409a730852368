"""What a task finds for each test event, next to its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from contig.tasks.results import TaskResult

if TYPE_CHECKING:
    import pyarrow as pa

    from contig.data.events import EventStream
    from contig.data.splits import Split

R = TypeVar("R", bound=TaskResult)

Columns = dict[str, NDArray[Any]]  # by name, a value for each test event


@dataclass(frozen=True)
class Measured(Generic[R]):
    """The result of a task, and its predictions, if it has any: columns ``[test events]``."""

    result: R
    predictions: Columns


def score_columns(scores: NDArray[np.floating[Any]], *, learns: bool) -> Columns:
    """Return the column ``score``, and ``probability`` if the scores are logits of a learned model."""
    if not learns:
        return {"score": scores}
    return {"score": scores, "probability": 1 / (1 + np.exp(-scores.astype(np.float64)))}


def prediction_table(stream: EventStream, split: Split, predictions: Columns) -> pa.Table:
    """Return a row for each test event: src, dst, t, its label if known, new_node and the predictions.

    Nodes are named by the user's ids; ``new_node`` says whether one of them has no training event.
    """
    import pyarrow as pa

    from contig.data.exports import label_column

    test, names = split.test, stream.ids.labels
    src, dst = stream.src[test], stream.dst[test]
    columns: dict[str, Any] = {"src": names[src], "dst": names[dst], "t": stream.t[test]}
    if stream.label is not None:
        columns["label"] = label_column(stream.label[test])
    columns["new_node"] = split.new_nodes[src] | split.new_nodes[dst]
    return pa.table({name: pa.array(column) for name, column in {**columns, **predictions}.items()})
