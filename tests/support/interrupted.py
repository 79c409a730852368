"""Trainings that are interrupted: where they stop, and how long they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from contig.data.events import EventStream
from support.trained import train_tiny

EPOCHS = 3
STEPS = 8  # per epoch


class Crash(BaseException):
    """Ends a training at once, as a power cut would: nothing handles it."""


def train(stream: EventStream, out: Path, **settings: Any) -> None:
    train_tiny(stream, out, **{"epochs": EPOCHS, **settings})


def after_call(number: int, function: Callable[..., Any], do: Callable[[], None]) -> Callable[..., Any]:
    """``function``, followed by ``do`` at its n-th call."""
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        result = function(*args, **kwargs)
        calls += 1
        if calls == number:
            do()
        return result

    return counted


def crash() -> None:
    raise Crash
