"""Fig. 3: temporal node recommendation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING

from contig.experiments.rows import Spread
from contig.plots import Panel
from contig.reproduction.claims import Claim
from contig.reproduction.items.base import Group
from contig.reproduction.items.evaluated import EvaluatedItem, ModelResults, finished
from contig.reproduction.items.model_curves import draw_models
from contig.reproduction.items.notes import NO_CURVES, known_nodes_notes, seeds_note
from contig.reproduction.paper import BASELINE, MODEL, paper, published
from contig.reproduction.stats import exact
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import higher, highest, rank
from contig.tasks.recommend import RecommendResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Metric = Callable[[RecommendResult], float]


@dataclass(frozen=True)
class Fig3(EvaluatedItem):
    """Recall@K and MRR of the true destination among all destinations, transductive."""

    name = "fig3"
    title = "Fig. 3: temporal node recommendation"
    task = "recommend"
    protocol = (
        "Recommendation ranks the true destination among all destinations at the event's time, leaving out "
        "other true ones; ties count as the mean of the best and the worst rank.",
    )

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        gains: list[Line] = []
        for group in groups:
            found = finished(group.evaluations, RecommendResult)
            lines = tuple(one.line(_values(one)) for one in found)
            yield Grid(group.dataset, "model", tuple(metrics()), lines, rank=True)
            gains += _gain(group.dataset, found)
        title = f"relative gain of {MODEL} over {BASELINE} in Recall@5, %"
        yield Grid(title, "dataset", ("gain",), tuple(gains), derived=True, signed=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        measured = "Recall@K and MRR in %, by the rank of the true destination among all destinations."
        return [measured, seeds_note(groups), *known_nodes_notes(study), NO_CURVES]

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        cutoffs = paper().items["fig3"].cutoffs
        rows = [{grid.title: grid.lines} for grid in table.measured]
        frame = Panel("", (), "K", "Recall@K, %")
        return draw_models(rows, cutoffs, frame, title, facts)

    def claims(self, table: Table) -> Iterator[Claim]:
        gains = {line.label: line.values[0] for grid in table.derived for line in grid.lines}
        for grid in self.shown_grids(table):
            recalls = {name: values[0].ours for name, values in grid.models().items()}
            model = recalls.pop(MODEL, None)
            if model is None or not recalls or any(isnan(s.mean) for s in (model, *recalls.values())):
                continue
            text = "Fig. 3: best Recall@5 of all models"
            yield Claim(text, grid.title, "yes", rank(model, recalls), highest(model, recalls))
            if grid.title in gains:
                yield _gain_claim(grid.title, gains[grid.title], model, recalls[BASELINE])


def metrics() -> dict[str, Metric]:
    """Return the metrics by their headings: the recalls of the paper, and MRR."""
    names = {**{f"R@{k}": f"recall_at_{k}" for k in paper().items["fig3"].cutoffs}, "MRR": "mrr"}
    return {heading: _transductive(name) for heading, name in names.items()}


def _transductive(name: str) -> Metric:
    return lambda result: float(getattr(result.transductive, name))


def _values(one: ModelResults[RecommendResult]) -> tuple[Value, ...]:
    return tuple(one.value(metric) for metric in metrics().values())


def _gain(dataset: str, found: Sequence[ModelResults[RecommendResult]]) -> list[Line]:
    recalls = {one.label: one.spread(metrics()["R@5"]).mean for one in found}
    ours, baseline = recalls.get(MODEL, nan), recalls.get(BASELINE, nan)
    if isnan(ours) or isnan(baseline) or not baseline:
        return []
    seeds = min(len(one.results) for one in found if one.label in (MODEL, BASELINE))
    theirs = published("fig3", "gain_over_tgn_at_5", dataset)
    return [Line(dataset, (Value(exact(100 * (ours / baseline - 1)), theirs, seeds),))]


def _gain_claim(dataset: str, gain: Value, model: Spread, baseline: Spread) -> Claim:
    theirs, ours = (f"{spread.mean:+.2f}%" for spread in (gain.paper, gain.ours))
    text = f"Fig. 3: higher Recall@5 than {BASELINE}"
    return Claim(text, dataset, theirs, ours, higher(model, baseline))
