"""Trackers, against the real packages where they are installed, and callbacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.trained import TINY, tiny_stream

import contig
from contig.errors import ConfigError
from contig.runs.metrics import Epoch, RunMetrics
from contig.training import trackers
from contig.training.callbacks import Callbacks
from contig.training.fit import fit, resume
from contig.training.trackers import CURVES, TRACKERS, final_metrics

pytestmark = pytest.mark.usefixtures("fast_training")
STREAM = tiny_stream()
MODULES = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow", "wandb": "wandb"}


def trained(out: Path, **more: Any) -> contig.Run:
    return fit(STREAM, out=out, show=False, **{"epochs": 2, **TINY, **more})


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_reported_before_training(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULES[name], None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        trained(tmp_path / "run", track=name)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Unknown tracker 'tensorbord'\. Did you mean 'tensorboard'"):
        trained(tmp_path / "run", track="tensorbord")


@pytest.mark.filterwarnings("ignore")  # of the package itself
def test_tensorboard_gets_every_epoch_and_the_test(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra track")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trained(tmp_path / "run", track=["tensorboard"], monitor="mrr")
    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    known = {name for name in CURVES if name != "val_ap_historical"}  # which is not monitored
    for name in known:
        written = [(one.step, one.value) for one in events.Scalars(name)]
        assert written == [(row.epoch, pytest.approx(getattr(row, name))) for row in run.metrics.epochs]
    assert set(events.Tags()["scalars"]) == {*known, *final_metrics(run.metrics)}
    (last,) = events.Scalars("test_ap_transductive")
    assert last.value == pytest.approx(run.metrics.transductive.ap)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_parameters_epochs_and_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the extra track")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path / 'tracking'}")
    run = trained(tmp_path / "first", track="mlflow")
    client = mlflow.MlflowClient()
    (found,) = client.search_runs(["0"])
    assert found.info.run_name == "first"
    assert found.info.status == "FINISHED"
    assert found.data.params["dim"] == "8"
    assert found.data.metrics["test_ap_transductive"] == pytest.approx(run.metrics.transductive.ap)
    losses = [one.value for one in client.get_metric_history(found.info.run_id, "loss")]
    assert losses == pytest.approx([row.loss for row in run.metrics.epochs])


class Failing(contig.Callback):
    def on_epoch(self, epoch: Epoch) -> None:
        raise OSError("no space left")

    def close(self) -> None:
        raise OSError("nor here")


class Package:
    """Stands for mlflow and for wandb: records how a run ended."""

    def __init__(self) -> None:
        self.ended: list[Any] = []
        self.summary: dict[str, float] = {}

    def start_run(self, **_: Any) -> None: ...
    def log_params(self, _: Any) -> None: ...
    def log_metrics(self, _: Any, **__: Any) -> None: ...
    def log(self, _: Any, **__: Any) -> None: ...
    def init(self, **_: Any) -> Package:
        return self

    def end_run(self, status: str) -> None:
        self.ended.append(status)

    def finish(self, exit_code: int) -> None:
        self.ended.append(exit_code)


@pytest.mark.parametrize(("name", "states"), [("mlflow", ["FINISHED", "FAILED"]), ("wandb", [0, 1])])
def test_trackers_say_how_a_training_ended_whatever_other_callbacks_raise(
    name: str, states: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Package()
    monkeypatch.setattr(trackers, "_require", lambda *_: package)
    trained(tmp_path / "one", track=name, epochs=1)
    with pytest.raises(OSError, match="nor here"):
        fit(STREAM, out=tmp_path / "two", show=False, track=name, callbacks=[Failing()], **TINY)
    assert package.ended == states


def test_every_callback_is_closed() -> None:
    closed = []

    class Closing(contig.Callback):
        def close(self) -> None:
            closed.append(self)

    watched = [Closing(), Failing(), Closing()]
    with pytest.raises(OSError, match="nor here"):
        Callbacks(watched).close()
    assert closed == [watched[0], watched[2]]


@pytest.mark.filterwarnings("ignore")
def test_wandb_gets_everything_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs the extra track")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = trained(tmp_path / "first", track="wandb")
    (file,) = run.path.glob("wandb/offline-run-*/run-*.wandb")
    assert file.stat().st_size > 0


class Recorder(contig.Callback):
    """Keeps whatever it is told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_start(self, start: contig.TrainingStart) -> None:
        self.seen.append((start.folder.name, start.config.model, len(start.stream), start.finished_epochs))

    def on_epoch(self, epoch: Epoch) -> None:
        self.seen.append(epoch)

    def on_end(self, metrics: RunMetrics) -> None:
        self.seen.append(metrics.transductive.ap)

    def close(self) -> None:
        self.seen.append("closed")


def test_callbacks_see_the_whole_training(tmp_path: Path) -> None:
    watcher = Recorder()
    run = trained(tmp_path / "run", callbacks=[watcher])
    start, *rest = watcher.seen
    assert start == ("run", "contig-pair", len(STREAM), 0)
    assert rest == [*run.metrics.epochs, run.metrics.transductive.ap, "closed"]


def test_a_callback_that_fails_leaves_a_run_to_resume(tmp_path: Path) -> None:
    class Stop(Recorder):
        def on_epoch(self, epoch: Epoch) -> None:
            super().on_epoch(epoch)
            raise ValueError("enough")

    stopped, watcher = Stop(), Recorder()
    with pytest.raises(ValueError, match="enough"):
        trained(tmp_path / "run", callbacks=[stopped])
    assert stopped.seen[-1] == "closed"
    run = resume(tmp_path / "run", show=False, callbacks=[watcher])
    assert watcher.seen[0] == ("run", "contig-pair", len(STREAM), 1)
    assert [row.epoch for row in watcher.seen[1:-2]] == [2]
    assert [row.epoch for row in run.metrics.epochs] == [1, 2]


def test_something_else_is_not_a_callback(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a callback"):
        trained(tmp_path / "run", callbacks=[print])
    assert not (tmp_path / "run").exists()


def test_hints_reach_python(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    assert any("an epoch has only" in notice for notice in run.notices)
    assert all(f"note: {notice}" in run.summary() for notice in run.notices)
    assert contig.Run.open(run.path).notices == ()
