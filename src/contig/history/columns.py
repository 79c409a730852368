"""The events of a history by position in the stream."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from contig.data.columns import Array


class EventColumns:
    """The columns ``src``, ``dst``, ``t`` and, if events have any, ``features``; they grow at the end.

    ``t`` ascends. Where an event was appended after later ones, ``t`` is its clock, the latest time so far,
    and ``happened`` has its own time.
    """

    def __init__(
        self, src: Tensor, dst: Tensor, t: Tensor, features: Tensor | None, *, count: int | None = None
    ) -> None:
        self.columns: dict[str, Tensor] = {"src": src, "dst": dst, "t": t}
        if features is not None:
            self.columns["features"] = features
        self.count = len(t) if count is None else count  # columns may be longer, so that growing is cheap

    def __getitem__(self, name: str) -> Tensor:
        return self.columns[name][: self.count]

    @property
    def happened(self) -> Tensor:
        """The events' own times."""
        return self.columns.get("happened", self.columns["t"])[: self.count]

    def count_before(self, times: Tensor) -> Tensor:
        """Return how many events there are strictly before each time."""
        t = self["t"]
        return torch.searchsorted(t, comparable_times(times, t.dtype).contiguous())

    def append(self, **rows: Tensor) -> None:
        """Add rows to every column, in amortized O(1) each; ``happened`` only where it differs from ``t``."""
        added = len(rows["t"])
        if "happened" in rows and "happened" not in self.columns:
            self.columns["happened"] = self["t"].clone()
        rows.setdefault("happened", rows["t"])
        for name, column in self.columns.items():
            if self.count + added > len(column):
                longer = column.new_empty((max(2 * len(column), self.count + added), *column.shape[1:]))
                longer[: self.count] = column[: self.count]
                self.columns[name] = column = longer
            column[self.count : self.count + added] = rows[name]
        self.count += added


def comparable_times(times: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert query times to the dtype of event times, without changing which events are before them."""
    if times.dtype.is_floating_point and not dtype.is_floating_point:
        # an integer is strictly before x exactly if it is strictly before ceil(x); nothing is before NaN
        earliest, latest = -(2.0**62), 2.0**62
        return torch.ceil(times).nan_to_num(earliest).clamp(earliest, latest).to(dtype)
    return times.to(dtype)


def as_tensor(array: Array, device: torch.device | str = "cpu") -> Tensor:
    """Return a tensor that may be written to; torch warns about read-only arrays, so those are copied."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)
