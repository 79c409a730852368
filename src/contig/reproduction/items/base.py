"""What every table and figure of the paper has: its runs, its table, its figure and its claims."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job
from contig.experiments.recipes import PLAIN, Recipe
from contig.experiments.training_settings import settings_notes
from contig.models import model_class
from contig.reproduction.claims import Claim
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.paper import paper, published_datasets
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_RESULTS = "No results yet: nothing has been run, or no dataset is suitable."


class Group(NamedTuple):
    """Runs whose results are shown together, and what is evaluated on them."""

    dataset: str
    jobs: Sequence[Job]
    evaluations: Sequence[Evaluation] = ()
    series: str = ""  # which curve they form, where the item has several for a dataset
    training_events: int = 0  # on which a run trains at most, counting every epoch, if the item limits them


def finished_seeds(groups: Iterable[Group]) -> dict[str, dict[str, int]]:
    """Count the finished seeds of each model or variant that learns, by dataset.

    Of several curves of a dataset the one with the fewest counts.
    """
    counts: dict[str, dict[str, int]] = {}
    for group in groups:
        evaluated = {one.job.folder for one in group.evaluations if one.done}
        found = [job for job in group.jobs if job.done and (not group.evaluations or job.folder in evaluated)]
        learned = [job for job in found if model_class(job.recipe.model).learns]
        # a dict keeps the order of the models; Fig. 6 trains one seed on several datasets
        trained = dict.fromkeys((_variant_name(job.recipe), job.seed) for job in learned)
        names = Counter(name for name, _ in trained)
        known = counts.setdefault(group.dataset, {})
        known |= {name: min(seeds, known.get(name, seeds)) for name, seeds in names.items()}
    return {dataset: known for dataset, known in counts.items() if known}


def _variant_name(recipe: Recipe) -> str:
    return recipe.model if recipe.variant == PLAIN else f"{recipe.model} ({recipe.variant})"


class Item(ABC):
    """A table or figure of the paper.

    An item plans the runs it needs, builds a table from their saved results, draws that table and judges
    the paper's claims by it. To add one, write a module with a subclass and add it to ``ITEMS``; what the
    paper says about it goes into ``paper.json`` under its name.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    protocol: ClassVar[tuple[str, ...]] = ()  # how its numbers are measured
    caveats: ClassVar[tuple[str, ...]] = ()  # where they differ in kind from the paper's
    exclusive: ClassVar[bool] = False  # its runs are timed, so they run alone

    def quick(self) -> Self:
        """Return the item as a smoke test runs it."""
        return self

    def applies_to(self, dataset: StudyDataset) -> bool:
        """Return whether the item can be measured on a dataset."""
        return True

    def datasets(self, study: Study) -> list[StudyDataset]:
        """Return the datasets to run it on.

        Of the paper's datasets these are the ones the paper shows it on, unless the study wants every one.
        """
        shown, known = published_datasets(self.name), published_datasets()
        chosen = [d for d in study.datasets if study.every_dataset or d.name in shown or d.name not in known]
        return [dataset for dataset in chosen if self.applies_to(dataset)]

    def notices(self, study: Study) -> Iterator[str]:
        """Yield which of the user's choices do not apply to it."""
        yield from ()

    @abstractmethod
    def plan(self, study: Study) -> list[Group]:
        """Work out its runs and evaluations."""

    @abstractmethod
    def grids(self, groups: Sequence[Group]) -> Iterable[Grid]:
        """Yield its numbers from the saved results."""

    @abstractmethod
    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        """Say what a reader must know to understand the numbers."""

    @abstractmethod
    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        """Draw a table; without a title the figure has no heading. None if there is nothing to draw."""

    @abstractmethod
    def claims(self, table: Table) -> Iterator[Claim]:
        """Judge the claims that the table has the numbers for."""

    def legend(self) -> list[str]:
        """Explain the words that its rows and claims use."""
        return []

    def summary(self, table: Table) -> Grid | None:
        """Return the numbers of the paper's model, if the report's summary shows them."""
        return None

    def table(self, study: Study, groups: Sequence[Group]) -> Table:
        """Build its table from the saved results."""
        grids = tuple(grid for grid in self.grids(groups) if grid.lines)
        empty = () if grids else (NO_RESULTS,)
        source = f"Source: {paper().items[self.name].source} of the paper."
        settings = settings_notes(self.own_recipes(groups))
        notes = (*empty, *self.notes(study, groups), *self.legend(), *settings, source)
        return Table(self.name, self.title, grids, notes, study.scale.warning)

    def own_recipes(self, groups: Sequence[Group]) -> Iterator[tuple[str, Recipe]]:
        """Yield the recipes whose settings the notes list: those of finished runs, with their datasets."""
        for group in groups:
            yield from ((group.dataset, job.recipe) for job in group.jobs if job.done)

    def figure(self, table: Table, facts: Sequence[str] | None = None) -> Figure | None:
        """Draw a table, with a heading of its title and ``facts`` where facts are given."""
        if facts is None:
            return self.draw(table, "", ())
        quick = ["QUICK: a smoke test"] if table.warning else []
        return self.draw(table, table.title, [*quick, *facts])

    def error_bars(self, groups: Sequence[Group]) -> str:
        """Describe the error bars of its figure."""
        counts = [seeds for known in finished_seeds(groups).values() for seeds in known.values()]
        least, most = min(counts, default=1), max(counts, default=1)
        if most == 1:
            return "one seed"
        seeds = f"{most}" if least == most else f"{least} to {most}"
        learns = {model_class(job.recipe.model).learns for group in groups for job in group.jobs if job.done}
        once = "" if all(learns) else " (heuristics: one run)"
        return f"{seeds} seeds{once}, error bars ± one standard deviation"

    def shown_grids(self, table: Table) -> list[Grid]:
        """Return the measured grids of the datasets that the paper shows it on."""
        return [grid for grid in table.measured if grid.title in published_datasets(self.name)]
