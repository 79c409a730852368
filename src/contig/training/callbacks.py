"""Callbacks: objects that watch a training, for logs and trackers of your own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.runs.config import RunConfig
from contig.runs.metrics import Epoch, RunMetrics


@dataclass(frozen=True)
class TrainingStart:
    """What is known when a training starts or is resumed."""

    folder: Path
    config: RunConfig
    stream: EventStream
    finished_epochs: int  # more than 0 when a run is resumed


class Callback:
    """Watch a training; override the methods you need.

    Whatever a method raises ends the training, which can be resumed from its last checkpoint.
    """

    def on_start(self, start: TrainingStart) -> None:
        """Run once, before the first epoch."""

    def on_epoch(self, epoch: Epoch) -> None:
        """Run after each epoch and its validation."""

    def on_end(self, metrics: RunMetrics) -> None:
        """Run after the test, if the training was not interrupted."""

    def close(self) -> None:
        """Run at the very end, also after an error."""


class Callbacks(Callback):
    """Several callbacks as one."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        for one in callbacks:
            if not isinstance(one, Callback):
                raise ConfigError(
                    f"{one!r} is not a callback; expected objects of a subclass of contig.Callback."
                )
        self.callbacks = tuple(callbacks)

    def on_start(self, start: TrainingStart) -> None:
        for one in self.callbacks:
            one.on_start(start)

    def on_epoch(self, epoch: Epoch) -> None:
        for one in self.callbacks:
            one.on_epoch(epoch)

    def on_end(self, metrics: RunMetrics) -> None:
        for one in self.callbacks:
            one.on_end(metrics)

    def close(self) -> None:
        """Close all of them, whatever one raises."""
        with ExitStack() as stack:
            for one in reversed(self.callbacks):
                stack.callback(one.close)


@contextmanager
def watching(callbacks: Callbacks, start: TrainingStart) -> Iterator[None]:
    """Call ``on_start`` before the block and ``close`` after it."""
    try:
        callbacks.on_start(start)
        yield
    finally:
        callbacks.close()
