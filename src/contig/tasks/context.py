"""What a task is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from contig.models.contract import Model
from contig.models.state import NodeState
from contig.streaming.prepared import PreparedStream
from contig.streaming.walker import Progress, no_progress

ProgressBar = Callable[[str, int], AbstractContextManager[Progress]]  # takes a description and a total


@contextmanager
def no_progress_bar(description: str, total: int) -> Iterator[Progress]:
    """Show nothing."""
    yield no_progress


@dataclass(frozen=True)
class EvaluationContext:
    """A trained model and its data; ``state`` is that after validation, and a task may advance it."""

    model: Model
    state: NodeState
    data: PreparedStream
    batch_size: int
    progress_bar: ProgressBar = no_progress_bar
