"""The one training loop.

An epoch walks the training events once: score a batch, learn from it, observe it. Validation continues from
there. The best epoch by validation AP is saved with its state, so that the test continues from exactly where
validation ended.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any

import numpy as np
import torch

from contig.errors import DiskError, RunError
from contig.progress import Display, Task
from contig.runs.folder import RunFolder
from contig.runs.metrics import Epoch, RunMetrics, Throughput, run_facts
from contig.runs.run import Run
from contig.streaming.online import replay_stream
from contig.streaming.walker import replay
from contig.tasks.context import EvaluationContext
from contig.tasks.link import LinkResult, link_report, link_result, no_links, no_test
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.link_scoring import pairs_of, score_links
from contig.tasks.results import LinkMetrics, Selections
from contig.training.advice import after_training
from contig.training.callbacks import Callbacks, TrainingStart, watching
from contig.training.interruption import StopRequest, stop_requests
from contig.training.memory_usage import PeakMeter
from contig.training.session import Session

log = logging.getLogger("contig")

LOSS_CHECK = 50  # steps between checks of the loss; a check makes a GPU wait


def train(
    session: Session,
    folder: RunFolder,
    display: Display,
    memory: PeakMeter,
    callbacks: Callbacks | None = None,
) -> Run:
    """Train what is left of a session, test it, and open the finished run.

    ``memory`` has measured since before the session was created.
    """
    validate = Validation(session, folder)
    progress = session.progress
    callbacks = callbacks or Callbacks()
    start = TrainingStart(folder.path, session.config, session.data.stream, progress.epoch)
    with display, stop_requests() as stop, watching(callbacks, start):
        while not training_is_over(session):
            _train_epoch(session, folder, display, stop)
            with session.averaged():
                row = validate(display, stop)
            if session.model.learns:
                display.line(row.summary(best=progress.best_epoch == row.epoch))
            progress.epoch, progress.step = progress.epoch + 1, 0
            folder.save("checkpoint.pt", session.snapshot())
            callbacks.on_epoch(row)
        callbacks.on_end(_finish(session, folder, display, memory, stop))
    run = Run.open(folder.path, session.data.device)
    run.notices = tuple(display.notices)
    return run


def training_is_over(session: Session) -> bool:
    """Return whether the limit of epochs or the patience is reached."""
    progress, options = session.progress, session.config.train
    if not session.model.learns:
        return progress.epoch >= 1
    waited = progress.epoch - max(progress.best_epoch, progress.patience_from)
    return progress.epoch >= options.epochs or (progress.best_epoch > 0 and waited >= options.patience)


# -- an epoch -------------------------------------------------------------------------------------------


def _train_epoch(session: Session, folder: RunFolder, display: Display, stop: StopRequest) -> None:
    """Train the rest of the current epoch, and leave a checkpoint of its end."""
    progress, options = session.progress, session.config.train
    if progress.step == 0:
        session.begin_epoch()
    events = session.data.split.train
    if not session.model.learns:
        task = display.task("replay", len(events))
        walked = (session.data.training, events, options.batch_size, stop.checked(task.advance))
        replay(session.model, session.state, *walked)
        task.end()
        return
    if progress.step == len(session.steps):  # it was interrupted during validation
        return
    done = session.steps[progress.step - 1].stop if progress.step else 0
    task = display.task(f"epoch {progress.epoch + 1}/{options.epochs}", len(events), done)
    epoch = EpochTraining(session, folder, task)
    epoch.step()  # may take long, to compile, and until it ends there is nothing to save: no need to defer
    with stop.deferred():
        while progress.step < len(session.steps) and not stop.requested:
            epoch.save_if_due()
            epoch.step()
        epoch.save()
    task.end()


class EpochTraining:
    """The steps of an epoch: their loss, their time and their checkpoints."""

    def __init__(self, session: Session, folder: RunFolder, task: Task) -> None:
        self.session, self.folder, self.task = session, folder, task
        self.saved = time.perf_counter()
        self.begun = self.saved - session.progress.train_seconds  # as if it had never been interrupted
        self.loss = torch.tensor(session.progress.loss, dtype=torch.float64, device=session.data.device)
        self.note = ""

    def step(self) -> None:
        """Train on the next batch."""
        session, progress = self.session, self.session.progress
        self.loss += session.train_step()
        if progress.step % LOSS_CHECK == 0:
            self._read_loss()
            self.note = f"loss {progress.loss / progress.step:.4f}"
        step = session.steps[progress.step - 1]
        self.task.advance(step.stop - step.start, self.note)

    def save_if_due(self) -> None:
        """Save a checkpoint if the last one is old."""
        if time.perf_counter() - self.saved > self.session.config.train.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Save a checkpoint."""
        self._read_loss()  # makes a GPU finish its steps, too
        self.session.progress.train_seconds = time.perf_counter() - self.begun
        self.folder.save("checkpoint.pt", self.session.snapshot())
        self.saved = time.perf_counter()

    def _read_loss(self) -> None:
        self.session.progress.loss = _checked(float(self.loss), self.session)


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
    """Continues through the validation events after an epoch, and saves the best epoch.

    A final training has no such events: its best epoch is the last one.
    """

    def __init__(self, session: Session, folder: RunFolder) -> None:
        self.session, self.folder = session, folder
        data = session.data
        if not data.split.final:
            negatives = draw_negatives(data.stream, data.split, data.split.val)
            self.negative = pairs_of(negatives.ours, data.device)

    def __call__(self, display: Display, stop: StopRequest) -> Epoch:
        session, data, progress = self.session, self.session.data, self.session.progress
        report = no_links() if data.split.final else self._report(display, stop)
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
        if data.split.final:
            progress.best_epoch = row.epoch
        elif row.val_ap > progress.best_ap:
            progress.best_ap, progress.best_epoch = row.val_ap, row.epoch
        if progress.best_epoch == row.epoch:
            self.folder.save("best.pt", _weights_and_state(session) | {"epoch": row.epoch})
        return row

    def _report(self, display: Display, stop: StopRequest) -> Selections[LinkMetrics]:
        session, data = self.session, self.session.data
        task = display.task("validation", len(data.split.val))
        scores = session.scorer(data.split.val, self.negative, stop.checked(task.advance))
        task.end()
        _checked(float(np.sum(scores)), session)
        size, inductive = session.config.train.batch_size, session.model.inductive
        return link_report(data.stream, data.split, data.split.val, scores, size, inductive=inductive)


