"""The paper's claims about its model, each beside what was found: where it holds, and where it does not.

Two numbers differ where their difference exceeds both deviations together; else the question is open, as it
is without deviations. All is read from the tables: a claim is there where its numbers are, on the streams
that the paper makes it of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import NamedTuple

from contig.experiments.rows import SELECTIONS, Spread
from contig.reproduction.findings import OPTIONS
from contig.reproduction.grids import RULES, Cell, Grid, Line, Sheet, Table, Value, Words
from contig.reproduction.paper import paper, shown_on
from contig.reproduction.studies import FOCUS, RIVAL
from contig.tasks.intervals import SETS

HOLDS, BETTER, NEITHER, PARTLY = "holds", "better here", "best in neither", "in part"
OPEN, ALONE, FAILS = "within the spread", "one seed, open", "does not hold"
KINDS = {
    HOLDS: "up",
    BETTER: "up",
    NEITHER: "even",
    PARTLY: "even",
    OPEN: "even",
    ALONE: "even",
    FAILS: "down",
}
UNJUDGED = "not judged"  # without deviations
LINEAR = 0.05  # an exponent so close to 1 is called close to linear
FALLING = ("horizon", "neighbors")  # options of which the paper says that AP falls again


class Claim(NamedTuple):
    """What the paper says of its model on a stream, what was found, and whether it holds."""

    what: str  # the table or figure, and the claim
    where: str
    said: str
    found: str
    verdict: str


def claims(tables: Sequence[Table], notes: Sequence[str] = ()) -> Sheet:
    """A line for each claim that the tables have the numbers of, with ``notes`` on how to read them."""
    makers = {
        **{"table2": _link_prediction, "table3": _classification, "table4": _ablations},
        **{"fig3": _recommendation, "fig4": _intervals, "fig5": _sensitivity, "fig6": _growth},
    }
    found = [claim for table in tables for claim in makers[table.name](table)]
    order = list(dict.fromkeys(claim.what for claim in found))
    found.sort(key=lambda claim: order.index(claim.what))
    lines = [
        (c.what, c.where, (Cell(c.said), Cell(c.found), Cell(c.verdict, KINDS[c.verdict]))) for c in found
    ]
    words = Words(f"what the paper says of {FOCUS}", "where", ("paper", "here", "verdict"), tuple(lines))
    notes = (
        *notes,
        "Numbers differ where their difference exceeds both standard deviations together.",
        f"{HOLDS}: all that a claim names differ as it says; {PARTLY}: some do; {OPEN}: none does, so it is "
        f"neither shown nor refuted; {FAILS}: one differs the other way.",
        f"{BETTER}: best of all, where the paper's is not; {NEITHER}: best neither here nor in the paper.",
        "A place is among the models that have a number here and in the paper; rules are not counted.",
        f"Close to linear is a power within {LINEAR:g} of 1.",
    )
    warning = next((table.warning for table in tables if table.warning), "")
    return Sheet("claims", "At a glance: the paper's claims", (words,) if lines else (), notes, warning)


def _above(ours: Spread, other: Spread) -> str:
    """Whether ours is above the other."""
    if isnan(ours.std) or isnan(other.std):
        return ALONE
    return {"up": HOLDS, "even": OPEN, "down": FAILS}[Value(ours, other).verdict]


def _all(verdicts: Sequence[str]) -> str:
    """Of a claim that is made of all of them."""
    for one in (ALONE, FAILS):
        if one in verdicts:
            return one
    held = verdicts.count(HOLDS)
    return HOLDS if held == len(verdicts) else PARTLY if held else OPEN


def _grids(table: Table) -> Iterator[Grid]:
    """Those of the streams that the paper shows."""
    return (grid for grid in table.grids if grid.title in shown_on(table.name))


# --- the best of all models --------------------------------------------------------------------------


def _link_prediction(table: Table) -> Iterator[Claim]:
    for grid in _grids(table):
        for task in SELECTIONS:
            lines = [line for line in grid.lines if line.section == task]
            where = f"{grid.title}, {task}"
            yield from _best("Table 2: best AP of all models", where, lines, grid.columns.index("AP"))


def _classification(table: Table) -> Iterator[Claim]:
    for grid in table.grids:
        for column, stream in enumerate(grid.columns):
            yield from _best("Table 3: best AUC of all models", stream, grid.lines, column)


def _best(what: str, where: str, lines: Sequence[Line], column: int) -> Iterator[Claim]:
    """The paper's model among those that have a number on both sides."""
    values = {line.label: line.values[column] for line in lines}
    both = {name: value for name, value in values.items() if not isnan(value.difference)}
    ours = both.pop(FOCUS, None)
    if ours is None or not both:
        return
    here = {name: value.here for name, value in both.items()}
    there = {name: value.paper for name, value in both.items()}
    verdict = _best_of_all(ours.here, here)
    if any(other.mean > ours.paper.mean for other in there.values()):  # the paper does not say so
        verdict = {HOLDS: BETTER, FAILS: NEITHER}.get(verdict, verdict)
    yield Claim(what, where, _place(ours.paper, there), _place(ours.here, here), verdict)


