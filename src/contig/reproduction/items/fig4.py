"""Fig. 4: link prediction by the interval since the source's last event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from contig.experiments.rows import Spread
from contig.models import model_class
from contig.plots import Panel
from contig.reproduction.claims import UNJUDGED, Claim
from contig.reproduction.items.base import Group
from contig.reproduction.items.evaluated import EvaluatedItem, ModelResults, finished
from contig.reproduction.items.model_curves import draw_models
from contig.reproduction.items.notes import NO_NUMBERS, claim_note, known_nodes_notes, seeds_note
from contig.reproduction.paper import BASELINE, MODEL, paper
from contig.reproduction.stats import exact
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict, every, higher, highest, rank
from contig.tasks.intervals import SETS, IntervalResult
from contig.tasks.tables import SELECTIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pairs = Mapping[str, tuple[Spread, Spread]]  # the paper's model and the baseline, by interval set


@dataclass(frozen=True)
class Fig4(EvaluatedItem):
    """AP in five sets of test events, from the shortest intervals to the longest."""

    name = "fig4"
    title = "Fig. 4: link prediction by interval"
    task = "intervals"

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        for group in groups:
            found = finished(group.evaluations, IntervalResult)
            lines = [line for section in SELECTIONS for line in _lines(found, section)]
            yield Grid(group.dataset, "model", SETS, tuple(lines), rank=True)
            leads = [line for section in SELECTIONS for line in _lead(found, section)]
            title = f"{group.dataset}: {MODEL} minus {BASELINE}"
            yield Grid(title, "AP", SETS, tuple(leads), derived=True, signed=True)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        return [
            "AP in % by quantile of the interval: the time since the source's last event.",
            seeds_note(groups),
            *known_nodes_notes(study),
            NO_NUMBERS,
            claim_note(self.name),
        ]

    def legend(self) -> list[str]:
        return [
            f'The paper\'s abstract claims superiority "{paper().items[self.name].abstract}"; its '
            f"Section 5.5 claims it over {BASELINE} alone."
        ]

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        rows = [
            {f"{grid.title}, {section}": grid.section(section) for section in SELECTIONS}
            for grid in table.measured
        ]
        frame = Panel("", (), "quantile of the interval", "AP, %", SETS)
        return draw_models(rows, range(len(SETS)), frame, title, facts, across=2)

    def claims(self, table: Table) -> Iterator[Claim]:
        for grid in self.shown_grids(table):
            for section in SELECTIONS:
                models, where = grid.models(section), f"{grid.title}, {section}"
                if {MODEL, BASELINE} <= set(models):
                    values = zip(SETS, models[MODEL], models[BASELINE], strict=True)
                    pairs = {name: (ours.ours, other.ours) for name, ours, other in values}
                    yield from _claims(where, pairs)
                yield from _best(where, {name: values[-1].ours for name, values in models.items()})


def _ap(section: str, name: str) -> Callable[[IntervalResult], float]:
    return lambda result: float(result.each()[section][name].ap)


def _lines(found: Sequence[ModelResults[IntervalResult]], section: str) -> Iterator[Line]:
    for one in found:
        if section == "transductive" or model_class(one.model).inductive:
            yield one.line((one.value(_ap(section, name)) for name in SETS), section)


def _lead(found: Sequence[ModelResults[IntervalResult]], section: str) -> Iterator[Line]:
    both = {one.label: one for one in found if one.label in (MODEL, BASELINE)}
    if len(both) == 2:
        ours, other = both[MODEL], both[BASELINE]
        aps = [_ap(section, name) for name in SETS]
        gaps = [ours.spread(ap).mean - other.spread(ap).mean for ap in aps]
        seeds = min(len(one.results) for one in both.values())
        yield Line(section, tuple(Value(exact(100 * gap), seeds=seeds) for gap in gaps))


def _claims(where: str, pairs: Pairs) -> Iterator[Claim]:
    leads = {name: ours.mean - other.mean for name, (ours, other) in pairs.items()}
    leads = {name: lead for name, lead in leads.items() if not isnan(lead)}  # a set may be empty
    verdicts = {name: higher(*pairs[name]) for name in leads}
    if leads:
        yield _every_set(where, verdicts)
    if SETS[-1] in leads:
        yield _longest(where, leads, verdicts)


def _every_set(where: str, verdicts: Mapping[str, Verdict]) -> Claim:
    verdict = every(verdicts.values())
    ahead = [name for name, one in verdicts.items() if one is Verdict.HOLDS]
    ours = f"in {len(ahead)} of {len(verdicts)}" + (f": {', '.join(ahead)}" if ahead else "")
    text = f"Fig. 4: higher AP than {BASELINE} in every interval set"
    return Claim(text, where, "in all", UNJUDGED if verdict is Verdict.ONE_SEED else ours, verdict)


def _longest(where: str, leads: Mapping[str, float], verdicts: Mapping[str, Verdict]) -> Claim:
    """Judge that the lead is largest in the last set, where it must be a lead at all."""
    last, largest = SETS[-1], max(leads, key=lambda name: leads[name])
    ours = ", ".join(f"{leads[name]:+.2f} in {name}" for name in list(leads)[-2:])
    undecided = [v for v in (verdicts[last], verdicts[largest]) if v in (Verdict.ONE_SEED, Verdict.OPEN)]
    otherwise = undecided[0] if len(undecided) == 2 else Verdict.FAILS
    verdict = verdicts[last] if last == largest else otherwise
    return Claim(
        f"Fig. 4: largest lead over {BASELINE} at the longest intervals", where, f"in {last}", ours, verdict
    )


def _best(where: str, longest: Mapping[str, Spread]) -> Iterator[Claim]:
    """Judge that the paper's model is the best in the last set, as the paper's abstract says."""
    known = {name: ap for name, ap in longest.items() if not isnan(ap.mean)}
    model = known.pop(MODEL, None)
    if model is not None and known:
        text = "Fig. 4: best AP of all models at the longest intervals"
        yield Claim(text, where, "yes (abstract)", rank(model, known), highest(model, known))
