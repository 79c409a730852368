"""Verdicts on the paper's claims, from tables whose numbers are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from pathlib import Path

import pytest
from studied import fill, planned

from contig.experiments.claims import BETTER, FAILS, HOLDS, OPEN, PARTLY, Claim, claims
from contig.experiments.findings import tables
from contig.experiments.grids import Grid, Line, Table, Value, Words
from contig.experiments.rows import Spread
from contig.tasks.intervals import SETS

Numbers = tuple[float, float]


def claimed(table: Table) -> list[Claim]:
    [words] = claims([table]).grids
    assert isinstance(words, Words)
    return [Claim(what, where, *(cell.text for cell in cells)) for what, where, cells in words.lines]


def ranked(models: Mapping[str, tuple[Numbers, float]], section: str = "inductive") -> Table:
    """Table 2 on one stream: of each model AP with deviation here, and the paper's AP."""
    lines = [
        Line(name, (Value(), Value(Spread(*here), Spread(theirs, 0.1), 3)), section)
        for name, (here, theirs) in models.items()
    ]
    rule = Line("edgebank", (Value(), Value(Spread(99.0, nan), seeds=1)), f"{section}, rules")
    return Table("table2", "Table 2", (Grid("mooc", "model", ("AUC", "AP"), (*lines, rule)),))


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "found"),
    [
        (((90.0, 0.5), 80.0), ((88.0, 0.5), 79.0), HOLDS, "1 of 3; +2.00 to tgn"),
        (((90.0, 0.5), 80.0), ((89.5, 0.5), 79.0), OPEN, "1 of 3; +0.50 to tgn"),
        (((90.0, 0.5), 80.0), ((90.5, 0.5), 79.0), OPEN, "2 of 3; -0.50 to tgn"),
        (((90.0, 0.5), 80.0), ((92.0, 0.5), 79.0), FAILS, "2 of 3; -2.00 to tgn"),
        (((90.0, 0.5), 78.0), ((88.0, 0.5), 79.0), BETTER, "1 of 3; +2.00 to tgn"),
        (((90.0, 0.5), 78.0), ((92.0, 0.5), 79.0), HOLDS, "2 of 3; -2.00 to tgn"),
    ],
)
def test_the_best_of_all_models(
    ours: tuple[Numbers, float], theirs: tuple[Numbers, float], verdict: str, found: str
) -> None:
    """The rule with 99 does not count, nor does a model without a number in the paper."""
    models = {"contig": ours, "tgn": theirs, "gae": ((50.0, 9.0), 20.0), "vgae": ((95.0, 0.1), nan)}
    [claim] = claimed(ranked(models))
    assert (claim.where, claim.verdict, claim.found) == ("mooc, inductive", verdict, found)
    place = 1 if ours[1] > theirs[1] else 2
    assert claim.said == f"{place} of 3; {ours[1] - theirs[1]:+.2f} to tgn"


def test_the_best_is_sought_on_each_side_by_itself() -> None:
    models = {"contig": ((90.0, 0.1), 80.0), "tgn": ((80.0, 0.1), 79.0), "gat": ((91.0, 0.1), 60.0)}
    [claim] = claimed(ranked(models))
    assert (claim.said, claim.found) == ("1 of 3; +1.00 to tgn", "2 of 3; -1.00 to gat")
    assert claim.verdict == FAILS


def test_nothing_is_claimed_without_the_numbers() -> None:
    for models in (
        {"contig": ((90.0, 0.1), 80.0)},
        {"tgn": ((90.0, 0.1), 80.0), "gat": ((91.0, 0.1), 60.0)},
        {"contig": ((90.0, 0.1), nan), "tgn": ((80.0, 0.1), 79.0)},
        {"contig": ((nan, nan), 80.0), "tgn": ((80.0, 0.1), 79.0)},
    ):
        assert claims([ranked(models)]).grids == ()


def values(*means: float) -> tuple[Value, ...]:
    return tuple(Value(Spread(mean, 0.5), seeds=3) for mean in means)


