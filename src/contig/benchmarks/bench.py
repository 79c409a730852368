"""What all measurements share: the settings, the data and the models under test."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from contig.benchmarks.peers import PeerEvents, PeerTGN
from contig.benchmarks.timing import Stepper, time_steps
from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.kernels.devices import pick_device
from contig.models import model_class
from contig.options import option
from contig.runs.config import RunConfig
from contig.streaming.prepared import PreparedStream
from contig.training.preparation import prepare
from contig.training.session import Session


@dataclass(frozen=True)
class Settings:
    """Settings that both sides of every measurement share."""

    neighbors: int = option(10, "neighbors per query (k)", low=1)
    dim: int = option(172, "width of states, embeddings and time encodings", low=2)
    batch_size: int = option(200, "events per step", low=1)
    first: int = option(200, "first timed step; the steps before it are the warm-up", low=0)
    last: int = option(400, "end of the timed steps", low=1)
    repeats: int = option(10, "blocks of steps, or calls, that a median is taken over", low=1)
    compile: Literal["auto", "on", "off"] = option("auto", "as in training: fuse the step's kernels on a GPU")
    pairs: int = option(2000, "pairs whose ODE is solved", low=1)
    ranked: int = option(0, "test events to rank; 0 picks a number that suits the device", low=0)
    copied: int = option(2**28, "bytes copied to measure the memory bandwidth", low=1)
    events: int = option(10_000_000, "events to index; a tenth of them is read from files", low=10)
    served: int = option(30_000, "events sent to a service, and again while it is queried", low=100)
    hour: int = option(3_600_000, "events that live-hour sends: an hour of 1,000 per second", low=1)
    queries: int = option(120_000, "lookups in a timed call, at least", low=1)
    recipe: str = option("departures", "recipe whose variants the measurement departures times")
    runs: tuple[str, ...] = option((), "trained runs that the measurement ranking-times ranks with")


QUICK: dict[str, Any] = {
    **{"neighbors": 5, "dim": 16, "batch_size": 40, "first": 4, "last": 12, "repeats": 2},
    **{
        "compile": "off",
        "pairs": 50,
        "ranked": 10,
        "copied": 2**22,
        "events": 3000,
        "queries": 600,
        "served": 300,
        "hour": 12_000,
    },
}
QUICK_DATA = "synthetic:2000"


class Bench:
    """Data, settings, and one training session per model, shared by all measurements."""

    def __init__(self, data: PreparedStream, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.stream, self.device = data.stream, data.device
        self._sessions: dict[tuple[str, bool], Session] = {}

    @classmethod
    def prepare(cls, stream: EventStream, settings: Settings, device: str = "auto") -> Bench:
        """Index the stream on the device, and fit the timed steps into one epoch of it."""
        # Without features: the peers use them in other places, and reading them is not what is measured.
        stream = replace(stream, edge_features=None, node_features=None)
        data = prepare(stream, run_config("contig", settings), pick_device(device))
        return cls(data, _within_epoch(settings, data))

    @property
    def few_repeats(self) -> int:
        """Repeats of measurements that take long."""
        return min(3, self.settings.repeats)

    def session(self, model: str, *, plain: bool = False) -> Session:
        """Return the training session of a model, created once so that its step is compiled once."""
        if (model, plain) not in self._sessions:
            settings = replace(self.settings, compile="off") if plain else self.settings
            self._sessions[model, plain] = Session(self.data, run_config(model, settings))
        return self._sessions[model, plain]

    def peer(self, *, learn: bool = True) -> PeerTGN:
        """Create the peer, which trains on the training events or scores the whole stream."""
        s = self.settings
        events = self.data.split.train if learn else np.arange(len(self.stream))
        return PeerTGN(
            PeerEvents.select(self.stream, events, self.device),
            self.stream.num_nodes,
            np.unique(self.stream.dst[events]),
            dim=s.dim,
            neighbors=s.neighbors,
            batch_size=s.batch_size,
            learn=learn,
        )

    def time_steps(self, *steppers: Stepper) -> list[list[float]]:
        """Time the steps that the settings name; see ``timing.time_steps``."""
        s = self.settings
        return time_steps(steppers, s.first, s.last, s.repeats, self.device)


def run_config(model: str, settings: Settings, **overrides: Any) -> RunConfig:
    """Return the config of a model under the benchmark's settings."""
    s = settings
    sizes = {"dim": s.dim, "time_dim": s.dim, "neighbors": s.neighbors}
    known = {field.name for field in fields(model_class(model).options)}
    shared = {name: size for name, size in sizes.items() if name in known}
    return RunConfig.of(model, {**shared, "batch_size": s.batch_size, "compile": s.compile, **overrides})


def _within_epoch(settings: Settings, data: PreparedStream) -> Settings:
    """Time the second half of an epoch that is too short for the default steps."""
    steps = len(data.split.train) // settings.batch_size
    if settings.last <= steps:
        return settings
    if (settings.first, settings.last) != (Settings.first, Settings.last) or steps < 2:
        raise ConfigError(
            f"steps {settings.first}:{settings.last}: an epoch of {data.stream.origin} has {steps} full "
            f"batches of {settings.batch_size}. Choose --steps within it, or a smaller --batch-size."
        )
    return replace(settings, first=steps // 2, last=steps)
