"""What Table 3, Fig. 3 and Fig. 4 share: one task, evaluated on the runs of link prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any, ClassVar, NamedTuple

from contig.experiments.evaluations import Evaluation
from contig.experiments.recipes import PLAIN
from contig.experiments.rows import Spread
from contig.models import model_class
from contig.reproduction.items.base import Group, Item
from contig.reproduction.stats import MISSING, percent
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Value


class ModelResults(NamedTuple):
    """The evaluations of one model, a result for each seed."""

    label: str
    model: str
    results: list[dict[str, Any]]

    @property
    def heuristic(self) -> bool:
        return not model_class(self.model).learns

    def spread(self, *path: str) -> Spread:
        """Return the mean and deviation over seeds of the number at a path of the results."""
        return Spread.of([_at(result, path) for result in self.results])

    def value(self, *path: str, paper: Spread = MISSING) -> Value:
        """Return a share as per cent, beside the paper's."""
        return Value(percent(self.spread(*path)), paper, len(self.results))


def finished(evaluations: Sequence[Evaluation]) -> list[ModelResults]:
    """Gather the finished evaluations by model and variant."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in evaluations:
        if (result := one.result()) is not None:
            groups.setdefault((one.job.recipe.model, one.job.recipe.variant), []).append(result)
    return [
        ModelResults(model if variant == PLAIN else f"{model}, {variant}", model, results)
        for (model, variant), results in groups.items()
    ]


def _at(result: Mapping[str, Any], path: Sequence[str]) -> float:
    found: Any = result
    for name in path:
        found = found.get(name, {})
    return float(found) if isinstance(found, int | float) else nan


class EvaluatedItem(Item):
    """An item that evaluates a task on the runs of link prediction."""

    task: ClassVar[str]

    @abstractmethod
    def models(self, study: Study) -> Sequence[str]:
        """Return the models it is measured on."""

    def options(self) -> dict[str, Any]:
        """Return the options of the evaluation, as for ``Run.evaluate``."""
        return {}

    def plan(self, study: Study) -> list[Group]:
        return list(self._groups(study))

    def _groups(self, study: Study) -> Iterator[Group]:
        for dataset in self.datasets(study):
            jobs = study.jobs(study.recipes(dataset, self.models(study)))
            evaluations = [Evaluation(job, self.task, self.options()) for job in jobs]
            yield Group(dataset.name, jobs, evaluations)
