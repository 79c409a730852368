"""Table 4: ablations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from contig.experiments.recipes import Recipe
from contig.reproduction.claims import UNJUDGED, Claim
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.base import Group
from contig.reproduction.items.drawing import draw_pairs, pairs_of
from contig.reproduction.items.evaluated import EvaluatedItem, ModelResults, comparable, finished
from contig.reproduction.items.notes import PUBLISHED_NEGATIVES_TEXT, published_negatives_notes, seeds_note
from contig.reproduction.items.variants import VariantItem, changed
from contig.reproduction.paper import COMPARABLE, MODEL, PUBLISHED_NEGATIVES, paper, published
from contig.reproduction.study import Study
from contig.reproduction.tables.layout import DELTA
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict, every, higher
from contig.tasks.link import LinkResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTHING = "nothing"  # is removed from the full model
WITHOUT = "without "


@dataclass(frozen=True)
class Table4(EvaluatedItem, VariantItem):
    """AP of the paper's model without each of its components."""

    name = "table4"
    title = "Table 4: ablations"
    task = "link"
    protocol = (PUBLISHED_NEGATIVES_TEXT,)

    def options(self) -> dict[str, Any]:
        return PUBLISHED_NEGATIVES

    def recipes(self, study: Study, dataset: StudyDataset) -> Sequence[Recipe]:
        base = study.base_recipe(dataset)
        parts = [part for part in paper().items["table4"].ablations if part != NOTHING]
        return [*(changed(base, f"{WITHOUT}{part}", without=(part,)) for part in parts), base]

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        columns = tuple(f"AP {section}" for section in COMPARABLE)
        for group in groups:
            found = finished(group.evaluations, LinkResult)
            lines = tuple(_line(group.dataset, one) for one in found)
            yield Grid(group.dataset, "variant", columns, lines, rank=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        return [
            "AP in %, averaged over batches.",
            *published_negatives_notes(),
            seeds_note(groups),
            f"{DELTA}: ours minus the paper's, which is given without deviations; for the full model the "
            "paper has other numbers here than in Table 2.",
        ]

    def legend(self) -> list[str]:
        return [
            "Without transform: no attention over past events. Without update: no ODE. Without adaptive: the "
            "ODE adds up its three factors, with no gates. Without latest, neighbor or inherent: the ODE "
            "lacks that factor (the latest interaction, the neighbors' features, the node's inherent "
            "characteristics)."
        ]

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        panels = {
            f"{grid.title}, {section}": pairs_of(grid.lines, column)
            for grid in table.grids
            for column, section in enumerate(COMPARABLE)
        }
        return draw_pairs(panels, title, facts, "AP, %")

    def claims(self, table: Table) -> Iterator[Claim]:
        for grid in self.shown_grids(table):
            for column, section in enumerate(COMPARABLE):
                values = {name: values[column] for name, values in grid.models().items()}
                yield from _claim(f"{grid.title}, {section}", values)


def _line(dataset: str, one: ModelResults[LinkResult]) -> Line:
    part = one.variant.removeprefix(WITHOUT) or NOTHING
    values = (
        one.value(comparable(section, "ap"), published("table4", "without", part, dataset, section))
        for section in COMPARABLE
    )
    return Line(one.variant or MODEL, tuple(values))


def _claim(where: str, values: Mapping[str, Value]) -> Iterator[Claim]:
    """Judge the components whose removal lowers AP in the paper."""
    known = {name: value for name, value in values.items() if not isnan(value.difference)}
    full = known.pop(MODEL, None)
    if full is None:
        return
    claimed = [name for name, value in known.items() if full.paper.mean > value.paper.mean]
    if not claimed:
        return
    verdicts = {name: higher(full.ours, known[name].ours) for name in claimed}
    verdict = every(verdicts.values())
    confirmed = [name for name in claimed if verdicts[name] is Verdict.HOLDS]
    ours = UNJUDGED if verdict is Verdict.ONE_SEED else _parts(confirmed, len(known))
    yield Claim("Table 4: removing a component lowers AP", where, _parts(claimed, len(known)), ours, verdict)


def _parts(names: Sequence[str], total: int) -> str:
    listed = ", ".join(name.removeprefix(WITHOUT) for name in names)
    return f"{len(names)} of {total}" + (f": {listed}" if 0 < len(names) < total else "")
