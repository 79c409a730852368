"""The schema of ``metrics.json``: a run's test result, and the record of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median

import torch

from contig import __version__
from contig.data.events import EventStream
from contig.kernels.devices import hardware
from contig.runs.config import RunConfig
from contig.runs.options import MONITORS, Monitor
from contig.schema import Record, decode, read_versioned
from contig.tasks.link import LinkResult
from contig.tasks.results import SCHEMA, DataFacts, Evaluation, LinkMetrics, RunFacts, upgrade


@dataclass(frozen=True, kw_only=True, eq=False)
class Epoch(Record):
    """One epoch: its training loss and its validation metrics.

    ``val_ap_inductive`` is NaN where no validation event has a new node, ``val_ap_historical`` and
    ``val_mrr`` unless they are monitored.
    """

    epoch: int  # counted from 1
    loss: float
    val_ap: float
    val_auc: float
    val_ap_inductive: float
    val_ap_historical: float = nan
    val_mrr: float = nan
    train_seconds: float
    events_per_second: float  # 0 for a model that does not train

    def metric(self, monitor: Monitor) -> float:
        """Return the validation metric with the name that the option ``monitor`` gives it."""
        return {
            "ap": self.val_ap,
            "auc": self.val_auc,
            "inductive-ap": self.val_ap_inductive,
            "historical-ap": self.val_ap_historical,
            "mrr": self.val_mrr,
        }[monitor]

    def summary(self, *, best: bool, monitor: Monitor = "ap") -> str:
        """Summarize the metrics in one line."""
        missing = self.val_ap_inductive != self.val_ap_inductive
        inductive = "-" if missing else f"{100 * self.val_ap_inductive:.2f}"
        epoch, speed = (
            f"epoch {self.epoch:>3}  loss {self.loss:.4f}",
            f"{self.events_per_second:,.0f} events/s",
        )
        if self.val_ap != self.val_ap:  # a final training has no validation
            return f"{epoch}  {speed}"
        monitored = ""
        if monitor in ("auc", "historical-ap", "mrr"):
            monitored = f"  {MONITORS[monitor]} {100 * self.metric(monitor):.2f}"
        return (
            f"{epoch}  validation AP {100 * self.val_ap:.2f}  inductive {inductive}{monitored}  {speed}"
            f"{'  best so far' if best else ''}"
        )


def timed_epochs(epochs: Sequence[Epoch]) -> Sequence[Epoch]:
    """Return the epochs whose time counts: all but the first, which compiles, unless it is alone."""
    return epochs[1:] or epochs


@dataclass(frozen=True, kw_only=True, eq=False)
class Throughput(Record):
    """Events per second: in training (0 for a model that does not train) and in the test."""

    train: float
    train_over: str = "all epochs"  # the epochs that ``train`` is of; runs before this field counted all
    score: float

    @classmethod
    def of(cls, epochs: Sequence[Epoch], score: float) -> Throughput:
        """Take the median speed of the epochs that count."""
        timed = timed_epochs(epochs)
        return cls(
            train=median(epoch.events_per_second for epoch in timed),
            train_over="the first epoch" if len(epochs) == 1 else "median of the epochs after the first",
            score=score,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PeakMemory(Record):
    """Peak memory, and what it was measured of; ``bytes`` is None where the system does not say."""

    bytes: int | None
    of: str


@dataclass(frozen=True, kw_only=True, eq=False)
class RunMetrics(Evaluation[LinkResult]):
    """Everything in ``metrics.json``; ``result`` is link prediction on the test events."""

    parameters: int
    peak_memory: PeakMemory
    best_epoch: int
    events_per_second: Throughput
    epochs: tuple[Epoch, ...]

    @property
    def transductive(self) -> LinkMetrics:
        return self.result.transductive

    @property
    def inductive(self) -> LinkMetrics:
        return self.result.inductive

    @property
    def inductive_dyglib(self) -> LinkMetrics:
        return self.result.inductive_dyglib


def read_metrics(path: Path) -> RunMetrics:
    """Read the metrics in a file."""
    cure = f"Delete it and write it again with 'contig resume {path.parent}'."
    return decode(RunMetrics, read_versioned(path, SCHEMA, upgrade, cure), path, cure)


def run_facts(
    config: RunConfig, stream: EventStream, device: torch.device, batch_size: int | None = None
) -> RunFacts:
    """Return the facts of a run that was measured with its own batch size, unless another is given."""
    return RunFacts(
        contig=__version__,
        model=config.model,
        data=DataFacts.of(stream),
        seed=config.train.seed,
        batch_size=config.train.batch_size if batch_size is None else batch_size,
        hardware=hardware(device),
    )
