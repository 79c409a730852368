"""A trained run: it is measured, classifies events and is trained further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from contig.data.read_options import ReadKeywords, ReadOptions, reading_options
from contig.data.splits import Split
from contig.errors import ConfigError, NoEventsError, RunError
from contig.models import NodeState
from contig.options import check_flag, set_options
from contig.progress import Display
from contig.runs.answers import Classification
from contig.runs.classifying import classify_known, classify_new
from contig.runs.config import RunConfig, build_model
from contig.runs.evaluation_periods import (
    EvaluationPeriod,
    EventEvaluation,
    KnownEvents,
    later_period,
    source_name,
)
from contig.runs.metrics import RunMetrics
from contig.runs.new_events import read_new_events
from contig.runs.repeated_events import KnownPolicy, known_policy
from contig.runs.saved_run import SavedRun
from contig.runs.summaries import run_html, run_text
from contig.streaming.prepared import PreparedStream
from contig.streaming.walker import replay
from contig.tasks.baselines import HEURISTICS
from contig.tasks.registry import check_task_class, task_class
from contig.tasks.results import DataFacts, Evaluation, TaskResult
from contig.tasks.task import Task
from contig.wording import counted

R = TypeVar("R", bound=TaskResult)


class Run(SavedRun):
    """A trained model with the folder that holds it.

    It answers for any node and time (``embed``, ``recommend``, ``trajectory``), is measured by any task
    (``evaluate``), and has the test result and the record of its training (``metrics``).
    """

    def __repr__(self) -> str:
        """Return one line with the folder, the model, the data and the test AP."""
        finished = self.folder.is_finished
        quality = "unfinished"
        if finished:
            ap = self.metrics.transductive.ap
            quality = "learned from every event" if self.config.train.final else f"test AP {100 * ap:.2f}"
        stream = self.stream
        size = f"{counted(len(stream), 'event')}, {counted(stream.num_nodes, 'node')}"
        return f"Run({str(self.path)!r}: {self.config.model} on {stream.origin}, {size}, {quality})"

    def summary(self) -> str:
        """Return the model, the data, the test result and the notices of its training as lines of text."""
        return run_text(self)

    def _repr_html_(self) -> str:
        return run_html(self)

    @property
    def split(self) -> Split:
        """The split of the events that the run was trained on."""
        return self.config.train.split_stream(self.trained_stream)

    @property
    def metrics(self) -> RunMetrics:
        """The test result and the record of the training."""
        return self.folder.metrics()

    @overload
    def evaluate(
        self,
        task: str = ...,
        *,
        data: Any = ...,
        reading: ReadOptions | None = ...,
        repeated: KnownPolicy = ...,
        batch_size: int | None = ...,
        show: bool | None = ...,
        **options: Any,
    ) -> Evaluation[Any]: ...
    @overload
    def evaluate(
        self,
        task: Task[Any, R],
        *,
        data: Any = ...,
        reading: ReadOptions | None = ...,
        repeated: KnownPolicy = ...,
        batch_size: int | None = ...,
        show: bool | None = ...,
    ) -> Evaluation[R]: ...
    @overload
    def evaluate(
        self,
        task: type[Task[Any, R]],
        *,
        data: Any = ...,
        reading: ReadOptions | None = ...,
        repeated: KnownPolicy = ...,
        batch_size: int | None = ...,
        show: bool | None = ...,
        **options: Any,
    ) -> Evaluation[R]: ...

    def evaluate(
        self,
        task: str | Task[Any, Any] | type[Task[Any, Any]] = "link",
        *,
        data: Any = None,
        reading: ReadOptions | None = None,
        repeated: KnownPolicy = "reject",
        batch_size: int | None = None,
        show: bool | None = None,
        **options: Any,
    ) -> Evaluation[Any]:
        """Measure the test events by a task, continuing from the state after validation.

        - ``link``: AP and AUC; ``negatives`` are random, historical, inductive or historical-source.
        - ``intervals``: the same by how long the source has been inactive.
        - ``recommend``: MRR and recalls among all destinations, ``candidates`` sampled ones or those of the
          file ``candidates_from``, at each event's time; ``as_of="batch"`` is much faster and ranks at the
          time of each batch's first event.
        - ``classify``: AUC of the label, over ``seeds`` decoders.

        A task can also be passed as a class, or as an object whose options are set. ``batch_size`` is that of
        the training by default. The run does not change.

        ``data`` are events to test on instead: anything that ``read_events`` takes, read with ``reading``.
        They must not be before the last event that the run knows; new nodes are allowed. Events that the run
        already knows are left out with ``repeated="skip"``. The state first advances over the events between
        the validation and these.
        """
        measured = self.evaluate_each(
            task,
            data=data,
            reading=reading,
            repeated=repeated,
            batch_size=batch_size,
            show=show,
            **options,
        )
        return measured.evaluation

    def evaluate_each(
        self,
        task: str | Task[Any, Any] | type[Task[Any, Any]] = "link",
        *,
        data: Any = None,
        reading: ReadOptions | None = None,
        repeated: KnownPolicy = "reject",
        batch_size: int | None = None,
        show: bool | None = None,
        **options: Any,
    ) -> EventEvaluation:
        """Evaluate as ``evaluate`` does, and also return a prediction for each event."""
        chosen, period = _task(task, options), self.evaluation_period(data, reading, repeated)
        size = self._batch_size(batch_size)
        state = self._state_before(period, size, show)
        return period.measure(chosen, self.config, self.model, state, size, show)

    def classify(
        self,
        events: Any = None,
        reading: ReadOptions | None = None,
        *,
        repeated: KnownPolicy = "reject",
        label_delay: float | None = None,
        refit: bool = False,
        show: bool | None = None,
        **options: Unpack[ReadKeywords],
    ) -> Classification:
        """Return the probability of label 1 for each event, with that of a baseline without the graph.

        ``events`` is anything that ``observe`` takes, in order after what the run knows; the run does not
        change. Events that the run already knows are left out with ``repeated="skip"``. By default they are
        the events of the run, and the quality is that of the test events.

        A decision uses what is known strictly before the event: the embeddings of both ends, the event's own
        features, how they compare with the earlier ones of both ends, counts and elapsed times, and the
        labels known by then, ``label_delay`` after their events (in the unit of the times; 0 by default).

        The classifier is fitted when it is first needed, on the training events; the validation events choose
        between boosted trees and a network, and calibrate it. It is saved with the run. ``refit``, or another
        ``label_delay``, fits it again.
        """
        check_flag("refit", refit)
        given = reading_options(reading).updated(**options)
        if events is not None:
            return classify_new(
                self, events, given, repeated=repeated, label_delay=label_delay, refit=refit, show=show
            )
        return classify_known(self, label_delay=label_delay, refit=refit, show=show)

    def refit(
        self,
        on: Any = "everything",
        *,
        out: str | Path | None = None,
        in_place: bool = False,
        overwrite: bool = False,
        epochs: int | None = None,
        lr: float | None = None,
        show: bool | None = None,
        reading: ReadOptions | None = None,
        repeated: KnownPolicy = "reject",
        **options: Unpack[ReadKeywords],
    ) -> Run:
        """Train this run once more, on everything it knows or with new events (see ``contig.refit``)."""
        refit = import_module("contig.training.refit").refit  # by name: training builds on runs
        where: dict[str, Any] = {"out": out, "in_place": in_place, "device": str(self.state.device)}
        where["overwrite"] = overwrite
        how: dict[str, Any] = {"epochs": epochs, "lr": lr, "show": show, "reading": reading}
        how["repeated"] = repeated
        found: Run = refit(self, on, **where, **how, **options)
        return found

    def evaluate_heuristics(
        self,
        task: str | Task[Any, Any] | type[Task[Any, Any]] = "link",
        *,
        names: Sequence[str] = HEURISTICS,
        data: Any = None,
        reading: ReadOptions | None = None,
        repeated: KnownPolicy = "reject",
        batch_size: int | None = None,
        show: bool | None = None,
        **options: Any,
    ) -> dict[str, Evaluation[Any]]:
        """Measure heuristics as ``evaluate`` measures the model: the same events, negatives and batches."""
        chosen, size, found = _task(task, options), self._batch_size(batch_size), {}
        period = self.evaluation_period(data, reading, repeated)
        for name in names:
            config = replace(RunConfig.of(name), train=self.config.train)
            model = build_model(config, period.data.stream).to(self.state.device)
            state = model.new_state(period.data.stream.num_nodes)
            found[name] = period.measure(chosen, config, model, state, size, show).evaluation
        return found

    def evaluation_period(
        self, data: Any = None, reading: ReadOptions | None = None, repeated: KnownPolicy = "reject"
    ) -> EvaluationPeriod:
        """Return what ``evaluate`` measures: the run's own test events, or those of ``data``."""
        if isinstance(data, EvaluationPeriod):
            return data
        if data is not None:
            given = reading_options(reading)
            try:
                table = read_new_events(data, given, self.features, usual=self.read_as, with_labels=True)
            except NoEventsError as error:
                raise NoEventsError(f"{error.problem}, so nothing can be measured.") from None
            known = KnownEvents(self.arrivals, self.history, self.split, self.trained_stream.label)
            table, policy = self.without_known(table, repeated), known_policy(repeated)
            return later_period(known, table, source_name(data), self.model, self.state, policy)
        if self.config.train.final:
            raise RunError(
                f"{self.path} learned from every event (final=true), so none is left to test on. Evaluate it "
                "on later events: data=..., or contig evaluate RUN --data FILE."
            )
        stream, device = self.trained_stream, self.state.device
        prepared = PreparedStream(stream, self.split, self.trained_history, device)
        return EvaluationPeriod(prepared, DataFacts.of(stream))

    def _state_before(self, period: EvaluationPeriod, batch_size: int, show: bool | None) -> NodeState:
        """Return the state after validation, advanced to the first test event."""
        data, state = period.data, self.state.blank_like(self.trained_stream.num_nodes)
        self.folder.restore("best.pt", None, state, len(self.trained_stream))
        state.grow(data.stream.num_nodes)
        if len(between := period.between(len(self.trained_stream))):
            with Display(show) as display, display.bar("earlier events", len(between)) as progress:
                replay(self.model, state, data.history, between, batch_size, progress)
        return state

    def _batch_size(self, given: int | None) -> int:
        return set_options(self.config.train, {} if given is None else {"batch_size": given}).batch_size


def _task(task: str | Task[Any, Any] | type[Task[Any, Any]], options: dict[str, Any]) -> Task[Any, Any]:
    if isinstance(task, str):
        return task_class(task).of(**options)
    if isinstance(task, type) and issubclass(task, Task):
        check_task_class(getattr(task, "name", ""), task)
        return task.of(**options)
    if not isinstance(task, Task):
        raise ConfigError(
            f"task={task!r}: expected the name of a task, a subclass of contig.Task or an instance."
        )
    if options:
        raise ConfigError(f"Set the option {next(iter(options))} when you create the task {task.name}.")
    return task
