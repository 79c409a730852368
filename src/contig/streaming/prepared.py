"""A stream made ready to be walked on one device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from contig.data.encoding import FeaturePlans, encoded
from contig.data.events import EventStream
from contig.data.splits import Split
from contig.history import History, TimeScale


@dataclass(frozen=True)
class PreparedStream:
    """A stream with its split and its history.

    ``features`` says how its features were encoded, None if they were taken as they are. ``test_origin``
    names the source of the test events if it is another than that of the stream.
    """

    stream: EventStream
    split: Split
    history: History
    device: torch.device
    features: FeaturePlans | None = None
    test_origin: str | None = None

    @classmethod
    def of(
        cls, stream: EventStream, split: Split, device: torch.device, *, on_host: bool = False
    ) -> PreparedStream:
        """Encode the features of a stream and index it.

        ``on_host`` leaves the index in the host's memory while ``device`` works on it.
        """
        stream, features = encoded(stream, split)
        history = History.from_stream(stream, "cpu" if on_host else device)
        return cls(stream, split, history.pinned_copy(device) if on_host else history, device, features)

    @cached_property
    def training(self) -> History:
        """The history of the training events alone, which only training needs."""
        if not self.history.on_host:
            return self.history.only(self.split.train)
        indexed = History.from_stream(self.stream, "cpu").only(self.split.train)
        return indexed.pinned_copy(self.device, self.history.events)

    @cached_property
    def time_scale(self) -> TimeScale:
        """The scale of time in the training events."""
        return TimeScale.of(self.training)
