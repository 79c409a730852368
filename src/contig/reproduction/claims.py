"""The paper's claims about its model, each with our result and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import NamedTuple

from contig.experiments.rows import Spread
from contig.models import model_class
from contig.reproduction.paper import MODEL, published_models
from contig.reproduction.tables.layout import Cell, Layout, Row, Sheet
from contig.reproduction.tables.numbers import Grid
from contig.reproduction.verdicts import Verdict, highest, place, rank

UNJUDGED = "needs more seeds"

NOTES = (
    "Two numbers differ if their means are further apart than the sum of their standard deviations.",
    f'"{Verdict.HOLDS}": every comparison the claim makes comes out as stated; "{Verdict.PARTLY}": some do; '
    f'"{Verdict.OPEN}": the numbers are too close to decide; "{Verdict.FAILS}": at least one comparison '
    "comes out the other way.",
    f'"{Verdict.ONLY_HERE}": the model is best here but not in the paper; "{Verdict.NEITHER}": it is best '
    "neither here nor in the paper.",
    f'"{Verdict.ONE_SEED}": not judged, because one seed has no standard deviation.',
    "Ranks in Tables 2 and 3 are among the models with a number both here and in the paper, those in Fig. 3 "
    "and 4 among all models here; heuristics and variants of a model are not counted.",
)


class Claim(NamedTuple):
    """What the paper says about its model, what we found, and whether it holds."""

    text: str  # starts with the table or figure
    where: str
    paper: str
    ours: str
    verdict: Verdict


def best_claim(text: str, where: str, grid: Grid, column: int, section: str = "") -> Iterator[Claim]:
    """Judge that the paper's model is the best of those with a number here and in the paper."""
    values = {name: values[column] for name, values in grid.models(section).items()}
    both = {name: value for name, value in values.items() if not isnan(value.difference)}
    model = both.pop(MODEL, None)
    if model is None or not both:
        return
    ours = {name: value.ours for name, value in both.items()}
    theirs = {name: value.paper for name, value in both.items()}
    verdict = highest(model.ours, ours)
    if any(other.mean > model.paper.mean for other in theirs.values()):  # not best in the paper either
        verdict = {Verdict.HOLDS: Verdict.ONLY_HERE, Verdict.FAILS: Verdict.NEITHER}.get(verdict, verdict)
    left_out = {name: values[column].paper for name, values in grid.on_other_events(section).items()}
    yield Claim(text, where, _published_rank(model.paper, theirs, left_out), rank(model.ours, ours), verdict)


def _published_rank(value: Spread, others: Mapping[str, Spread], left_out: Mapping[str, Spread]) -> str:
    """Describe the rank in the paper; add the one that counts models that are left out, if it differs."""
    text, added = rank(value, others), {n: other for n, other in left_out.items() if not isnan(other.mean)}
    every = {**others, **added}
    if place(value, every) == place(value, others):
        return text
    return f"{text} ({place(value, every)} of {len(every) + 1} with {', '.join(added)})"


def claims_sheet(claims: Sequence[Claim], notes: Sequence[str] = (), warning: str = "") -> Sheet:
    """Arrange claims for printing, those with the same text together; ``notes`` come first."""
    order = list(dict.fromkeys(claim.text for claim in claims))
    ordered = sorted(claims, key=lambda claim: order.index(claim.text))
    header = ("claim", "paper", "ours", "verdict")
    layout = Layout(
        f"What the paper claims about {MODEL}",
        header,
        tuple(map(_row, ordered)),
        tuple(map(_record, ordered)),
        prose=True,
    )
    layouts = (layout,) if claims else ()
    notes = (*notes, *NOTES, _left_out_note())
    return Sheet("claims", "Summary: the paper's claims", layouts, notes, warning)


def _left_out_note() -> str:
    names = [name for name in published_models() if not model_class(name).inductive]
    return (
        f"Models that cannot score new nodes ({', '.join(names)}) are measured on other test events here, so "
        "no rank and no verdict counts them, and neither does the rank in the paper; where they change that "
        "rank, it is added in brackets."
    )


def _row(claim: Claim) -> Row:
    cells = (Cell(claim.paper), Cell(claim.ours), Cell(claim.verdict.value, claim.verdict.style))
    return Row(claim.text, claim.where, cells)


def _record(claim: Claim) -> dict[str, str]:
    return {
        "section": claim.text,
        "label": claim.where,
        "paper": claim.paper,
        "ours": claim.ours,
        "verdict": claim.verdict.value,
    }
