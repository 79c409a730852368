"""The timing core: how long work takes, on both sides of a comparison in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch

from contig.kernels.threads import split_range

Work = Callable[[], Any]


def synchronize(device: torch.device) -> None:
    """Wait for all work submitted to the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def forget_compiled(device: torch.device) -> None:
    """Forget compiled code: torch compiles a function for eight models at most, and runs others uncompiled.

    Call this before creating the sessions that are compared. Steps captured earlier keep their code.
    """
    if device.type == "cuda":
        torch.compiler.reset()


def seconds(work: Work, device: torch.device) -> float:
    """Time one call of ``work``, including what it submits to the device."""
    synchronize(device)
    start = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - start


def repeat(work: Work, repeats: int, device: torch.device) -> list[float]:
    """Time ``repeats`` calls of ``work`` after a warm-up call."""
    return alternate([work], repeats, device)[0]


def alternate(works: Sequence[Work], repeats: int, device: torch.device) -> list[list[float]]:
    """Time several kinds of work in turn, ``repeats`` calls each after a warm-up call.

    Taking turns spreads whatever else the machine does evenly over all of them.
    """
    for work in works:
        work()
    rounds = [[seconds(work, device) for work in works] for _ in range(repeats)]
    return [list(times) for times in zip(*rounds, strict=True)]


class Stepper(Protocol):
    """Something that goes through a stream step by step."""

    overhead: float  # seconds added to every step for work that is done once per epoch

    def rewind(self) -> None:
        """Return to the beginning of the stream."""

    def advance(self, steps: int) -> None:
        """Take the next ``steps`` steps, without waiting for the device."""


def time_steps(
    steppers: Sequence[Stepper], first: int, last: int, blocks: int, device: torch.device
) -> list[list[float]]:
    """Time the steps ``first`` to ``last`` of each stepper; returns seconds per step, one for each block.

    The steppers alternate block by block. The steps before ``first`` are the warm-up.
    """
    for stepper in steppers:
        stepper.rewind()
        stepper.advance(first)
    times: list[list[float]] = [[] for _ in steppers]
    for begin, end in split_range(last - first, blocks):
        steps = end - begin
        for stepper, figures in zip(steppers, times, strict=True):
            block = seconds(partial(stepper.advance, steps), device)
            figures.append(block / steps + stepper.overhead)
    return times
