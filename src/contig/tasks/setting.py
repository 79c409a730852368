"""What a task is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.history import History
from contig.models.contract import Model
from contig.models.state import NodeState
from contig.streaming.walker import Progress

Bar = Callable[[str, int], AbstractContextManager[Progress]]  # a description and a total to what advances


@contextmanager
def no_bar(description: str, total: int) -> Iterator[Progress]:
    """Progress that nobody watches."""
    yield lambda _: None


@dataclass(frozen=True)
class Setting:
    """A trained model, its events, and its state after validation, which a task may move on."""

    model: Model
    state: NodeState
    history: History
    stream: EventStream
    split: Split
    batch_size: int
    bar: Bar = no_bar
