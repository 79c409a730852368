"""Table 2: link prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contig.models import model_class
from contig.reproduction.claims import Claim, best_claim
from contig.reproduction.items.base import Group
from contig.reproduction.items.drawing import draw_pairs, pairs_of
from contig.reproduction.items.evaluated import EvaluatedItem, ModelResults, comparable, finished
from contig.reproduction.items.notes import (
    PUBLISHED_NEGATIVES_TEXT,
    difference_note,
    known_nodes_notes,
    published_negatives_notes,
    seeds_note,
)
from contig.reproduction.paper import COMPARABLE, MODEL, PUBLISHED_NEGATIVES, published
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.tasks.link import LinkResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = {"AUC": "auc", "AP": "ap"}
AP = list(METRICS).index("AP")


@dataclass(frozen=True)
class Table2(EvaluatedItem):
    """AUC and AP of every model on every dataset, transductive and inductive."""

    name = "table2"
    title = "Table 2: link prediction"
    task = "link"
    protocol = (PUBLISHED_NEGATIVES_TEXT,)

    def options(self) -> dict[str, Any]:
        return PUBLISHED_NEGATIVES

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        for group in groups:
            found = finished(group.evaluations, LinkResult)
            lines = [line for section in COMPARABLE for line in _lines(group.dataset, found, section)]
            yield Grid(group.dataset, "model", tuple(METRICS), tuple(lines), rank=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        measured = "AUC and AP in %, averaged over batches: test events against random negatives."
        return [
            measured,
            *published_negatives_notes(),
            seeds_note(groups),
            difference_note(),
            *known_nodes_notes(study),
        ]

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


def _lines(dataset: str, found: Sequence[ModelResults[LinkResult]], section: str) -> Iterator[Line]:
    for one in found:
        if section == "inductive" and not model_class(one.model).inductive:
            continue
        values = tuple(_value(dataset, one, section, metric) for metric in METRICS.values())
        yield one.line(values, section)


def _value(dataset: str, one: ModelResults[LinkResult], section: str, metric: str) -> Value:
    published_as = "" if one.variant else one.model
    theirs = published("table2", section, published_as, dataset, metric)
    return one.value(comparable(section, metric), theirs)
