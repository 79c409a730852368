"""Notes that several tables and figures share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from contig.models import model_class
from contig.reproduction.items.base import Group, finished_seeds
from contig.reproduction.paper import paper
from contig.reproduction.study import Study
from contig.reproduction.tables.layout import DELTA
from contig.tasks.link import LinkProtocol

NO_CURVES = "The paper shows its curves only as an image; only numbers from its text are compared."
NO_NUMBERS = (
    "The paper shows these results only as an image: there are no published numbers to compare them with."
)


def seeds_note(groups: Sequence[Group]) -> str:
    """Say what is averaged: how many seeds, by dataset and model where their numbers differ."""
    counts = finished_seeds(groups)
    numbers = {seeds for models in counts.values() for seeds in models.values()}
    if numbers == {1}:
        return "One seed."
    if len(numbers) == 1:
        return f"Mean ± standard deviation over {numbers.pop()} seeds."
    if not numbers:
        return "Mean ± standard deviation over seeds."
    alike: dict[tuple[int, str], list[str]] = {}
    for dataset, models in counts.items():
        alike.setdefault(_seeds(models), []).append(dataset)
    parts = [
        f"{usual}{f' on {listed(datasets)}' if len(counts) > 1 else ''}{others}"
        for (usual, others), datasets in alike.items()
    ]
    return f"Mean ± standard deviation over seeds: {'; '.join(parts)}."


def _seeds(models: Mapping[str, int]) -> tuple[int, str]:
    """Return the usual number of seeds, and a phrase for the models with other numbers."""
    tally = Counter(models.values())
    usual = min(tally, key=lambda seeds: (-tally[seeds], seeds))
    others = [
        f"{seeds} for {', '.join(name for name in models if models[name] == seeds)}"
        for seeds in sorted(set(tally) - {usual})
    ]
    return usual, f", but {listed(others)}" if others else ""


def listed(names: Sequence[str]) -> str:
    """Join names by commas, the last by "and"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def difference_note() -> str:
    """Explain the columns of the paper."""
    return f"{DELTA}: ours minus the paper's, which is a mean over {paper().runs} runs."


def inductive_note() -> str:
    """Say by which protocol inductive events are measured."""
    return "Inductive events have negatives among themselves, as in DyGLib and the published tables."


PUBLISHED_NEGATIVES_TEXT = (
    "In Tables 2 and 4 a negative may be a true event, as in TGN's code and DyGLib (negatives=random-any)."
)


def published_negatives_notes() -> list[str]:
    """Say how negatives are drawn where published figures are compared."""
    return ["Negatives may be true events, as in the published tables (random-any).", inductive_note()]


def known_nodes_notes(study: Study, events: str = LinkProtocol.KNOWN) -> list[str]:
    """Name the models that cannot score new nodes, if any, and the events they are measured on."""
    names = [name for name in study.models if not model_class(name).inductive]
    if not names:
        return []
    return [
        f"{', '.join(names)}: measured only on test {events}, because these models cannot score new nodes. "
        "They are not ranked, and no claim is judged by them."
    ]


def claim_note(item: str) -> str:
    """Quote the claim of an item that has no published numbers."""
    return f"The paper's claim: {paper().items[item].claim}."
