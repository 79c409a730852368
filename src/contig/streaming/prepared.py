"""A stream made ready to be walked on one device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.history import History


@dataclass(frozen=True)
class PreparedStream:
    """A stream with its split, its history and the history of its training events alone."""

    stream: EventStream
    split: Split
    history: History
    training: History
    device: torch.device

    @classmethod
    def of(
        cls, stream: EventStream, split: Split, device: torch.device, *, on_host: bool = False
    ) -> PreparedStream:
        """Index a stream; ``on_host`` leaves the index in the host's memory while ``device`` works on it."""
        history = History.from_stream(stream, "cpu" if on_host else device)
        training = history.only(split.train)
        if on_host:
            history = history.pinned_copy(device)
            training = training.pinned_copy(device, history.events)
        return cls(stream, split, history, training, device)