@pytest.mark.parametrize(
    ("ours", "verdict", "sets"),
    [
        ((92, 93, 94, 95, 96), HOLDS, 5),
        ((90, 90, 90, 90, 96), PARTLY, 1),
        ((90, 90, 90, 90, 90.9), OPEN, 0),
        ((96, 90, 90, 90, 88), FAILS, 1),
    ],
)
def test_intervals(ours: tuple[float, ...], verdict: str, sets: int) -> None:
    lines = (Line("contig", values(*ours), "transductive"), Line("tgn", values(*[90] * 5), "transductive"))
    grids = (Grid("wikipedia", "model", SETS, lines, rank=True),)
    [claim] = claimed(Table("fig4", "Fig. 4", grids))
    assert claim.verdict == verdict
    last = ", ".join(f"{mean - 90:+.2f} in {name}" for name, mean in list(zip(SETS, ours, strict=True))[3:])
    assert claim.found == f"in {sets} of 5 sets; {last}"


@pytest.mark.parametrize(("tgn", "verdict"), [(85.0, HOLDS), (89.5, OPEN), (95.0, FAILS)])
def test_recommendation(tgn: float, verdict: str) -> None:
    lines = (Line("contig", values(90, 1)), Line("tgn", values(tgn, 99)))
    gain = Value(Spread(100 * (90 / tgn - 1), nan), Spread(3.25, nan), 3)
    grids = (
        Grid("wikipedia", "model", ("R@5", "R@10"), lines, rank=True),
        Grid("own", "model", ("R@5", "R@10"), lines, rank=True),  # of which the paper says nothing
        Grid("gain", "stream", ("gain",), (Line("wikipedia", (gain,)),)),
    )
    [claim] = claimed(Table("fig3", "Fig. 3", grids))
    assert (claim.said, claim.verdict) == ("+3.25%", verdict)
    assert claim.found == f"{100 * (90 / tgn - 1):+.2f}%"


@pytest.mark.parametrize(
    ("without", "verdict", "found"),
    [
        ((80, 85), HOLDS, "2 of 2: update, latest"),
        ((80, 89.5), PARTLY, "1 of 2: update"),
        ((89.5, 90.5), OPEN, "0 of 2"),
        ((80, 95), FAILS, "1 of 2: update"),
    ],
)
def test_ablations(without: tuple[float, float], verdict: str, found: str) -> None:
    def line(label: str, here: float, theirs: float) -> Line:
        return Line(label, (Value(Spread(here, 0.5), Spread(theirs, nan), 3),) * 2)

    lines = (
        line("without update", without[0], 70),
        line("without latest", without[1], 76),
        line("contig", 90, 75),
    )
    both = claimed(Table("table4", "Table 4", (Grid("mooc", "left out", ("a", "b"), lines),)))
    assert [claim.where for claim in both] == ["mooc, transductive", "mooc, inductive"]
    for claim in both:
        assert (claim.said, claim.found, claim.verdict) == ("1 of 2", found, verdict)


def test_sensitivity() -> None:
    def table(ours: float, wider: float) -> Table:
        lines = (
            Line("heads = 1", values(70, 70), "heads"),
            Line("heads = 2", values(90, 90), "heads"),
            Line("d = 172", values(ours, 90), "dim"),
            Line("d = 256", values(wider, 90), "dim"),
        )
        return Table("fig5", "Fig. 5", (Grid("mooc", "value", ("a", "b"), lines),))

    [well] = claimed(table(90, 90.9))
    assert (well.said, well.verdict) == ("heads = 2, d = 172", HOLDS)
    [badly] = claimed(table(90, 91.1))
    assert (badly.found, badly.verdict) == ("d = 256 is better", PARTLY)


@pytest.mark.parametrize(("power", "verdict"), [(0.96, HOLDS), (1.04, HOLDS), (1.06, FAILS), (0.94, FAILS)])
def test_growth(power: float, verdict: str) -> None:
    value = Value(Spread(power, 0.003), Spread(1.0, nan), 5)
    grids = (Grid("time", "streams with", ("x",), (Line("same nodes", (value,)),)),)
    [claim] = claimed(Table("fig6", "Fig. 6", grids))
    assert (claim.found, claim.verdict) == (f"power {power:.3f} ± 0.003", verdict)


def test_a_whole_study_has_claims_of_every_item(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert claims(tables(plan)).grids == ()  # nothing is done
    [words] = claims(tables(fill(plan))).grids
    said = {section.partition(":")[0] for section, _, _ in words.body()}
    assert said == {"Table 2", "Table 3", "Table 4", "Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6"}
