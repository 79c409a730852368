"""Trackers of experiments: TensorBoard, MLflow and Weights & Biases, each an optional package.

Every tracker gets the config as parameters, the metrics of each epoch and those of the test. MLflow and
Weights & Biases are configured by their own environment variables (``MLFLOW_TRACKING_URI``,
``WANDB_PROJECT``, ``WANDB_MODE=offline``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from contig.errors import ConfigError, unknown
from contig.runs.config import RunConfig
from contig.runs.metrics import Epoch, RunMetrics
from contig.training.callbacks import Callback, TrainingStart

CURVES = ("loss", "val_ap", "val_auc", "val_ap_inductive", "val_ap_historical", "val_mrr")


class TensorBoardTracker(Callback):
    """Writes the curves to the folder ``tensorboard`` of the run."""

    def __init__(self) -> None:
        self.writers = _require("torch.utils.tensorboard", "tensorboard")
        self.writer: Any = None

    def on_start(self, start: TrainingStart) -> None:
        self.writer = self.writers.SummaryWriter(str(start.folder / "tensorboard"))

    def on_epoch(self, epoch: Epoch) -> None:
        for name, value in curves(epoch).items():
            self.writer.add_scalar(name, value, epoch.epoch)

    def on_end(self, metrics: RunMetrics) -> None:
        for name, value in final_metrics(metrics).items():
            self.writer.add_scalar(name, value, metrics.best_epoch)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class MLflowTracker(Callback):
    """Records a run of MLflow with the name of the run's folder."""

    def __init__(self) -> None:
        self.mlflow = _require("mlflow", "mlflow")
        self.active = self.ended = False

    def on_start(self, start: TrainingStart) -> None:
        self.mlflow.start_run(run_name=start.folder.name)
        self.active = True
        self.mlflow.log_params(parameters(start))

    def on_epoch(self, epoch: Epoch) -> None:
        self.mlflow.log_metrics(curves(epoch), step=epoch.epoch)

    def on_end(self, metrics: RunMetrics) -> None:
        self.mlflow.log_metrics(final_metrics(metrics), step=metrics.best_epoch)
        self.ended = True

    def close(self) -> None:
        if self.active:
            self.mlflow.end_run("FINISHED" if self.ended else "FAILED")


class WandbTracker(Callback):
    """Records a run of Weights & Biases; its local files are in the run's folder."""

    def __init__(self) -> None:
        self.wandb = _require("wandb", "wandb")
        self.run: Any = None
        self.ended = False

    def on_start(self, start: TrainingStart) -> None:
        self.run = self.wandb.init(
            project=os.environ.get("WANDB_PROJECT", "contig"),
            name=start.folder.name,
            dir=str(start.folder),
            config=parameters(start),
        )

    def on_epoch(self, epoch: Epoch) -> None:
        self.run.log(curves(epoch), step=epoch.epoch)

    def on_end(self, metrics: RunMetrics) -> None:
        self.run.summary.update(final_metrics(metrics))
        self.ended = True

    def close(self) -> None:
        if self.run is not None:
            self.run.finish(exit_code=0 if self.ended else 1)


TRACKERS: dict[str, type[Callback]] = {
    "tensorboard": TensorBoardTracker,
    "mlflow": MLflowTracker,
    "wandb": WandbTracker,
}


def make_trackers(names: str | Sequence[str]) -> list[Callback]:
    """Return the trackers of these names: comma-separated, or a list."""
    wanted = names.split(",") if isinstance(names, str) else names
    found = []
    for name in dict.fromkeys(one.strip() for one in wanted if one.strip()):
        if name not in TRACKERS:
            raise ConfigError(unknown("tracker", name, TRACKERS))
        found.append(TRACKERS[name]())
    return found


def parameters(start: TrainingStart) -> dict[str, Any]:
    """Return the config and the data as one level of plain values."""
    config: RunConfig = start.config
    content = config.as_dict()
    facts = {"data": start.stream.origin, "events": len(start.stream), "nodes": start.stream.num_nodes}
    return {"model": config.model, **facts, **content["options"], **content["train"]}


def curves(epoch: Epoch) -> dict[str, float]:
    """Return the metrics of an epoch that are numbers."""
    return {name: value for name in CURVES if not math.isnan(value := getattr(epoch, name))}


def final_metrics(metrics: RunMetrics) -> dict[str, float]:
    """Return the metrics of the test that are numbers."""
    parts = {"transductive": metrics.transductive, "inductive": metrics.inductive}
    found = {
        f"test_{name}_{part}": getattr(one, name) for part, one in parts.items() for name in ("ap", "auc")
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _require(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"Tracking needs {package}, which is not installed: pip install {package}, or contig[track]."
        ) from error
