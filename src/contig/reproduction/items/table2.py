"""Table 2: link prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contig.experiments.recipes import PLAIN
from contig.experiments.rows import Row, collect
from contig.models import model_class
from contig.reproduction.claims import Claim, best_claim
from contig.reproduction.items.base import Group, Item
from contig.reproduction.items.drawing import draw_pairs, pairs_of
from contig.reproduction.items.notes import difference_note, inductive_note, known_nodes_notes, seeds_note
from contig.reproduction.paper import COMPARABLE, MODEL, published
from contig.reproduction.stats import percent
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Line, Table, Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = {"AUC": "auc", "AP": "ap"}
AP = list(METRICS).index("AP")


@dataclass(frozen=True)
class Table2(Item):
    """AUC and AP of every model on every dataset, transductive and inductive."""

    name = "table2"
    title = "Table 2: link prediction"

    def plan(self, study: Study) -> list[Group]:
        return [
            Group(dataset.name, study.jobs(study.recipes(dataset, study.models)))
            for dataset in self.datasets(study)
        ]

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        for group in groups:
            rows = [row for row in collect(group.jobs) if row.seeds]
            lines = [line for section in COMPARABLE for line in _lines(group.dataset, rows, section)]
            yield Grid(group.dataset, "model", tuple(METRICS), tuple(lines), rank=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        measured = "AUC and AP in %, averaged over batches: test events against random negatives."
        return [measured, inductive_note(), seeds_note(study), difference_note(), *known_nodes_notes(study)]

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        panels = {
            f"{grid.title}, {section}": pairs_of(grid.section(section), AP)
            for grid in table.grids
            for section in COMPARABLE
        }
        return draw_pairs(panels, title, facts, "AP, %")

    def claims(self, table: Table) -> Iterator[Claim]:
        for grid in self.shown_grids(table):
            for section in COMPARABLE:
                values = {name: values[AP] for name, values in grid.models(section).items()}
                yield from best_claim("Table 2: best AP of all models", f"{grid.title}, {section}", values)

    def summary(self, table: Table) -> Grid | None:
        lines = [
            Line(f"{grid.title}, {section}", values)
            for grid in table.grids
            for section in COMPARABLE
            for name, values in grid.models(section).items()
            if name == MODEL
        ]
        return Grid(f"{MODEL}: link prediction", "dataset", tuple(METRICS), tuple(lines)) if lines else None


def _lines(dataset: str, rows: Sequence[Row], section: str) -> Iterator[Line]:
    for row in rows:
        model = row.recipe.model
        if section == "inductive" and not model_class(model).inductive:
            continue
        values = tuple(_value(dataset, row, section, metric) for metric in METRICS.values())
        variant = row.recipe.variant != PLAIN
        yield Line(row.label, values, section, heuristic=not row.learns, variant=variant)


def _value(dataset: str, row: Row, section: str, metric: str) -> Value:
    published_as = row.recipe.model if row.recipe.variant == PLAIN else ""
    theirs = published("table2", section, published_as, dataset, metric)
    return Value(percent(getattr(row.selection(COMPARABLE[section]), metric)), theirs, row.seeds)
