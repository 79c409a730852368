"""The one training loop.

An epoch walks the training events once: score a batch, learn from it, observe it. Validation continues from
there. The best epoch is saved with its state, so that the test continues from exactly where validation ended.
"""

from __future__ import annotations

import logging
import time

import torch

from contig.errors import DiskError
from contig.progress import Display, Task
from contig.runs.folder import RunFolder
from contig.runs.metrics import RunMetrics, Throughput, run_facts
from contig.runs.run import Run
from contig.streaming.online import replay_stream
from contig.streaming.walker import replay
from contig.tasks.context import EvaluationContext
from contig.tasks.link import LinkResult, link_result, no_test
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.link_scoring import score_links
from contig.training.advice import after_training
from contig.training.callbacks import Callbacks, TrainingStart, watching
from contig.training.interruption import StopRequest, stop_requests
from contig.training.memory_usage import PeakMeter
from contig.training.session import Session
from contig.training.validation import Validation, checked_loss, weights_and_state

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
        session.stop = stop
        while not training_is_over(session):
            _train_epoch(session, folder, display, stop)
            with session.averaged():
                row = validate(display, stop)
            if session.model.learns:
                best = progress.best_epoch == row.epoch
                display.line(row.summary(best=best, monitor=session.config.train.monitor))
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
        due = time.perf_counter() - self.saved > self.session.config.train.checkpoint_seconds
        if self.session.should_save(due):
            self.save()

    def save(self) -> None:
        """Save a checkpoint."""
        self._read_loss()  # makes a GPU finish its steps, too
        self.session.progress.train_seconds = time.perf_counter() - self.begun
        self.folder.save("checkpoint.pt", self.session.snapshot())
        self.saved = time.perf_counter()

    def _read_loss(self) -> None:
        self.session.progress.loss = checked_loss(float(self.loss), self.session)


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
        folder.save("serving.pt", weights_and_state(session) | {"tip": tip._asdict()})
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
        best = session.progress.best_epoch
        plots.save(plots.learning_curve(session.progress.log, title, best), folder.path / "curve.png")
    except DiskError as error:  # the run itself is complete
        log.warning(f"the learning curve is not drawn: {error}")
