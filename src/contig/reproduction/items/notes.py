"""Notes that several tables and figures share."""

from __future__ import annotations

from collections.abc import Sequence

from contig.models import model_class
from contig.reproduction.items.base import Group, finished_seeds
from contig.reproduction.paper import paper
from contig.reproduction.study import Study
from contig.reproduction.tables.layout import DELTA

NO_CURVES = "The paper shows its curves only as an image; only numbers from its text are compared."


def seeds_note(groups: Sequence[Group]) -> str:
    """Say what is averaged; what was run more often is named."""
    counts = finished_seeds(groups)
    seeds = min(counts.values(), default=0)
    more = [f"{name} ({count})" for name, count in counts.items() if count > seeds]
    if not counts:
        return "Mean ± standard deviation over seeds."
    mean = f"Mean ± standard deviation over {seeds} seeds" if seeds > 1 else "One seed"
    return f"{mean}, more for {', '.join(more)}." if more else f"{mean}."


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


def known_nodes_notes(study: Study) -> list[str]:
    """Name the models that cannot score new nodes, if any."""
    names = [name for name in study.models if not model_class(name).inductive]
    if not names:
        return []
    return [
        f"{', '.join(names)}: measured only on test events between nodes seen in training, because these "
        "models cannot score new nodes."
    ]


def claim_note(item: str) -> str:
    """Quote the claim of an item that has no published numbers."""
    return f"The paper's claim: {paper().items[item].claim}."
