"""What Tables 2 to 4, Fig. 3 and Fig. 4 share: one task, evaluated on the runs of link prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from contig.errors import RunError
from contig.experiments.evaluations import Evaluation
from contig.experiments.recipes import PLAIN, Recipe
from contig.experiments.rows import Spread
from contig.models import model_class, model_label
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.base import Group, Item
from contig.reproduction.paper import COMPARABLE
from contig.reproduction.stats import MISSING, percent
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Line, Value
from contig.tasks.link import LinkResult
from contig.tasks.results import TaskResult

R = TypeVar("R", bound=TaskResult)


class ModelResults(NamedTuple, Generic[R]):
    """The evaluations of one model, a result for each seed."""

    model: str
    variant: str  # empty for the model itself
    results: list[R]

    @property
    def label(self) -> str:
        name = model_label(self.model)
        return f"{name}, {self.variant}" if self.variant else name

    @property
    def heuristic(self) -> bool:
        return not model_class(self.model).learns

    @property
    def known_nodes(self) -> bool:
        """Whether it is measured only on events between nodes seen in training."""
        return not model_class(self.model).inductive

    def line(self, values: tuple[Value, ...], section: str = "") -> Line:
        """Return its line of a table."""
        return Line(
            self.label,
            values,
            section,
            heuristic=self.heuristic,
            excluded=bool(self.variant),
            known_nodes=self.known_nodes,
        )

    def spread(self, metric: Callable[[R], float]) -> Spread:
        """Return the mean and deviation of a metric over seeds."""
        return Spread.of([metric(result) for result in self.results])

    def value(self, metric: Callable[[R], float], paper: Spread = MISSING) -> Value:
        """Return a share as per cent, next to the paper's."""
        return Value(percent(self.spread(metric)), paper, len(self.results))


def finished(evaluations: Sequence[Evaluation], kind: type[R]) -> list[ModelResults[R]]:
    """Gather the finished evaluations by model and variant."""
    groups: dict[tuple[str, str], list[R]] = {}
    for one in evaluations:
        if one.done and one.job.done:
            result = one.result()
            if not isinstance(result, kind):
                raise RunError(f"{one.file} is the result of another task; delete it to evaluate again.")
            groups.setdefault((one.job.recipe.model, one.job.recipe.variant), []).append(result)
    return [
        ModelResults(model, "" if variant == PLAIN else variant, results)
        for (model, variant), results in groups.items()
    ]


def comparable(section: str, metric: str) -> Callable[[LinkResult], float]:
    """Return what reads the metric of links that compares with a published section, such as inductive."""
    return lambda result: float(getattr(getattr(result, COMPARABLE[section]), metric))


class EvaluatedItem(Item):
    """An item that evaluates a task on the runs of link prediction."""

    task: ClassVar[str]

    def models(self, study: Study) -> Sequence[str]:
        """Return the models it is measured on."""
        return study.models

    def options(self) -> dict[str, Any]:
        """Return the options of the evaluation, as for ``Run.evaluate``."""
        return {}

    def recipes(self, study: Study, dataset: StudyDataset) -> Sequence[Recipe]:
        """Return the recipes whose runs are evaluated on a dataset."""
        return study.recipes(dataset, self.models(study))

    def plan(self, study: Study) -> list[Group]:
        return list(self._groups(study))

    def _groups(self, study: Study) -> Iterator[Group]:
        for dataset in self.datasets(study):
            jobs = study.jobs(self.recipes(study, dataset))
            evaluations = [Evaluation(job, self.task, self.options()) for job in jobs]
            yield Group(dataset.name, jobs, evaluations)
