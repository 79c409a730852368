"""Fig. 6: training time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from statistics import geometric_mean, mean
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from contig.experiments.jobs import Job
from contig.experiments.lineups import lineup
from contig.experiments.recipes import PLAIN, Recipe
from contig.experiments.rows import Spread
from contig.plots import Curve, Panel
from contig.reproduction.claims import Claim
from contig.reproduction.datasets import StudyDataset, fixed_nodes_dataset, growing_nodes_dataset
from contig.reproduction.items.base import Group
from contig.reproduction.items.drawing import draw_curves
from contig.reproduction.items.notes import NO_NUMBERS, claim_note
from contig.reproduction.items.variants import VariantItem
from contig.reproduction.paper import MODEL
from contig.reproduction.scales import QUICK
from contig.reproduction.stats import PowerLaw, exact, fit_power_law
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict
from contig.runs.metrics import RunMetrics, timed_epochs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED, GROWING = "fixed number of nodes", "growing number of nodes"
COLUMNS = ("training events", "nodes", "s per epoch", "events/s")
LINEAR = 0.05  # an exponent this close to 1 counts as close to linear
# By default a file has no held-out nodes, and only long trainings are compiled: sizes would not compare.
ALIKE = {"holdout": "tgn", "compile": "on"}


class Timing(NamedTuple):
    """What an epoch takes on a dataset."""

    events: int
    nodes: int
    trained: int  # events of an epoch
    seconds: float


@dataclass(frozen=True)
class Fig6(VariantItem):
    """Time of an epoch by the number of training events, and the exponent of its growth.

    Datasets grow in two ways. With a fixed number of nodes a larger one lasts longer. With a growing number
    all last equally long; an event then costs more in a larger one, up to a bound, because a batch has more
    distinct nodes to compute. The dataset of the middle size belongs to both.
    """

    name = "fig6"
    title = "Fig. 6: training time"
    exclusive = True
    caveats = (
        "Fig. 6 uses synthetic datasets of growing size, the paper subsets of wikipedia. Seconds depend on "
        "the machine.",
    )

    sizes: tuple[int, ...] = (40_000, 100_000, 200_000, 400_000, 800_000)  # about half are trained on
    settings: Mapping[str, Any] = field(default_factory=lambda: {"epochs": 4})

    def quick(self) -> Self:
        return replace(self, sizes=(1000, 2000, 4000, 8000), settings=QUICK.settings)

    def notices(self, study: Study) -> Iterator[str]:
        yield from super().notices(study)
        if study.every_dataset:
            yield "fig6 uses synthetic datasets; --datasets does not apply to it"

    def plan(self, study: Study) -> list[Group]:
        middle, folder = self.sizes[len(self.sizes) // 2], study.out / "data"
        fixed = [fixed_nodes_dataset(size, middle, folder) for size in self.sizes]
        growing = [growing_nodes_dataset(size) for size in self.sizes]
        return [
            Group("synthetic", self._jobs(study, datasets), series=series)
            for series, datasets in ((FIXED, fixed), (GROWING, growing))
        ]

    def _jobs(self, study: Study, datasets: Sequence[StudyDataset]) -> list[Job]:
        settings = {**ALIKE, **self.settings}
        lineups = (lineup(d.data, d.stream, [MODEL], settings, d.reading) for d in datasets)
        recipes = [replace(recipe, variant="timing") for recipes in lineups for recipe in recipes]
        return study.jobs(recipes, seeds=1)

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        times: list[Line] = []
        laws: list[Line] = []
        for group in groups:
            found = timings(group.jobs)
            times += [_line(timing, group.series) for timing in found]
            if (law := growth(found)) is not None:
                exponent = Value(Spread(law.exponent, law.error), seeds=len(found))
                laws.append(Line(group.series, (exponent,)))
        yield Grid("one epoch of training", "events", COLUMNS, tuple(times), (0, 0, 3, 0))
        title = "time ~ training events^x"
        yield Grid(title, "datasets with", ("x",), tuple(laws), (3,), derived=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        return [
            "Mean over all epochs but the first, one run at a time; ± is the standard error of the exponent.",
            f"{FIXED}: larger datasets last longer; {GROWING}: all last equally long and have nodes in "
            "proportion to their events. Each dataset is generated independently.",
            f"{claim_note(self.name)} Linear growth has exponent 1.",
            NO_NUMBERS,
        ]

    def own_recipes(self, groups: Sequence[Group]) -> Iterator[tuple[str, Recipe]]:
        """Yield the recipes of finished runs; all of them are of the model itself, timed."""
        for group in groups:
            yield from ((group.dataset, replace(job.recipe, variant=PLAIN)) for job in group.jobs if job.done)

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        """Draw both ways to grow in one panel, each with its fitted power law, and linear growth."""
        measured, fitted = [], []
        for grid in table.measured:
            for series in dict.fromkeys(line.section for line in grid.lines):
                curve = _measured(series, grid.section(series))
                measured.append(curve)
                fitted += _fitted(curve)
        drawn = [*measured, *_linear_growth(measured), *fitted]
        panel = Panel("one epoch", drawn, "training events", "seconds", log_x=True, log_y=True)
        return draw_curves([panel], title, facts)

    def claims(self, table: Table) -> Iterator[Claim]:
        for line in (line for grid in table.derived for line in grid.lines):
            law = line.values[0].ours
            yield Claim(
                f"Fig. 6: epoch time is close to linear in its events (exponent within {LINEAR:g} of 1)",
                f"synthetic, {line.label}",
                "close to 1",
                f"exponent {law.mean:.3f}" + _error(law.std),
                _linear(law),
            )


def timings(jobs: Sequence[Job]) -> list[Timing]:
    """Return the mean time of an epoch of the finished runs; the first epoch warms up and is left out."""
    return [_timing(job.metrics()) for job in jobs if job.done]


def _timing(metrics: RunMetrics) -> Timing:
    data, epochs = metrics.facts.data, metrics.epochs
    trained = round(epochs[0].events_per_second * epochs[0].train_seconds)
    return Timing(data.events, data.nodes, trained, mean(e.train_seconds for e in timed_epochs(epochs)))


def growth(found: Sequence[Timing]) -> PowerLaw | None:
    """Fit how the time of an epoch grows with its events."""
    return fit_power_law([one.trained for one in found], [one.seconds for one in found])


def _line(timing: Timing, series: str) -> Line:
    numbers = (timing.trained, timing.nodes, timing.seconds, timing.trained / timing.seconds)
    return Line(f"{timing.events:,}", tuple(Value(exact(x), seeds=1) for x in numbers), series)


def _measured(series: str, lines: Sequence[Line]) -> Curve:
    trained, seconds = ([line.values[COLUMNS.index(c)].ours.mean for line in lines] for c in COLUMNS[:3:2])
    return Curve(series, trained, seconds, [nan] * len(lines), line=False, on_top=True)


def _fitted(measured: Curve) -> list[Curve]:
    """Return the power law of a measured curve, if there is one."""
    if (law := fit_power_law(measured.x, measured.y)) is None:
        return []
    name = f"{measured.name}, fitted: events^({law.exponent:.3f}{_error(law.error)})"
    seconds = [law(size) for size in measured.x]
    return [measured._replace(name=name, y=seconds, on_top=False, line=True, marks=False, like=measured.name)]


def _linear_growth(measured: Sequence[Curve]) -> list[Curve]:
    """Return a line of exponent 1 through the middle of all points, if there are several sizes."""
    points = [point for curve in measured for point in zip(curve.x, curve.y, strict=True)]
    if not points:
        return []
    ends = [end(x for x, _ in points) for end in (min, max)]
    if ends[0] == ends[1]:
        return []
    cost = geometric_mean(y / x for x, y in points)
    seconds = [cost * size for size in ends]
    return [Curve("linear growth: events^1", ends, seconds, [nan] * 2, quiet=True, dashed=True, marks=False)]


def _linear(exponent: Spread) -> Verdict:
    """Judge whether an exponent is close to 1, given its standard error."""
    distance = abs(exponent.mean - 1)
    if distance + exponent.std <= LINEAR:
        return Verdict.HOLDS
    return Verdict.FAILS if distance - exponent.std > LINEAR else Verdict.OPEN  # OPEN without an error


def _error(error: float) -> str:
    return "" if isnan(error) else f" ± {error:.3f}"
