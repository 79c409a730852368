"""Table 3: dynamic node classification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from contig.models import model_class
from contig.reproduction.claims import Claim, best_claim
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.base import Group
from contig.reproduction.items.drawing import draw_pairs, pairs_of
from contig.reproduction.items.evaluated import EvaluatedItem, ModelResults, finished
from contig.reproduction.items.notes import difference_note, known_nodes_notes, seeds_note
from contig.reproduction.paper import published
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Table, Value
from contig.tasks.classify import ClassifyProtocol, ClassifyResult, LabelMetrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 10  # fewer positive events are too few for an AUC

Results = Mapping[str, Sequence[ModelResults[ClassifyResult]]]  # by dataset


@dataclass(frozen=True)
class Table3(EvaluatedItem):
    """AUC of the event labels, a column for each dataset."""

    name = "table3"
    title = "Table 3: dynamic node classification"
    task = "classify"
    protocol = (
        "Classification trains a three-layer decoder on the frozen embedding of the source, with balanced "
        "classes and early stopping on validation.",
    )

    decoders: int = 5  # trained on each run

    def quick(self) -> Self:
        return replace(self, decoders=1)

    def applies_to(self, dataset: StudyDataset) -> bool:
        return dataset.labeled

    def notices(self, study: Study) -> Iterator[str]:
        if not any(dataset.labeled for dataset in study.datasets):
            names = ", ".join(dataset.name for dataset in study.datasets)
            yield f"table3 is skipped: {names} has no labels"

    def models(self, study: Study) -> Sequence[str]:
        """Return the models that learn: only these have embeddings to classify by."""
        return [name for name in study.models if model_class(name).learns]

    def options(self) -> dict[str, Any]:
        return {"seeds": self.decoders}

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        found = _results(groups)
        models = {one.label: one for some in found.values() for one in some}
        lines = [
            one.line(_value(some, label, name) for name, some in found.items())
            for label, one in models.items()
        ]
        yield Grid("labeled datasets", "model", tuple(found), tuple(lines), rank=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        found = _results(groups)
        notes = ["ROC AUC of the labels of test events in %, by a decoder on frozen embeddings."]
        notes += [seeds_note(groups), difference_note()]
        notes += [*known_nodes_notes(study, ClassifyProtocol.KNOWN), *_label_counts(found)]
        decoders = {r.protocol.decoder_seeds for some in found.values() for one in some for r in one.results}
        if decoders:
            notes.append(f"The AUC of a run is the mean of {max(decoders)} decoders; ± is over runs.")
        return notes

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        panels = {
            dataset: pairs_of(grid.lines, column)
            for grid in table.grids
            for column, dataset in enumerate(grid.columns)
        }
        return draw_pairs(panels, title, facts, "AUC, %")

    def claims(self, table: Table) -> Iterator[Claim]:
        for grid in table.grids:
            for column, dataset in enumerate(grid.columns):
                yield from best_claim("Table 3: best AUC of all models", dataset, grid, column)


def _results(groups: Sequence[Group]) -> Results:
    found = {group.dataset: finished(group.evaluations, ClassifyResult) for group in groups}
    return {dataset: some for dataset, some in found.items() if some}


def _value(some: Sequence[ModelResults[ClassifyResult]], label: str, dataset: str) -> Value:
    theirs = published("table3", "auc", label, dataset)  # none for a variant
    ours = [one for one in some if one.label == label]
    if not ours or _measured(ours[0]).positives < FEW:
        return Value(paper=theirs)
    return ours[0].value(lambda result: result.transductive.auc, theirs)


def _measured(one: ModelResults[ClassifyResult]) -> LabelMetrics:
    """Return the metrics of the first run; its numbers of events are those of every seed."""
    return one.results[0].transductive


def _label_counts(found: Results) -> list[str]:
    """Count the test events with label 1, and those among them that models without new nodes can use."""
    notes = []
    for inductive, which in ((True, "events"), (False, ClassifyProtocol.KNOWN)):
        measured = {
            dataset: _measured(one)
            for dataset, some in found.items()
            for one in reversed(some)
            if model_class(one.model).inductive is inductive
        }
        counts = [f"{_count(test)} on {dataset}" for dataset, test in measured.items()]
        if counts:
            notes.append(f"Label 1 among test {which}: {', '.join(counts)}.")
    return notes


def _count(test: LabelMetrics) -> str:
    few = " (too few for an AUC)" if test.positives < FEW else ""
    return f"{test.positives:,} of {test.events:,}{few}"
