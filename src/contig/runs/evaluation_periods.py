"""What a run is evaluated on: its own test events, or later events that it does not know."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contig.data.columns import frozen
from contig.data.events import EventStream
from contig.data.readers import PairTable
from contig.data.splits import Split
from contig.data.validation import EventColumns
from contig.errors import DataError
from contig.history import History
from contig.models import Model, NodeState
from contig.progress import Display
from contig.runs.arrivals import Arrivals
from contig.runs.config import RunConfig
from contig.runs.metrics import run_facts
from contig.runs.observed import GrowingStream
from contig.runs.repeated_events import OverlapError, Policy
from contig.streaming.prepared import PreparedStream
from contig.tasks.context import EvaluationContext
from contig.tasks.predictions import Columns, prediction_table
from contig.tasks.registry import check_result
from contig.tasks.results import DataFacts, Evaluation
from contig.tasks.task import Task
from contig.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class EvaluationPeriod:
    """Events to evaluate a run on, ``data.split.test``, and where they come from."""

    data: PreparedStream
    origin: DataFacts
    late: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # that no state observes

    def between(self, trained: int) -> NDArray[np.int64]:
        """Return the events between validation and test, for a run trained on ``trained`` events."""
        val = self.data.split.val
        events = np.arange(val[-1] + 1 if len(val) else trained, self.data.split.test[0])
        return np.setdiff1d(events, self.late)

    def measure(
        self,
        task: Task[Any, Any],
        config: RunConfig,
        model: Model,
        state: NodeState,
        batch_size: int,
        show: bool | None,
    ) -> EventEvaluation:
        """Measure a model whose state knows the events before the test."""
        data = self.data
        with Display(show) as display:
            measured = task.measure_each(EvaluationContext(model, state, data, batch_size, display.bar))
        check_result(task, measured.result)
        facts = replace(run_facts(config, data.stream, data.device, batch_size), data=self.origin)
        return EventEvaluation(Evaluation(facts=facts, result=measured.result), self, measured.predictions)


@dataclass(frozen=True)
class EventEvaluation:
    """An evaluation, and what was predicted for each of its events."""

    evaluation: Evaluation[Any]
    period: EvaluationPeriod
    predictions: Columns

    def table(self) -> pa.Table:
        """Return a row for each event, by the user's ids (see ``contig.tasks.predictions``)."""
        data = self.period.data
        return prediction_table(data.stream, data.split, self.predictions)


# -- later events -------------------------------------------------------------------------------------------


class KnownEvents(NamedTuple):
    """The events that a run knows, and the split and the labels of those that it was trained on."""

    arrivals: Arrivals
    history: History
    split: Split
    label: NDArray[np.int64] | None


def source_name(source: Any) -> str:
    """Name where events come from."""
    if isinstance(source, EventStream):
        return source.origin
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "a table in memory"


def later_period(
    known: KnownEvents,
    table: PairTable,
    name: str,
    model: Model,
    state: NodeState,
    repeated: Policy = "reject",
) -> EvaluationPeriod:
    """Return events that come after those of a run as its test; ``state`` says where they are indexed.

    Training and validation stay those of the run.
    """
    columns, place = table
    try:
        new = GrowingStream(known.arrivals, known.history).check(columns, place, repeated=repeated)
    except OverlapError as error:
        raise DataError(f"{error} Only events after those of the run can be evaluated.") from None
    arrivals = known.arrivals.extended(new)
    label = _labels(known, columns)
    stream = replace(arrivals.stream, label=label)
    if known.label is not None and label is None:
        stream = replace(stream, origin=name)  # the labels that are missing are those of the new events
    nodes = len(np.union1d(new.src, new.dst))
    history = arrivals.index(model, state)
    data = PreparedStream(stream, _split(known, stream, name), history, state.device, test_origin=name)
    return EvaluationPeriod(data, DataFacts(origin=name, events=len(new.t), nodes=nodes), arrivals.late)


def _labels(known: KnownEvents, new: EventColumns) -> NDArray[np.int64] | None:
    """Return the labels of all events; those observed after the training have none, and are in no part."""
    if known.label is None or new.label is None:
        return None
    unlabeled = np.zeros(len(known.arrivals) - len(known.label), np.int64)
    later = new.label[np.argsort(new.t, kind="stable")]
    return frozen(np.concatenate([known.label, unlabeled, later]))


def _split(known: KnownEvents, stream: EventStream, name: str) -> Split:
    new_nodes = np.ones(stream.num_nodes, dtype=bool)
    new_nodes[: len(known.split.new_nodes)] = known.split.new_nodes
    return replace(
        known.split,
        test=np.arange(len(known.arrivals), len(stream)),
        new_nodes=new_nodes,
        description=f"{name}, after the {counted(len(known.arrivals), 'event')} of the run",
        final=False,
    )