def _best_of_all(ours: Spread, others: Mapping[str, Spread]) -> str:
    """Best is what is above every other; one above it is enough to refute that."""
    verdict = _all([_above(ours, other) for other in others.values()])
    return OPEN if verdict == PARTLY else verdict


def _place(ours: Spread, others: Mapping[str, Spread]) -> str:
    rival = max(others, key=lambda name: others[name].mean)
    place = 1 + sum(other.mean > ours.mean for other in others.values())
    return f"{place} of {len(others) + 1}; {ours.mean - others[rival].mean:+.2f} to {rival}"


# --- against the rival -------------------------------------------------------------------------------


def _recommendation(table: Table) -> Iterator[Claim]:
    gains = {
        line.label: line.values[0] for grid in table.grids if grid.columns == ("gain",) for line in grid.lines
    }
    for grid in _grids(table):
        learned = {line.label: line.values[0].here for line in grid.lines if line.section != RULES}
        others = {name: found for name, found in learned.items() if name != FOCUS}
        if FOCUS not in learned or not others or any(isnan(s.mean) for s in learned.values()):
            continue
        ours = learned[FOCUS]
        what = "Fig. 3: best Recall@5 of all models"
        yield Claim(what, grid.title, "yes", _place(ours, others), _best_of_all(ours, others))
        if grid.title in gains:
            gain = gains[grid.title]
            said, found = (f"by {x.mean:+.2f}%" for x in (gain.paper, gain.here))
            verdict = _above(ours, others[RIVAL])
            yield Claim(f"Fig. 3: Recall@5 above {RIVAL}'s", grid.title, said, found, verdict)


def _intervals(table: Table) -> Iterator[Claim]:
    for grid in _grids(table):
        for task in SELECTIONS:
            both = {line.label: line.values for line in grid.lines if line.section == task}
            if {FOCUS, RIVAL} <= set(both):
                values = zip(SETS, both[FOCUS], both[RIVAL], strict=True)
                pairs = {name: (ours.here, theirs.here) for name, ours, theirs in values}
                yield from _leads(f"{grid.title}, {task}", pairs)


def _leads(where: str, pairs: Mapping[str, tuple[Spread, Spread]]) -> Iterator[Claim]:
    leads = {name: ours.mean - theirs.mean for name, (ours, theirs) in pairs.items()}
    leads = {name: lead for name, lead in leads.items() if not isnan(lead)}  # a set may be empty
    verdicts = {name: _above(*pairs[name]) for name in leads}
    above = [name for name, verdict in verdicts.items() if verdict == HOLDS]
    if leads:
        every = _all(list(verdicts.values()))
        found = f"in {len(above)} of {len(leads)}" + (f": {', '.join(above)}" if above else "")
        found = UNJUDGED if every == ALONE else found
        yield Claim(f"Fig. 4: AP above {RIVAL}'s in every set", where, "in all", found, every)
    if (last := SETS[-1]) in leads:
        most = max(leads, key=lambda name: leads[name])
        found = ", ".join(f"{leads[name]:+.2f} in {name}" for name in list(leads)[-2:])
        what = "Fig. 4: the lead is largest in the longest intervals"
        open_ones = [verdict for verdict in (verdicts[last], verdicts[most]) if verdict in (ALONE, OPEN)]
        other = open_ones[0] if len(open_ones) == 2 else FAILS
        yield Claim(what, where, f"in {last}", found, verdicts[last] if last == most else other)


