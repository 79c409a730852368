"""The contract of a task: its options, how it is measured, and its table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from contig.errors import ConfigError, unknown
from contig.options import set_options
from contig.tasks.predictions import Measured
from contig.tasks.results import Evaluation, Protocol, TaskResult
from contig.tasks.tables import ResultTable

if TYPE_CHECKING:
    from contig.tasks.context import EvaluationContext

EVALUATION_SEED = 1905  # of everything sampled for an evaluation; differs from every training seed

Options = TypeVar("Options")
R = TypeVar("R", bound=TaskResult)
P = TypeVar("P", bound=Protocol)


class Task(ABC, Generic[Options, R]):
    """One way to measure a trained model on its test events.

    A subclass sets the four class attributes and implements ``table`` and either ``measure`` or, if it also
    has a prediction for each event, ``measure_each``. The values of its options are in ``self.opt``.

    ``contig evaluate --help`` imports the module of every task, so modules of tasks import torch only inside
    these methods.
    """

    name: ClassVar[str]  # for ``--task`` and ``Run.evaluate``
    summary: ClassVar[str]  # one line of help
    options: ClassVar[type[Any]]  # a dataclass whose fields are made by ``contig.option``
    result_type: ClassVar[type[TaskResult]]
    headline: ClassVar[str] = ""  # the metric by which heuristics are compared, where they can be measured
    selections: ClassVar[Mapping[str, str]] = {}  # fields of the result that have it, by how to name them

    def __init__(self, options: Options | None = None) -> None:
        self.opt: Options = self.options() if options is None else options

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Create the task with some options set; text is parsed by the option's type."""
        known = [field.name for field in fields(cls.options)]
        for name in settings:
            if name not in known:
                raise ConfigError(unknown("option", name, known, f"of the task {cls.name}"))
        return cls(set_options(cls.options(), settings))

    def protocol(self, context: EvaluationContext) -> Protocol:
        """Describe how the events are measured; override it to add what only this task has."""
        return self.describe(Protocol, context)

    def describe(self, kind: type[P], context: EvaluationContext, **details: Any) -> P:
        """Return the protocol of this task on a run; ``details`` are the fields that only ``kind`` has."""
        split, inductive = context.data.split, context.model.inductive
        return kind.of(self.name, split.holdout, inductive=inductive, split=split.description, **details)

    @classmethod
    def scores_heuristics(cls) -> bool:
        """Return whether heuristics can be measured, which score pairs and have no embeddings."""
        return bool(cls.headline)

    @classmethod
    def selections_by(cls, protocol: Protocol) -> Mapping[str, str]:
        """Return the selections to report by a protocol, which may have more."""
        return cls.selections

    def measure(self, context: EvaluationContext) -> R:
        """Measure the test events, continuing from the state after validation."""
        return self.measure_each(context).result

    def measure_each(self, context: EvaluationContext) -> Measured[R]:
        """Measure the test events, and return a prediction for each too, if the task has predictions."""
        return Measured(self.measure(context), {})

    @classmethod
    def notes(cls, evaluation: Evaluation[R]) -> Sequence[str]:
        """Return what a reader of this result should know, besides the notes of its table."""
        return ()

    @classmethod
    @abstractmethod
    def table(cls, results: Mapping[str, R]) -> ResultTable:
        """Return one table of the results of several models, by name."""
