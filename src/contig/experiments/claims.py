"""The paper's claims about its model, each beside what was found: where it holds, and where it does not.

Two numbers differ where their difference exceeds both deviations together; else the question is open. All
is read from the tables, so a claim is there where its numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import NamedTuple

from contig.experiments.findings import OPTIONS
from contig.experiments.grids import Cell, Line, Sheet, Table, Value, Words
from contig.experiments.paper import paper
from contig.experiments.rows import SELECTIONS, Spread
from contig.experiments.studies import FOCUS, RIVAL
from contig.tasks.intervals import SETS

HOLDS, BETTER, PARTLY, OPEN, FAILS = "holds", "better here", "in part", "within the spread", "does not hold"
KINDS = {HOLDS: "up", BETTER: "up", PARTLY: "even", OPEN: "even", FAILS: "down"}
LINEAR = 0.05  # an exponent so close to 1 is called linear


class Claim(NamedTuple):
    """What the paper says of its model on a stream, what was found, and whether it holds."""

    what: str  # the table or figure, and the question
    where: str
    said: str
    found: str
    verdict: str


def claims(tables: Sequence[Table]) -> Sheet:
    """A line for each claim that the tables have the numbers of."""
    makers = {
        **{"table2": _link_prediction, "table3": _classification, "table4": _ablations},
        **{"fig3": _recommendation, "fig4": _intervals, "fig5": _sensitivity, "fig6": _growth},
    }
    found = [claim for table in tables for claim in makers[table.name](table)]
    lines = [
        (c.what, c.where, (Cell(c.said), Cell(c.found), Cell(c.verdict, KINDS[c.verdict]))) for c in found
    ]
    words = Words(f"what the paper says of {FOCUS}", "where", ("paper", "here", "verdict"), tuple(lines))
    notes = (
        "Numbers differ where their difference exceeds both standard deviations together.",
        "A place is among the models that have a number here and in the paper; rules are not counted.",
    )
    warning = next((table.warning for table in tables if table.warning), "")
    return Sheet("claims", "At a glance: the paper's claims", (words,) if lines else (), notes, warning)


def _verdict(ours: Spread, other: Spread, said_above: bool = True) -> str:
    """Whether ours is above the other, as the paper says or does not say."""
    found = Value(ours, other).verdict
    if found == "up":
        return HOLDS if said_above else BETTER
    return OPEN if found == "even" else FAILS if said_above else HOLDS


def _together(verdicts: Sequence[str]) -> str:
    """Of a claim that all of them should hold."""
    if FAILS in verdicts:
        return FAILS
    held = verdicts.count(HOLDS)
    return HOLDS if held == len(verdicts) else PARTLY if held else OPEN


# --- the best of all models --------------------------------------------------------------------------


def _link_prediction(table: Table) -> Iterator[Claim]:
    for grid in table.grids:
        for task in SELECTIONS:
            lines = [line for line in grid.lines if line.section == task]
            where = f"{grid.title}, {task}"
            yield from _best("Table 2: best AP of all models", where, lines, grid.columns.index("AP"))


def _classification(table: Table) -> Iterator[Claim]:
    for grid in table.grids:
        for column, stream in enumerate(grid.columns):
            yield from _best("Table 3: best AUC of all models", stream, grid.lines, column)


def _best(what: str, where: str, lines: Sequence[Line], column: int) -> Iterator[Claim]:
    values = {line.label: line.values[column] for line in lines}
    both = {name: v for name, v in values.items() if not isnan(v.difference)}
    ours = both.pop(FOCUS, None)
    if ours is None or not both:
        return
    rival_here = max(both, key=lambda name: both[name].here.mean)
    rival_there = max(both, key=lambda name: both[name].paper.mean)
    said_above = ours.paper.mean > both[rival_there].paper.mean
    yield Claim(
        what,
        where,
        _place(ours.paper.mean, {name: v.paper.mean for name, v in both.items()}, rival_there),
        _place(ours.here.mean, {name: v.here.mean for name, v in both.items()}, rival_here),
        _verdict(ours.here, both[rival_here].here, said_above),
    )


def _place(ours: float, others: dict[str, float], rival: str) -> str:
    place = 1 + sum(other > ours for other in others.values())
    return f"{place} of {len(others) + 1}; {ours - others[rival]:+.2f} to {rival}"


# --- against the rival -------------------------------------------------------------------------------


def _recommendation(table: Table) -> Iterator[Claim]:
    gains = {
        line.label: line.values[0] for grid in table.grids if grid.columns == ("gain",) for line in grid.lines
    }
    for grid in table.grids:
        both = {line.label: line.values[0].here for line in grid.lines if line.label in (FOCUS, RIVAL)}
        gain = gains.get(grid.title)
        if gain is not None and not isnan(gain.paper.mean):
            yield Claim(
                f"Fig. 3: Recall@5 above {RIVAL}'s",
                grid.title,
                f"{gain.paper.mean:+.2f}%",
                f"{gain.here.mean:+.2f}%",
                _verdict(both[FOCUS], both[RIVAL]),
            )


def _intervals(table: Table) -> Iterator[Claim]:
    for grid in table.grids:
        for task in SELECTIONS:
            both = {line.label: line.values for line in grid.lines if line.section == task}
            if not {FOCUS, RIVAL} <= set(both):
                continue
            pairs = [(ours.here, theirs.here) for ours, theirs in zip(both[FOCUS], both[RIVAL], strict=True)]
            verdicts = [_verdict(*pair) for pair in pairs]
            leads = [f"{a.mean - b.mean:+.2f} in {n}" for n, (a, b) in zip(SETS, pairs, strict=True)]
            yield Claim(
                f"Fig. 4: AP above {RIVAL}'s, most in the longest intervals",
                f"{grid.title}, {task}",
                f"in all {len(SETS)} sets",
                f"in {verdicts.count(HOLDS)} of {len(SETS)} sets; {', '.join(leads[-2:])}",
                _together(verdicts),
            )


# --- the model's parts and options -------------------------------------------------------------------


def _ablations(table: Table) -> Iterator[Claim]:
    for grid in table.grids:
        for column, task in enumerate(SELECTIONS):
            values = {line.label: line.values[column] for line in grid.lines}
            full = values.pop(FOCUS, None)
            if full is None or not values:
                continue
            said = [name for name, v in values.items() if full.paper.mean > v.paper.mean]
            verdicts = {name: _verdict(full.here, v.here) for name, v in values.items()}
            helped = [name.removeprefix("without ") for name, v in verdicts.items() if v == HOLDS]
            yield Claim(
                "Table 4: every part helps",
                f"{grid.title}, {task}",
                f"{len(said)} of {len(values)}",
                f"{len(helped)} of {len(values)}" + (f": {', '.join(helped)}" if helped else ""),
                _together(list(verdicts.values())),
            )


def _sensitivity(table: Table) -> Iterator[Claim]:
    """The paper goes on with the settings that it found best."""
    for grid in table.grids:
        chosen = {option: f"{symbol} = {paper()['settings'][option]:g}" for option, symbol in OPTIONS.items()}
        better = []
        options = [option for option in chosen if any(line.section == option for line in grid.lines)]
        for option in options:
            values = {line.label: line.values[0].here for line in grid.lines if line.section == option}
            best = max(values, key=lambda label: values[label].mean)
            if chosen[option] in values and _verdict(values[best], values[chosen[option]]) == HOLDS:
                better.append(f"{best} is better")
        yield Claim(
            "Fig. 5: the paper's settings are the best",
            f"{grid.title}, {SELECTIONS[0]}",
            ", ".join(chosen[option] for option in options),
            "none is better by more than the spread" if not better else ", ".join(better),
            HOLDS if not better else PARTLY if len(better) < len(options) else FAILS,
        )


def _growth(table: Table) -> Iterator[Claim]:
    for line in (line for grid in table.grids if grid.columns == ("x",) for line in grid.lines):
        law = line.values[0].here
        error = "" if isnan(law.std) else f" ± {law.std:.3f}"
        linear = abs(law.mean - 1) <= LINEAR
        yield Claim(
            "Fig. 6: the time of an epoch is linear in its events",
            f"synthetic, {line.label}",
            "close to 1",
            f"power {law.mean:.3f}{error}",
            HOLDS if linear else FAILS,
        )
