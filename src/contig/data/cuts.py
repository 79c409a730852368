"""Where a stream is cut into training, validation and test: by shares of its events, or at times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from contig.data.clock import Number, TimeLike, parse_time
from contig.data.events import EventStream
from contig.errors import ConfigError

SplitLike = str | Sequence[TimeLike]  # "0.7,0.15", (0.7, 0.15), "2024-05-01,2024-06-01", two dates

DEFAULT_SPLIT = "0.7,0.15"
EXPECTED = (
    f"expected the shares of training and validation, such as {DEFAULT_SPLIT} (the rest is the test), or the "
    "times at which validation and test begin, such as 2024-05-01,2024-06-01"
)


@dataclass(frozen=True)
class ShareCuts:
    """Cuts at time quantiles: ``train`` and ``val`` are shares of the events, the rest is the test.

    Events at the time of a cut fall before it, so that equal times are never separated.
    """

    train: float
    val: float

    def positions(self, stream: EventStream) -> tuple[int, int]:
        """Return the positions of the first validation event and of the first test event."""
        return _first_after(stream, self.train), _first_after(stream, min(1.0, self.train + self.val))

    def __str__(self) -> str:
        """Return ``70/15/15 by time quantile``."""
        shares = (self.train, self.val, 1 - self.train - self.val)
        return f"{'/'.join(f'{round(100 * share, 4):g}' for share in shares)} by time quantile"


@dataclass(frozen=True)
class TimeCuts:
    """Cuts at times: validation begins at ``val`` and the test at ``test``.

    Events at exactly such a time fall after the cut, so that equal times are never separated.
    """

    val: str
    test: str

    def positions(self, stream: EventStream) -> tuple[int, int]:
        """Return the positions of the first validation event and of the first test event."""
        name = f"split={self.val},{self.test}"
        val, test = (
            _finite(parse_time(text, stream.time_span, name, stream.date_format), name)
            for text in (self.val, self.test)
        )
        if not val < test:
            raise ConfigError(
                f"{name}: validation begins at the first time and the test at the second, so the first must "
                "be the earlier one. Shares of the events are numbers below 1."
            )
        first_val, first_test = _first_from(stream, val), _first_from(stream, test)
        span = f"the events run from {stream.time_span.exact()}"
        for part, empty, cause in (
            ("training", first_val == 0, f"before {self.val}"),
            ("test", first_test == len(stream), f"from {self.test} on"),
            ("validation", first_val == first_test, f"from {self.val} until {self.test}"),
        ):
            if empty:
                raise ConfigError(
                    f"{name}: the {part} part is empty because there are no events {cause}; {span}. Choose "
                    "two times between them."
                )
        return first_val, first_test

    def __str__(self) -> str:
        """Return ``validation from 2024-05-01, test from 2024-06-01``."""
        return f"validation from {self.val}, test from {self.test}"


Cuts = ShareCuts | TimeCuts


def parse_split(given: SplitLike) -> Cuts:
    """Parse two shares or two times, as text with a comma or as a sequence; two numbers below 1 are shares.

    Whether times are inside a stream is checked by ``positions``.
    """
    parts = split_text(given).split(",")
    if len(parts) != 2 or not all(parts) or any(part.rstrip().endswith("%") for part in parts):
        raise ConfigError(f"split={given!r}: {EXPECTED}.")
    numbers = [_number(part) for part in parts]
    shares = [number for number in numbers if number is not None and 0 <= number < 1]
    if len(shares) == 1 and None in numbers:
        raise ConfigError(f"split={given!r}: {EXPECTED}; these are one of each.")
    if len(shares) < 2:
        return TimeCuts(*parts)
    train, val = shares
    if not (train > 0 and round(train + val, 9) <= 1):
        raise ConfigError(
            f"split={given!r}: the shares of training and validation must leave events for training and for "
            f"the test; {EXPECTED}."
        )
    return ShareCuts(train, val)


def split_text(given: SplitLike) -> str:
    """Return a split as the text that a config stores."""
    if isinstance(given, str):
        return ",".join(part.strip() for part in given.split(","))
    if not isinstance(given, Sequence):
        raise ConfigError(f"split={given!r}: {EXPECTED}.")
    return ",".join(map(_as_text, given))


def _as_text(value: Any) -> str:
    if isinstance(value, date):  # a datetime is one, and so is pandas' Timestamp
        return value.isoformat()
    if isinstance(value, str | int | float | np.integer | np.floating | np.datetime64):
        return str(value).strip()
    raise ConfigError(f"split: {value!r} is neither a number nor a time; {EXPECTED}.")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _finite(time: Number, name: str) -> Number:
    if math.isfinite(time):
        return time
    raise ConfigError(f"{name}: {EXPECTED}; these must be finite.")


def _first_after(stream: EventStream, share: float) -> int:
    """Return the position of the first event after the time quantile ``share``.

    The quantile may lie between two events, but which events follow it is decided by the earlier one.
    Interpolated in float64, times in nanoseconds would lose their last digits.
    """
    place = round((len(stream) - 1) * share, 6)  # 0.7 * 10 may come out just below 7
    cut = stream.t[int(place)]
    return int(np.searchsorted(stream.t, cut, side="right"))


def _first_from(stream: EventStream, time: Number) -> int:
    """Return the position of the first event at ``time`` or later, without rounding integer times."""
    bound = math.ceil(time) if stream.t.dtype.kind == "i" else time
    if bound <= stream.t[0].item():
        return 0
    if bound > stream.t[-1].item():
        return len(stream)
    return int(np.searchsorted(stream.t, stream.t.dtype.type(bound), side="left"))