def _weights_and_state(session: Session) -> dict[str, Any]:
    return {"weights": session.model.state_dict(), "state": session.state.snapshot()}


# -- the end --------------------------------------------------------------------------------------------


def _finish(
    session: Session, folder: RunFolder, display: Display, memory: PeakMeter, stop: StopRequest
) -> RunMetrics:
    """Test the best epoch, walk a fresh state over the whole stream, and write the results."""
    data, options = session.data, session.config.train
    best = folder.restore("best.pt", session.model, session.state, len(data.stream), epoch=int)
    session.progress.best_epoch = best["epoch"]  # a kill may have come between this file and the checkpoint
    result, speed = _test(session, display, stop)
    metrics = _metrics(session, result, speed, memory)
    session.state.reset()
    task = display.task("whole stream", len(data.stream))
    walked = (data.history, options.batch_size, stop.checked(task.advance))
    tip = replay_stream(session.model, session.state, *walked)
    task.end()
    try:
        folder.save("serving.pt", _weights_and_state(session) | {"tip": tip._asdict()})
        folder.save_metrics(metrics)
    except DiskError:
        tested = "" if data.split.final else f"test AP {100 * metrics.transductive.ap:.2f}, "
        display.line(f"not saved: {tested}best epoch {metrics.best_epoch}")
        raise
    if session.model.learns:
        draw_curve(session, folder)
        for line in after_training(session):
            display.notice(line)
    return metrics


def _test(session: Session, display: Display, stop: StopRequest) -> tuple[LinkResult, float]:
    """Return the result of the test events, if there are any, and the events scored per second."""
    data = session.data
    context = EvaluationContext(session.model, session.state, data, session.config.train.batch_size)
    if data.split.final:
        return no_test(context), 0.0
    negatives = draw_negatives(data.stream, data.split, data.split.test)
    task = display.task("test", len(data.split.test))
    scores = score_links(context, negatives, stop.checked(task.advance))
    speed = task.speed()
    task.end()
    return link_result(context, negatives, scores), speed


def _metrics(session: Session, result: LinkResult, scoring_speed: float, memory: PeakMeter) -> RunMetrics:
    """Return the test result and the record of the training."""
    config, progress, data = session.config, session.progress, session.data
    return RunMetrics(
        facts=run_facts(config, data.stream, data.device),
        result=result,
        parameters=sum(p.numel() for p in session.model.parameters()),
        peak_memory=memory.peak(),
        best_epoch=progress.best_epoch,
        events_per_second=Throughput.of(progress.log, scoring_speed),
        epochs=tuple(progress.log),
    )


def draw_curve(session: Session, folder: RunFolder) -> None:
    """Draw the learning curve of a finished training."""
    from contig import plots

    title = f"{session.config.model} on {session.data.stream.origin}"
    try:
        plots.save(plots.learning_curve(session.progress.log, title), folder.path / "curve.png")
    except DiskError as error:  # the run itself is complete
        log.warning(f"the learning curve is not drawn: {error}")
