"""The one training loop.

An epoch walks the training events once: score a batch, learn from it, observe it. Validation continues from
there. The best epoch by validation AP is saved with its state, so that the test continues from exactly where
validation ended.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
import torch

from contig.errors import RunError
from contig.progress import Display
from contig.runs.folder import RunFolder
from contig.runs.metrics import Epoch, RunMetrics, Throughput, run_facts
from contig.runs.run import Run
from contig.streaming.walker import replay
from contig.tasks.link import link_report, link_result
from contig.tasks.link_scoring import evaluation_negatives
from contig.tasks.metrics import LinkScores
from contig.training.advice import after_training
from contig.training.interruption import raise_if_requested, stop_requests
from contig.training.memory_usage import peak_memory, reset_peak
from contig.training.session import Session

LOSS_CHECK = 50  # steps between checks of the loss; a check makes a GPU wait
CURVES = ("loss", "val_ap", "val_auc", "val_ap_inductive")  # for TensorBoard


def train(session: Session, folder: RunFolder, display: Display, writer: Any = None) -> Run:
    """Train what is left of a session, test it, and open the finished run."""
    reset_peak(session.data.device)
    validate = Validation(session, folder)
    progress = session.progress
    with display, stop_requests() as stop, closing(writer) if writer else nullcontext():
        while not is_finished(session):
            _train_epoch(session, folder, display, stop)
            row = validate(display)
            if session.model.learns:
                display.line(row.summary(best=progress.best_epoch == row.epoch))
            if writer is not None:
                for name in CURVES:
                    writer.add_scalar(name, getattr(row, name), row.epoch)
            progress.epoch, progress.step = progress.epoch + 1, 0
            folder.save("checkpoint.pt", session.snapshot())
            raise_if_requested(stop)
        _finish(session, folder, display, stop)
    return Run.open(folder.path, session.data.device)


def is_finished(session: Session) -> bool:
    """Return whether the limit of epochs or the patience is reached."""
    progress, options = session.progress, session.config.train
    if not session.model.learns:
        return progress.epoch >= 1
    waited = progress.epoch - max(progress.best_epoch, progress.patience_from)
    return progress.epoch >= options.epochs or (progress.best_epoch > 0 and waited >= options.patience)


# -- an epoch -------------------------------------------------------------------------------------------


def _train_epoch(session: Session, folder: RunFolder, display: Display, stop: threading.Event) -> None:
    """Train the rest of the current epoch."""
    progress, options = session.progress, session.config.train
    if progress.step == 0:
        session.begin_epoch()
    events = session.data.split.train
    if not session.model.learns:
        replay(session.model, session.state, session.data.training, events, options.batch_size)
        return
    saved = time.perf_counter()
    begun = saved - progress.train_seconds  # as if it had never been interrupted
    done = session.steps[progress.step - 1].stop if progress.step else 0
    task = display.task(f"epoch {progress.epoch + 1}/{options.epochs}", len(events), done)
    total = torch.tensor(progress.loss, dtype=torch.float64, device=session.data.device)
    note = ""
    while progress.step < len(session.steps):
        total += session.train_step()
        step = session.steps[progress.step - 1]
        if progress.step % LOSS_CHECK == 0 or progress.step == len(session.steps):
            progress.loss = _checked(float(total), session)
            note = f"loss {progress.loss / progress.step:.4f}"
        task.advance(step.stop - step.start, note)
        if stop.is_set() or time.perf_counter() - saved > options.checkpoint_seconds:
            progress.loss = _checked(float(total), session)
            progress.train_seconds = time.perf_counter() - begun
            folder.save("checkpoint.pt", session.snapshot())
            saved = time.perf_counter()
        raise_if_requested(stop)
    task.end()
    if session.data.device.type == "cuda":
        torch.cuda.synchronize(session.data.device)
    progress.train_seconds = time.perf_counter() - begun


def _checked(loss: float, session: Session) -> float:
    if math.isfinite(loss):
        return loss
    progress, options = session.progress, session.config.train
    raise RunError(
        f"The loss became NaN or infinite (epoch {progress.epoch + 1}, around step {progress.step}). "
        f"Try a smaller learning rate (lr={options.lr / 3:.1g}), a tighter clip "
        f"(clip={options.clip / 2:.2g}), state_norm=true, or look for extreme edge features."
    )


# -- validation -----------------------------------------------------------------------------------------


class Validation:
    """Continues through the validation events after an epoch, and saves the best epoch."""

    def __init__(self, session: Session, folder: RunFolder) -> None:
        self.session, self.folder = session, folder
        data = session.data
        self.negative = evaluation_negatives(data.stream, data.split, data.split.val, "random", data.device)

    def __call__(self, display: Display) -> Epoch:
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
        row = Epoch(
            epoch=progress.epoch + 1,
            loss=progress.loss / max(progress.step, 1),
            val_ap=report.transductive.ap,
            val_auc=report.transductive.auc,
            val_ap_inductive=report.inductive.ap,
            train_seconds=progress.train_seconds,
            events_per_second=learned / progress.train_seconds if learned else 0.0,
        )
        progress.log.append(row)
        if row.val_ap > progress.best_ap:
            progress.best_ap, progress.best_epoch = row.val_ap, row.epoch
            self.folder.save("best.pt", _weights_and_state(session) | {"epoch": row.epoch})
        return row


def _weights_and_state(session: Session) -> dict[str, Any]:
    return {"weights": session.model.state_dict(), "state": session.state.snapshot()}


# -- the end --------------------------------------------------------------------------------------------


def _finish(session: Session, folder: RunFolder, display: Display, stop: threading.Event) -> None:
    """Test the best epoch, walk a fresh state over the whole stream, and write the results.

    All of it can be repeated from what is saved, so a request to stop is granted at once.
    """

    def advance(events: int) -> None:
        task.advance(events)
        raise_if_requested(stop)

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
    metrics = _metrics(session, scores, speed)
    session.state.reset()
    everything = np.arange(len(data.stream))
    task = display.task("whole stream", len(everything))
    replay(session.model, session.state, data.history, everything, options.batch_size, advance)
    task.end()
    folder.save("serving.pt", _weights_and_state(session))
    folder.save_metrics(metrics)
    if session.model.learns:
        draw_curve(session, folder)
        for line in after_training(session):
            display.line(line)


def _metrics(session: Session, scores: LinkScores, scoring_speed: float) -> RunMetrics:
    """Return the test result and the record of the training."""
    config, progress, data = session.config, session.progress, session.data
    size, inductive = config.train.batch_size, session.model.inductive
    return RunMetrics(
        facts=run_facts(config, data.stream, data.device),
        result=link_result(data.stream, data.split, scores, size, inductive=inductive),
        parameters=sum(p.numel() for p in session.model.parameters()),
        peak_memory=peak_memory(data.device),
        best_epoch=progress.best_epoch,
        events_per_second=Throughput(train=_training_speed(session), score=scoring_speed),
        epochs=tuple(progress.log),
    )


def _training_speed(session: Session) -> float:
    """Return the training events per second over all epochs."""
    seconds = sum(row.train_seconds for row in session.progress.log)
    events = len(session.progress.log) * len(session.data.split.train)
    return events / seconds if seconds else 0.0


def draw_curve(session: Session, folder: RunFolder) -> None:
    """Draw the learning curve of a finished training."""
    from contig import plots

    title = f"{session.config.model} on {session.data.stream.origin}"
    plots.save(plots.learning_curve(session.progress.log, title), folder.path / "curve.png")
