"""A trained model in its folder: opened, extended by new events, and saved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.columns import frozen
from contig.data.events import EventStream
from contig.data.read_options import ReadKeywords, ReadOptions, reading_options
from contig.data.readers import PairTable
from contig.data.validation import UNKNOWN_LABEL, EventColumns
from contig.errors import ConfigError, NoEventsError, RunError, unknown
from contig.history import History
from contig.kernels import file_memory
from contig.kernels.devices import pick_device
from contig.models import Model, NodeState
from contig.models.state import SavedRows
from contig.runs.arrivals import Arrivals, index_stream
from contig.runs.config import RunConfig, build_model
from contig.runs.folder import RunFolder
from contig.runs.new_events import check_label_values, labels_in_order, read_new_events
from contig.runs.observed import check_far_ahead, far_behind, new_events, saved_tail, selected_rows
from contig.runs.observed_file import read_observed
from contig.runs.repeated_events import (
    KnownPolicy,
    Policy,
    RepeatedPolicy,
    all_known,
    check_known_policy,
    known_policy,
)
from contig.runs.trained_model import TrainedModel
from contig.streaming.online import replay_stream
from contig.wording import counted

log = logging.getLogger("contig")


class SavedRun(TrainedModel):
    """A trained model with the folder that holds it; ``Run`` adds how it is measured."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        stream: EventStream,
        model: Model,
        state: NodeState,
        tip: SavedRows | None = None,
    ) -> None:
        super().__init__(stream, model, state, config.train.batch_size, tip=tip)
        manifest = folder.manifest()
        self.folder, self.config, self.features = folder, config, manifest.features
        self.read_as = manifest.read_as  # how later files are read, unless they have other columns
        self.dates = manifest.dates  # whether the times were given as dates
        self.new_node = None if self.features is None else self.features.new_node
        self.trained_stream = stream  # without what is observed later
        self.notices: tuple[str, ...] = ()  # the hints of its training, if this process trained it
        self._served: str | None = None  # the version of serving.pt that was loaded
        self._version: str | None = None  # and of the observed events
        self.observed_labels: NDArray[np.int64] = np.zeros(0, np.int64)  # of the events observed later
        self._labeled_later: NDArray[np.int64] = np.zeros(0, np.int64)  # training events, by position

    @classmethod
    def open(cls, path: str | Path, device: str | torch.device = "auto") -> Self:
        """Open a run's folder; ``device`` is auto (a GPU if there is one), cpu, cuda or cuda:1.

        A run whose training was interrupted answers from its best epoch so far, with a notice.
        """
        folder, on = RunFolder(path), pick_device(str(device))
        while True:
            before = folder.identity()
            try:
                run = cls._open(folder, on)
            except RunError:
                if folder.identity() == before:
                    raise
            else:
                if folder.identity() == before:  # else another process has replaced the folder meanwhile
                    return run

    @classmethod
    def _open(cls, folder: RunFolder, on: torch.device) -> Self:
        config, stream = folder.config(), folder.stream()
        complete = folder.has("serving.pt") or not folder.has("best.pt")
        name = "serving.pt" if complete else "best.pt"
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn and discarded
            model = build_model(config, stream, features=folder.manifest().features).to(on)
        on_host = config.train.graph_on_host(on)
        on_disk = config.train.state_on_disk(on) and file_memory.available()
        state = NodeState(model.blank(), stream.num_nodes, on, on_host=on_host, on_disk=on_disk)
        served, saved = folder.read_version(
            name,
            lambda: folder.restore(name, model, state, len(stream), **({} if complete else {"epoch": int})),
        )
        model.eval()
        run = cls(folder, config, stream, model, state, _saved_rows(saved.get("tip"), on))
        run._served = served
        if not complete:
            run._observe_everything(saved["epoch"])
        if folder.has("observed.pt"):
            run._load_observed()
        elif folder.checksums.is_missing("observed.pt"):
            log.warning(
                f"{folder.path / 'observed.pt'} is missing: it was removed, or its first update has not "
                "ended. The run answers from its training; update it again with the later events."
            )
        return run

    @property
    def trained_history(self) -> History:
        """The index of the events that the run was trained on."""
        if len(self.trained_stream) == len(self.arrivals):
            return self.history
        return index_stream(self.trained_stream, self.state)

    def observe(
        self,
        events: Any,
        reading: ReadOptions | None = None,
        *,
        repeated: RepeatedPolicy = "reject",
        late: Policy = "reject",
        **options: Unpack[ReadKeywords],
    ) -> int:
        """Take in new events, save them with the run, and return their number.

        ``events`` is anything that ``read_events`` takes, or an ``EventStream``; new nodes are allowed. An
        event before the last known one is rejected, and then nothing changes. Weights stay as they are.
        Input without rows changes nothing and returns 0.
        Labels are kept for ``classify``, if the run has any; those of new events may be missing.

        ``repeated`` says what to do with events that the run already knows, with the same nodes, time and
        features. ``skip`` leaves them out and adds the others, and takes over their labels where the run does
        not know them yet; ``accept`` adds them a second time; ``reject`` refuses all events if some of them
        are known. (Some at the last known time may have happened again:
        they are added with a warning, unless all events are known.)

        With ``late="accept"`` older events are taken into the history alone: neighbors, counts and
        candidates know them at their own times, but no node state observes them.

        Answers are the same however the events are divided into calls: the state is that of the whole stream,
        observed in batches that are counted from its first event. ``evaluate`` still uses the events the run
        was trained on. Computing takes time in proportion to the new events; saving, to all that were
        observed since the training, and to the state.
        """
        self.require_finished("it can observe new events")
        for name, value, policy in (("repeated", repeated, RepeatedPolicy), ("late", late, Policy)):
            if value not in get_args(policy):
                raise ConfigError(unknown(f"value for {name}", str(value), get_args(policy)))
        given = reading_options(reading).updated(**options)
        with_labels = self.trained_stream.label is not None
        try:
            columns, place = read_new_events(
                events, given, self.features, usual=self.read_as, with_labels=with_labels
            )
        except NoEventsError as error:
            log.warning(f"{error.problem}; the run is unchanged.")
            return 0
        check_label_values(columns, self.trained_stream.label, place)
        with self.folder.locked(), self.online.writing():
            self.check_version()
            span = self.stream.time_span
            warnings = [check_far_ahead(columns, span, place), far_behind(columns, span, place)]
            with self._undone_on_failure():
                labeled = 0
                if repeated == "skip":
                    columns, place, labeled = self.skip_known(columns, place)
                added = len(columns.t)
                if added:
                    self.observe_columns(columns, place, repeated=known_policy(repeated), late=late)
                if added or labeled:
                    self._save_observed()
            for warning in warnings:
                if added and warning:
                    log.warning(warning)
        return added

    def skip_known(
        self, events: EventColumns, place: Callable[[int], str]
    ) -> tuple[EventColumns, Callable[[int], str], int]:
        """Return the events that are new, what names their rows, and how many labels the others brought."""
        positions = self.known_positions(events, place)
        new, known = np.flatnonzero(positions < 0), np.flatnonzero(positions >= 0)
        labeled = 0 if events.label is None else self._add_labels(positions[known], events.label[known])
        if len(known):
            labels = f"; {counted(labeled, 'missing label')} became known" if labeled else ""
            log.info(f"Skipped {counted(len(known), 'event')} that the run already knows{labels}.")
        return selected_rows(events, new), lambda row: place(int(new[row])), labeled

    def without_known(self, table: PairTable, repeated: KnownPolicy) -> PairTable:
        """Return events to predict; ``skip`` leaves out those that the run already knows."""
        check_known_policy(repeated)
        if repeated == "reject":
            return table
        new = np.flatnonzero(self.known_positions(*table) < 0)
        if not len(new):
            raise all_known(table.place(0))
        if skipped := len(table.columns.t) - len(new):
            log.info(f"Skipped {counted(skipped, 'event')} that the run already knows.")
        return PairTable(selected_rows(table.columns, new), lambda row: table.place(int(new[row])))

    def _add_labels(self, positions: NDArray[np.int64], given: NDArray[np.int64]) -> int:
        """Set labels of known events where there are none yet, and return how many were set."""
        labels = self.arrived_labels
        if labels is None:
            return 0
        missing = (labels[positions] == UNKNOWN_LABEL) & (given != UNKNOWN_LABEL)
        other = ~missing & (given != UNKNOWN_LABEL) & (given != labels[positions])
        if other.any():
            log.warning(
                f"{counted(int(other.sum()), 'known event')} came with another label than before; the first "
                "label was kept."
            )
        labels[positions[missing]] = given[missing]
        trained = len(self.trained_stream)
        self.trained_stream = replace(self.trained_stream, label=frozen(labels[:trained]))
        self.observed_labels = labels[trained:]
        changed = positions[missing & (positions < trained)]
        self._labeled_later = np.union1d(self._labeled_later, changed)
        return int(missing.sum())

    def require_finished(self, action: str) -> None:
        """Raise ``RunError`` if the run is still in training; ``action`` is what it could do afterwards."""
        self.folder.require_finished(action)

    @property
    def served_version(self) -> str | None:
        """The checksum of the weights and the state that were loaded; None if the training is unfinished."""
        return self._served

    def check_version(self) -> None:
        """Raise ``RunError`` if another process has updated the run, or trained it further."""
        if self.folder.version("observed.pt") != self._version:
            raise RunError(f"{self.path} was updated by another process; open the run again.")
        self.check_served_version()

    def check_served_version(self) -> None:
        """Raise ``RunError`` if another process has replaced the weights since they were loaded."""
        if self.folder.version("serving.pt") != self._served:
            raise RunError(f"{self.path} was trained further by another process; open the run again.")

    def observe_columns(
        self,
        events: EventColumns,
        place: Callable[[int], str],
        *,
        repeated: Policy = "reject",
        late: Policy | None = None,
    ) -> int:
        """Add new events and their labels, and return their number; nothing is saved."""
        added = super().observe_columns(events, place, repeated=repeated, late=late)
        self.observed_labels = np.concatenate([self.observed_labels, labels_in_order(events)])
        return added

    @property
    def labeled_stream(self) -> EventStream:
        """All events so far with their labels, if the run has any; ``UNKNOWN_LABEL`` for those without."""
        return self.arrivals.sorted(replace(self.arrivals.stream, label=self.arrived_labels))

    @property
    def arrived_labels(self) -> NDArray[np.int64] | None:
        """The labels of all events in the order of their arrival, if the run has any."""
        label = self.trained_stream.label
        return None if label is None else np.concatenate([label, self.observed_labels])

    def _save_observed(self) -> None:
        tail, tip = saved_tail(self.arrivals, self.trained_stream), self.online.tip
        state = {"state": self.state.snapshot(), "tip": None if tip is None else tip._asdict()}
        labels = torch.from_numpy(self.observed_labels)
        content = {**tail, **state, "serving": self._served, "event_labels": labels}
        if self.trained_stream.label is not None and len(self._labeled_later):
            rows = self._labeled_later
            later = {"rows": rows, "labels": self.trained_stream.label[rows]}
            content["training_labels"] = {name: torch.from_numpy(column) for name, column in later.items()}
        self.folder.save("observed.pt", content)
        self._version = self.folder.version("observed.pt")

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        """Compute the state again if events were observed, but not saved."""
        online, before = self.online, self.arrivals
        labels = self.trained_stream, self.observed_labels, self._labeled_later
        try:
            yield
        except BaseException:
            self.trained_stream, self.observed_labels, self._labeled_later = labels
            if online.history.num_events != len(before):
                self._set_replayed(before)
            raise

    def _set_replayed(self, arrivals: Arrivals) -> None:
        """Use events the state after which is not known."""
        state = self.state.blank_like(arrivals.stream.num_nodes)
        with self.online.writing():
            history = arrivals.index(self.model, state)
            tip = replay_stream(self.model, state, history, self.batch_size, late=arrivals.late)
            self._set_events(arrivals, state, tip, history)

    def _load_observed(self) -> None:
        self._version, saved = self.folder.read_version(
            "observed.pt", lambda: read_observed(self.folder, self.trained_stream, self.state.blank)
        )
        arrivals = Arrivals(self.trained_stream).extended(new_events(saved), self.new_node)
        unknown = torch.full((len(arrivals) - len(self.trained_stream),), UNKNOWN_LABEL)
        self.observed_labels = saved.get("event_labels", unknown).numpy()
        if (later := saved.get("training_labels")) is not None and self.trained_stream.label is not None:
            label, self._labeled_later = self.trained_stream.label.copy(), later["rows"].numpy()
            label[self._labeled_later] = later["labels"].numpy()
            self.trained_stream = replace(self.trained_stream, label=frozen(label))
        if saved["serving"] != self._served:  # it was trained further
            self._set_replayed(arrivals)
            return
        state = self.state.blank_like(arrivals.stream.num_nodes)
        state.restore(saved["state"])
        self._set_events(arrivals, state, _saved_rows(saved.get("tip"), state.device))

    def _observe_everything(self, epoch: int) -> None:
        """Advance the state of the best epoch over the whole stream, as a finished training does."""
        if self.folder.has("metrics.json"):
            log.warning(f"{self.path} has no serving.pt; the state is computed again from best.pt.")
        else:
            log.warning(
                f"{self.path}: the training is not finished; answers come from its best epoch so far, "
                f"epoch {epoch}. To continue: contig resume {self.path}"
            )
        self._set_replayed(self.arrivals)

    @property
    def path(self) -> Path:
        return self.folder.path


def _saved_rows(saved: dict[str, Any] | None, device: torch.device) -> SavedRows | None:
    if saved is None:
        return None
    rows = {name: row.to(device) for name, row in saved["rows"].items()}
    return SavedRows(saved["position"], saved["nodes"].to(device), rows)