# --- the model's parts and options -------------------------------------------------------------------


def _ablations(table: Table) -> Iterator[Claim]:
    for grid in _grids(table):
        for column, task in enumerate(SELECTIONS):
            values = {line.label: line.values[column] for line in grid.lines}
            known = {name: value for name, value in values.items() if not isnan(value.difference)}
            full = known.pop(FOCUS, None)
            said = [name for name, v in known.items() if full and full.paper.mean > v.paper.mean]
            if full is None or not said:
                continue
            verdicts = {name: _above(full.here, known[name].here) for name in said}
            verdict = _all(list(verdicts.values()))
            helped = [name for name in said if verdicts[name] == HOLDS]
            yield Claim(
                "Table 4: without a part AP is lower",
                f"{grid.title}, {task}",
                _parts(said, len(known)),
                UNJUDGED if verdict == ALONE else _parts(helped, len(known)),
                verdict,
            )


def _parts(names: Sequence[str], of: int) -> str:
    told = ", ".join(name.removeprefix("without ") for name in names)
    return f"{len(names)} of {of}" + (f": {told}" if 0 < len(names) < of else "")


def _sensitivity(table: Table) -> Iterator[Claim]:
    """The paper goes on with the settings that it finds best; each curve is told by its ends."""
    settings = paper()["settings"]
    for grid in _grids(table):
        curves = {
            option: {line.label: line.values[0].here for line in grid.lines if line.section == option}
            for option in OPTIONS
        }
        chosen = {option: f"{symbol} = {settings[option]:g}" for option, symbol in OPTIONS.items()}
        swept = {o: curve for o, curve in curves.items() if chosen[o] in curve and len(curve) > 1}
        if not swept:
            continue
        best = {option: swept[option][chosen[option]] for option in swept}
        where = f"{grid.title}, {SELECTIONS[0]}"
        beaten = [label for o in swept for label, s in swept[o].items() if _above(s, best[o]) == HOLDS]
        alone = any(isnan(spread.std) for curve in swept.values() for spread in curve.values())
        yield Claim(
            "Fig. 5: no other value is better than the paper's",
            where,
            ", ".join(chosen[option] for option in swept),
            UNJUDGED if alone else f"{', '.join(beaten)} is" if beaten else "none is",
            ALONE if alone else FAILS if beaten else HOLDS,
        )
        rises = {o: (best[o], first) for o, (first, *_) in _ends(swept) if first is not best[o]}
        falls = {o: (best[o], last) for o, (*_, last) in _ends(swept) if last is not best[o] and o in FALLING}
        yield from _slope("Fig. 5: AP rises up to the paper's value", where, rises)
        yield from _slope("Fig. 5: AP falls again behind it", where, falls)


def _ends(curves: Mapping[str, Mapping[str, Spread]]) -> Iterator[tuple[str, list[Spread]]]:
    return ((option, list(curve.values())) for option, curve in curves.items())


def _slope(what: str, where: str, pairs: Mapping[str, tuple[Spread, Spread]]) -> Iterator[Claim]:
    """Whether AP is higher at the paper's value than at an end of the curve, for each option."""
    verdicts = {OPTIONS[option]: _above(*pair) for option, pair in pairs.items()}
    if verdicts:
        verdict = _all(list(verdicts.values()))
        seen = ", ".join(symbol for symbol, one in verdicts.items() if one == HOLDS) or "none"
        yield Claim(what, where, ", ".join(verdicts), UNJUDGED if verdict == ALONE else seen, verdict)


def _growth(table: Table) -> Iterator[Claim]:
    for line in (line for grid in table.grids if grid.columns == ("x",) for line in grid.lines):
        law = line.values[0].here
        known = law.std <= LINEAR  # not so for two sizes alone, which have no error
        yield Claim(
            "Fig. 6: the time of an epoch is close to linear in its events",
            f"synthetic, {line.label}",
            "close to 1",
            f"power {law.mean:.3f}" + ("" if isnan(law.std) else f" ± {law.std:.3f}"),
            OPEN if not known else HOLDS if abs(law.mean - 1) <= LINEAR else FAILS,
        )
