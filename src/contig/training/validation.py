"""Validation after an epoch: which epoch is the best, and its weights and state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contig.data.negatives import Negatives
from contig.errors import RunError
from contig.progress import Display
from contig.runs.folder import RunFolder
from contig.runs.metrics import Epoch
from contig.tasks.link import link_report, no_links
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.link_scoring import LinkScorer, NegativePairs, pairs_of
from contig.tasks.ranking import Ranker, sample_negatives
from contig.tasks.recommend import recommend_report
from contig.tasks.results import LinkMetrics, Selections
from contig.training.interruption import StopRequest
from contig.training.session import Session

MRR_CANDIDATES = (
    20  # negatives of an event by which MRR is monitored; ranking all destinations takes too long
)


class Validation:
    """Continues through the validation events after an epoch, and saves the best epoch.

    A final training has no such events: its best epoch is the last one.
    """

    def __init__(self, session: Session, folder: RunFolder) -> None:
        self.session, self.folder = session, folder
        data, self.monitor = session.data, session.config.train.monitor
        if data.split.final:
            return
        negatives = draw_negatives(data.stream, data.split, data.split.val)
        self.negative = pairs_of(negatives.ours, data.device)
        if self.monitor == "historical-ap":
            historical = draw_negatives(data.stream, data.split, data.split.val, "historical")
            self.historical = pairs_of(historical.ours, data.device)
        if self.monitor == "mrr":
            self.candidates = sample_negatives(data.stream, data.split, data.split.val, MRR_CANDIDATES)

    def __call__(self, display: Display, stop: StopRequest) -> Epoch:
        session, data, progress = self.session, self.session.data, self.session.progress
        historical, mrr, report = math.nan, math.nan, no_links()
        if not data.split.final:
            historical, mrr = self._historical(display, stop), self._mrr(display, stop)
            report = self._report(display, stop)
        learned = len(data.split.train) if session.model.learns else 0
        row = Epoch(
            epoch=progress.epoch + 1,
            loss=progress.loss / max(progress.step, 1),
            val_ap=report.transductive.ap,
            val_auc=report.transductive.auc,
            val_ap_inductive=report.inductive.ap,
            val_ap_historical=historical,
            val_mrr=mrr,
            train_seconds=progress.train_seconds,
            events_per_second=learned / progress.train_seconds if learned else 0.0,
        )
        progress.log.append(row)
        if data.split.final:
            progress.best_epoch = row.epoch
        elif row.metric(self.monitor) > progress.best_value:
            progress.best_value, progress.best_epoch = row.metric(self.monitor), row.epoch
        if progress.best_epoch == row.epoch:
            self.folder.save("best.pt", weights_and_state(session) | {"epoch": row.epoch})
        return row

    def _report(self, display: Display, stop: StopRequest) -> Selections[LinkMetrics]:
        return self._links("validation", self.session.scorer, self.negative, display, stop)

    def _historical(self, display: Display, stop: StopRequest) -> float:
        """Return the AP with historical negatives, on a copy of the state; NaN if not monitored."""
        if self.monitor != "historical-ap":
            return math.nan
        session, size = self.session, self.session.config.train.batch_size
        history = session.data.history
        scorer = LinkScorer(session.model, session.state.clone(), history, size, replace_source=True)
        report = self._links("validation, historical negatives", scorer, self.historical, display, stop)
        return report.transductive.ap

    def _links(
        self, name: str, scorer: LinkScorer, negative: NegativePairs, display: Display, stop: StopRequest
    ) -> Selections[LinkMetrics]:
        session, data = self.session, self.session.data
        task = display.task(name, len(data.split.val))
        scores = scorer(data.split.val, negative, stop.checked(task.advance))
        task.end()
        checked_loss(float(np.sum(scores)), session)
        size, inductive = session.config.train.batch_size, session.model.inductive
        return link_report(data.stream, data.split, data.split.val, scores, size, inductive=inductive)

    def _mrr(self, display: Display, stop: StopRequest) -> float:
        """Rank the destinations of the validation events, on a copy of the state; NaN if not monitored."""
        session, data = self.session, self.session.data
        if self.monitor != "mrr":
            return math.nan
        events, size = data.split.val, session.config.train.batch_size
        negatives = Negatives(data.stream, events=events, device=data.device)
        ranker = Ranker(session.model, session.state.clone(), data.history, size, negatives)
        task = display.task("validation MRR", len(events))
        ranks = ranker(events, self.candidates, stop.checked(task.advance))
        task.end()
        checked_loss(float(np.sum(ranks)), session)
        inductive = session.model.inductive
        return recommend_report(data.stream, data.split, events, ranks, inductive=inductive).transductive.mrr


def weights_and_state(session: Session) -> dict[str, Any]:
    """Return what answers of a model depend on, to save."""
    return {"weights": session.model.state_dict(), "state": session.state.snapshot()}


def checked_loss(loss: float, session: Session) -> float:
    """Return the loss; raise ``RunError`` if it is NaN or infinite."""
    if math.isfinite(loss):
        return loss
    progress, options = session.progress, session.config.train
    raise RunError(
        f"The loss became NaN or infinite (epoch {progress.epoch + 1}, around step {progress.step}). "
        f"Try a smaller learning rate (lr={options.lr / 3:.1g}), a tighter clip "
        f"(clip={options.clip / 2:.2g}), state_norm=true, or look for extreme edge features."
    )
