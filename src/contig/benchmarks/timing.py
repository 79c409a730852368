"""What a benchmark is made of: two sides timed in turns, and the row that comes of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Literal, Protocol

import torch

from contig.errors import ConfigError
from contig.kernels.threads import split_range

PACKAGES = ("contig", "torch", "numpy", "numba", "triton", "torch-geometric", "torchdiffeq")
EXTRAS = {"torch_geometric": "baselines", "torchdiffeq": "solvers"}

Range = tuple[float, float]


class MissingPeer(ConfigError):
    """A package to compare with is not installed."""


@dataclass(frozen=True)
class Measurement:
    """One row: what it took us and what it took the peer, in ``unit``, the less the better.

    Figures are medians over ``repeats``, ranges their extremes. ``ratio`` is the peer's figure over
    ours: the median of the repeats' own ratios, above 1 where ours is better. A row that could not be
    measured has no figures and says in ``note`` what is missing.
    """

    name: str
    what: str
    unit: Literal["s", "bytes"] = "s"
    peer_name: str = ""
    ours: float | None = None
    ours_range: Range | None = None
    peer: float | None = None
    peer_range: Range | None = None
    ratio: float | None = None
    ratio_range: Range | None = None
    repeats: int = 0
    note: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        what: str,
        ours: Sequence[float],
        peer_name: str,
        peer: Sequence[float],
        *,
        unit: Literal["s", "bytes"] = "s",
        note: str = "",
    ) -> Measurement:
        """The row of two sides measured in turns, as often each."""
        ratios = [theirs / own for own, theirs in zip(ours, peer, strict=True)]
        return cls(
            *(name, what, unit, peer_name, median(ours), extremes(ours), median(peer), extremes(peer)),
            *(median(ratios), extremes(ratios), len(ratios), note),
        )


def extremes(values: Sequence[float]) -> Range:
    return min(values), max(values)


def need(package: str) -> None:
    """Refuse to go on without a peer's package."""
    if find_spec(package) is None:
        raise MissingPeer(f"needs {package}; install it with: pip install 'contig[{EXTRAS[package]}]'")


def finish(device: torch.device) -> None:
    """Wait until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """How long ``work`` takes, the device's part included."""
    finish(device)
    begun = time.perf_counter()
    work()
    finish(device)
    return time.perf_counter() - begun


def in_turns(
    ours: Callable[[], Any], peer: Callable[[], Any], repeats: int, device: torch.device
) -> tuple[list[float], list[float]]:
    """The seconds of both sides, one after the other, after a call of each that is not counted."""
    ours(), peer()
    pairs = [(seconds(ours, device), seconds(peer, device)) for _ in range(repeats)]
    return [own for own, _ in pairs], [theirs for _, theirs in pairs]


class Walker(Protocol):
    """Something that goes through a stream step by step."""

    upfront: float  # seconds that every step owes for what was done before the first

    def rewind(self) -> None:
        """Back to the beginning of the stream."""

    def advance(self, steps: int) -> None:
        """Do the next ``steps`` of it; need not wait for the device."""


def race(
    walkers: Sequence[Walker],
    first: int,
    last: int,
    blocks: int,
    device: torch.device,
    during: Sequence[Callable[[], AbstractContextManager[None]]] = (nullcontext, nullcontext),
) -> list[list[float]]:
    """Seconds per step of each walker in each block of the steps ``first`` to ``last``.

    The walkers take turns block by block, so that whatever else the machine does falls on all of them.
    The steps before ``first`` are the warm-up.
    """
    for walker, within in zip(walkers, during, strict=False):
        with within():
            walker.rewind()
            walker.advance(first)
    found: list[list[float]] = [[] for _ in walkers]
    for begin, end in split_range(last - first, blocks):
        for walker, within, times in zip(walkers, during, found, strict=False):
            with within():
                spent = seconds(lambda w=walker, n=end - begin: w.advance(n), device)  # type: ignore[misc]
            times.append(spent / (end - begin) + walker.upfront)
    return found


# -- where it was measured ------------------------------------------------------------------------------


def processor() -> str:
    """The CPU in words."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def load() -> float:
    """How many processes wanted to run in the last minute."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def versions(packages: Sequence[str] = PACKAGES) -> Mapping[str, str]:
    """Those of the packages that are installed."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
