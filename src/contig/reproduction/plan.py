"""All the work of a study: its runs, and what is evaluated on them.

The runs of link prediction are trained once and serve Table 2, Table 3, Fig. 3 and Fig. 4; the one with a
recipe's own settings is also the full model of Table 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from contig.experiments.jobs import Job, Work
from contig.reproduction.items.base import Group
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Table


@dataclass(frozen=True)
class Plan:
    """The groups of runs that each item needs; items may share runs.

    ``others`` are the studies of items that were planned with choices of their own.
    """

    study: Study
    groups: dict[str, list[Group]]  # by the item's name
    others: dict[str, Study] = field(default_factory=dict)  # by the item's name

    def study_of(self, item: str) -> Study:
        """Return the study that an item was planned for."""
        return self.others.get(item, self.study)

    @property
    def trainings(self) -> list[Job]:
        """Every run once, except the timed ones."""
        return _unique(self._jobs(exclusive=False))

    @property
    def timed(self) -> list[Job]:
        """Every run that must have the machine to itself, because its time is measured."""
        return _unique(self._jobs(exclusive=True))

    @property
    def jobs(self) -> list[Job]:
        return [*self.trainings, *self.timed]

    @property
    def longest_first(self) -> list[Job]:
        """The runs that are not timed, by the events they see at most: no long one is left for the end.

        Among equally long ones the first seed of every recipe comes first: it compiles what the others use.
        """
        timed = {job.folder for job in self.timed}
        events = {dataset.data: len(dataset.stream) for dataset in self.study.datasets}

        def order(job: Job) -> tuple[int, int]:
            return -events[job.recipe.data] * job.recipe.config(job.seed).train.epochs, job.seed

        return sorted((job for job in self.trainings if job.folder not in timed), key=order)

    def chain(self, job: Job) -> list[Work]:
        """Return a run and the evaluations to do once it is trained."""
        found = [one for groups in self.groups.values() for group in groups for one in group.evaluations]
        return [job, *(one for one in found if one.job.folder == job.folder)]

    def tables(self) -> list[Table]:
        """Build the table of every item from the saved results, in the paper's order."""
        return [item.table(self.study_of(item.name), self.groups[item.name]) for item in self.study.items]

    def _jobs(self, exclusive: bool) -> Iterable[Job]:
        items = [item for item in self.study.items if item.exclusive == exclusive]
        return (job for item in items for group in self.groups[item.name] for job in group.jobs)


def make_plan(study: Study) -> Plan:
    """Work out the runs and evaluations of a study."""
    return Plan(study, {item.name: item.plan(study) for item in study.items})


def _unique(jobs: Iterable[Job]) -> list[Job]:
    return list({job.folder: job for job in jobs}.values())
