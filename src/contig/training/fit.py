"""The one training loop.

An epoch walks the training events once: score a batch, learn from it, observe it. Validation walks
on from there. The best epoch by validation AP is kept with its state, so that the test walks on from
exactly what validation left.
"""

from __future__ import annotations

import logging
import math
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, RunError
from contig.files import write_json
from contig.kernels.devices import hardware, pick_device
from contig.models import Model, model_class
from contig.progress import Display
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder
from contig.runs.run import Run, describe
from contig.streaming.replay import replay
from contig.tasks.link import evaluation_negatives, link_report
from contig.training.advice import after_training, before_training
from contig.training.memory_usage import peak_memory, reset_peak
from contig.training.session import Data, Session

log = logging.getLogger("contig")

NAN_CHECK = 50  # steps between looks at the loss; looking makes a GPU wait


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop; everything done so far is in the checkpoint."""


def fit(
    data: Any,
    model: str | type[Model] = "contig",
    *,
    out: str | Path | None = None,
    device: str = "auto",
    show: bool | None = None,
    tensorboard: bool = False,
    **settings: Any,
) -> Run:
    """Train ``model`` on events and give the finished run.

    ``model`` is a name (see ``contig models``), ``package.module:Class`` or a subclass of ``contig.Model``.
    ``data`` is an ``EventStream``, a file, a dataset's name, or a table (a pandas or polars frame, a
    pyarrow table). ``settings`` are options of the model or of the training (``epochs=10, dim=64``), and
    the fields of ``ReadOptions`` (``src="who"``) for a file or a table. The run is kept
    in the folder ``out`` (a temporary one if not given). ``show`` forces progress on or off.
    """
    reading, settings = ReadOptions.take(settings)
    config = RunConfig.of(model, settings)
    name = model_class(config.model).name
    chosen = pick_device(device)
    folder = RunFolder(out if out is not None else tempfile.mkdtemp(prefix=f"contig-{name}-"))
    folder.must_be_free()
    stream = _read(data, reading)
    display = Display(show)
    with torch.random.fork_rng(devices=_cuda_devices(chosen)):
        session = Session(Data.prepare(stream, config, chosen), config)
        writer = _tensorboard(folder) if tensorboard else None
        folder.create(stream, config)
        if session.model.learns:
            for line in before_training(session):
                display.say(line)
        return _train(session, folder, display, writer)


def _read(data: Any, reading: ReadOptions) -> EventStream:
    """The events that a caller means."""
    if not isinstance(data, EventStream):
        return open_stream(data, reading)
    if given := list(reading.as_dict()):
        raise ConfigError(
            f"{given[0]}=... is an option for reading files and tables; this is a stream already."
        )
    return data


def resume(
    path: str | Path,
    *,
    device: str = "auto",
    show: bool | None = None,
    tensorboard: bool = False,
    **more: Any,
) -> Run:
    """Go on with an interrupted run; on a CPU it ends with the very numbers of an uninterrupted one.

    ``more`` may change ``epochs`` (to train a finished run for longer), ``patience`` and
    ``checkpoint_seconds``; what decides the numbers stays as it was.
    """
    folder = RunFolder(path)
    if fixed := [name for name in more if name not in ("epochs", "patience", "checkpoint_seconds")]:
        raise ConfigError(
            f"{fixed[0]} cannot change while a run goes on; only epochs, patience and checkpoint_seconds "
            "can. Train a new run instead."
        )
    config = folder.config().with_train(**more)
    chosen = pick_device(device)
    with torch.random.fork_rng(devices=_cuda_devices(chosen)):
        session = Session(Data.prepare(folder.stream(), config, chosen), config)
        if folder.has("checkpoint.pt"):
            session.restore(folder.load("checkpoint.pt"))
        if "epochs" in more and _finished(session):  # its patience had ended, and more is asked of it
            session.progress.patience_from = session.progress.epoch
        folder.reopen(config)
        if _finished(session) and folder.has("metrics.json") and folder.has("serving.pt"):
            log.warning(_why_finished(session, folder))
            return Run.open(folder.path, chosen)
        writer = _tensorboard(folder) if tensorboard else None
        if not _finished(session):
            folder.unfinish()
        return _train(session, folder, Display(show), writer)


def _why_finished(session: Session, folder: RunFolder) -> str:
    progress, train = session.progress, session.config.train
    if not session.model.learns:
        return f"{folder.path} is finished: {session.config.model} learns nothing, so there is no more to do."
    waited = f"{train.patience} epochs brought no better validation AP"
    why = "all were asked for" if progress.epoch >= train.epochs else waited
    return (
        f"{folder.path} is finished: {progress.epoch} epochs are done ({why}), the best was "
        f"{progress.best_epoch}. To train longer: contig resume {folder.path} --epochs {2 * progress.epoch}"
    )


def _cuda_devices(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []


def _train(session: Session, folder: RunFolder, display: Display, writer: Any = None) -> Run:
    reset_peak(session.data.device)
    validate = _Validation(session, folder)
    progress = session.progress
    with display, _stopping_softly() as stop, closing(writer) if writer else nullcontext():
        while not _finished(session):
            _train_epoch(session, folder, display, stop)
            row = validate(display)
            if session.model.learns:
                display.epoch(row, best=progress.best_epoch == row["epoch"])
            if writer is not None:
                for name in ("loss", "val_ap", "val_auc", "val_ap_inductive"):
                    writer.add_scalar(name, row[name], row["epoch"])
            progress.epoch, progress.step = progress.epoch + 1, 0
            folder.save("checkpoint.pt", session.snapshot())
            _stop_if_asked(stop)
        _finish(session, folder, display, stop)
    return Run.open(folder.path, session.data.device)


def _finished(session: Session) -> bool:
    progress, options = session.progress, session.config.train
    if not session.model.learns:
        return progress.epoch >= 1
    waited = progress.epoch - max(progress.best_epoch, progress.patience_from)
    return progress.epoch >= options.epochs or (progress.best_epoch > 0 and waited >= options.patience)


def _train_epoch(session: Session, folder: RunFolder, display: Display, stop: threading.Event) -> None:
    """The rest of the epoch under way."""
    progress, options = session.progress, session.config.train
    if progress.step == 0:
        session.begin_epoch()
    train = session.data.split.train
    if not session.model.learns:
        replay(session.model, session.state, session.data.training, train, options.batch_size)
        return
    saved = time.perf_counter()
    begun = saved - progress.train_seconds  # as if it had never been interrupted
    done = session.steps[progress.step - 1].stop if progress.step else 0
    task = display.task(f"epoch {progress.epoch + 1}/{options.epochs}", len(train), done)
    total = torch.tensor(progress.loss, dtype=torch.float64, device=session.data.device)
    note = ""
    while progress.step < len(session.steps):
        total += session.train_step()
        step = session.steps[progress.step - 1]
        if progress.step % NAN_CHECK == 0 or progress.step == len(session.steps):
            progress.loss = _checked(float(total), session)
            note = f"loss {progress.loss / progress.step:.4f}"
        task.advance(step.stop - step.start, note)
        if stop.is_set() or time.perf_counter() - saved > options.checkpoint_seconds:
            progress.loss = _checked(float(total), session)
            progress.train_seconds = time.perf_counter() - begun
            folder.save("checkpoint.pt", session.snapshot())
            saved = time.perf_counter()
        _stop_if_asked(stop)
    task.end()
    if session.data.device.type == "cuda":
        torch.cuda.synchronize(session.data.device)
    progress.train_seconds = time.perf_counter() - begun


def _stop_if_asked(stop: threading.Event) -> None:
    if stop.is_set():
        raise Interrupted


def _checked(loss: float, session: Session) -> float:
    if math.isfinite(loss):
        return loss
    progress, options = session.progress, session.config.train
    raise RunError(
        f"The loss is not a number any more (epoch {progress.epoch + 1}, about step {progress.step}). "
        f"Try a smaller step size (lr={options.lr / 3:.1g}), a tighter clip (clip={options.clip / 2:.2g}), "
        "state_norm=true, or look for extreme edge features."
    )


class _Validation:
    """Walks on through the validation events after an epoch and keeps the best epoch."""

    def __init__(self, session: Session, folder: RunFolder) -> None:
        self.session, self.folder = session, folder
        data = session.data
        self.negative = evaluation_negatives(data.stream, data.split, data.split.val, "random", data.device)

    def __call__(self, display: Display) -> dict[str, Any]:
        session, data, progress = self.session, self.session.data, self.session.progress
        task = display.task("validation", len(data.split.val))
        scores = session.scorer(data.split.val, self.negative, task.advance)
        task.end()
        _checked(float(np.sum(scores)), session)
        size = session.config.train.batch_size
        report = link_report(
            data.stream, data.split, data.split.val, scores, size, inductive=session.model.inductive
        )
        learned = len(data.split.train) if session.model.learns else 0
        row: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "loss": progress.loss / max(progress.step, 1),
            "val_ap": report["transductive"]["ap"],
            "val_auc": report["transductive"]["auc"],
            "val_ap_inductive": report["inductive"].get("ap", math.nan),
            "train_seconds": progress.train_seconds,
            "events_per_second": learned / progress.train_seconds if learned else 0.0,
        }
        progress.log.append(row)
        if row["val_ap"] > progress.best_ap:
            progress.best_ap, progress.best_epoch = row["val_ap"], row["epoch"]
            self.folder.save("best.pt", _weights_and_state(session) | {"epoch": row["epoch"]})
        return row


def _weights_and_state(session: Session) -> dict[str, Any]:
    return {"weights": session.model.state_dict(), "state": session.state.snapshot()}


def _finish(session: Session, folder: RunFolder, display: Display, stop: threading.Event) -> None:
    """Test the best epoch, walk a fresh state over the whole stream, and write the results.

    All of it can be done again from what is saved, so a wish to stop is granted at once.
    """

    def advance(events: int) -> None:
        task.advance(events)
        _stop_if_asked(stop)

    data, options = session.data, session.config.train
    best = folder.load("best.pt")
    session.model.load_state_dict(best["weights"])
    session.state.restore(best["state"])
    session.progress.best_epoch = best["epoch"]  # a kill may have come between this file and the checkpoint
    negative = evaluation_negatives(data.stream, data.split, data.split.test, "random", data.device)
    task = display.task("test", len(data.split.test))
    scores = session.scorer(data.split.test, negative, advance)
    speed = task.speed()
    task.end()
    report = link_report(
        data.stream,
        data.split,
        data.split.test,
        scores,
        options.batch_size,
        inductive=session.model.inductive,
    )
    session.state.reset()
    everything = torch.arange(len(data.stream)).numpy()
    task = display.task("whole stream", len(everything))
    replay(session.model, session.state, data.history, everything, options.batch_size, advance)
    task.end()
    folder.save("serving.pt", _weights_and_state(session))
    metrics = {**_about(session, speed), **report}
    write_json(folder.path / "metrics.json", metrics)
    if session.model.learns:
        _draw_curve(session, folder)
        for line in after_training(session):
            display.say(line)


def _about(session: Session, scoring_speed: float) -> dict[str, Any]:
    """What the numbers are of, and how the training went."""
    config, progress, data = session.config, session.progress, session.data
    return {
        **describe(config, data.stream),
        "batch_size": config.train.batch_size,
        "hardware": hardware(data.device),
        "parameters": sum(p.numel() for p in session.model.parameters()),
        "peak_memory": peak_memory(data.device),
        "best_epoch": progress.best_epoch,
        "events_per_second": {
            "train": _training_speed(session),
            "score": scoring_speed,
        },
        # JSON has no NaN, which is the inductive AP where no event has a new node
        "epochs": [{k: None if v != v else v for k, v in row.items()} for row in progress.log],
    }


def _training_speed(session: Session) -> float:
    """Training events per second over all epochs."""
    seconds = sum(row["train_seconds"] for row in session.progress.log)
    events = len(session.progress.log) * len(session.data.split.train)
    return events / seconds if seconds else 0.0


def _draw_curve(session: Session, folder: RunFolder) -> None:
    from contig import plots

    title = f"{session.config.model} on {session.data.stream.origin}"
    plots.save(plots.learning_curve(session.progress.log, title), folder.path / "curve.png")


def _tensorboard(folder: RunFolder) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("tensorboard=True needs it installed: pip install tensorboard.") from error
    return SummaryWriter(str(folder.path / "tensorboard"))


@contextmanager
def _stopping_softly() -> Iterator[threading.Event]:
    """Turn Ctrl-C and a polite kill into a flag that is looked at between steps; a second ends at once."""
    stop = threading.Event()

    def ask(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    names = (signal.SIGINT, signal.SIGTERM)
    before = {name: signal.signal(name, ask) for name in names}
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
