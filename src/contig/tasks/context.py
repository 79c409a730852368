"""What a task is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from contig.models.contract import EventBatch, Model
from contig.models.state import NodeState
from contig.streaming.prepared import PreparedStream
from contig.streaming.walker import Progress, Walker, no_progress

ProgressBar = Callable[[str, int], AbstractContextManager[Progress]]  # takes a description and a total


@contextmanager
def no_progress_bar(description: str, total: int) -> Iterator[Progress]:
    """Return a progress bar that shows nothing."""
    yield no_progress


@dataclass(frozen=True)
class EvaluationContext:
    """A trained model and its data.

    ``data`` has the stream, its split and its history. ``state`` is the state after validation; a task may
    advance it, as ``contig.score_test_events`` and ``contig.read_test_events`` do.
    """

    model: Model
    state: NodeState
    data: PreparedStream
    batch_size: int
    progress_bar: ProgressBar = no_progress_bar


def read_test_events(context: EvaluationContext, read: Callable[[EventBatch], Tensor]) -> NDArray[np.float32]:
    """Walk the test events and return what ``read`` computes for each of them, ``[events, ...]``.

    ``read`` takes a batch of events and returns a tensor with a row for each. While it runs,
    ``context.state`` has observed the events before the batch; the batch is observed afterwards.
    """
    events, history = context.data.split.test, context.data.history
    walker = Walker(context.model, context.state, history, context.batch_size, read)
    with context.progress_bar("test", len(events)) as progress:
        return walker.read_all(events, progress)
