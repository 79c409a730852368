"""Verdicts on the paper's claims, from tables whose numbers are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from pathlib import Path

import pytest
from support.studies import fill, planned

from contig.experiments.rows import Spread
from contig.reproduction.claims import ALONE, BETTER, FAILS, HOLDS, NEITHER, OPEN, PARTLY, Claim, claims
from contig.reproduction.findings import tables
from contig.reproduction.grids import Grid, Line, Table, Value, Words
from contig.tasks.intervals import SETS

Numbers = tuple[float, float]


def claimed(name: str, *grids: Grid) -> list[Claim]:
    found = claims([Table(name, name, grids)])
    if not found.grids:
        return []
    [words] = found.grids
    assert isinstance(words, Words)
    return [Claim(what, where, *(cell.text for cell in cells)) for what, where, cells in words.lines]


def values(*means: float, std: float = 0.5) -> tuple[Value, ...]:
    return tuple(Value(Spread(mean, std), seeds=3) for mean in means)


# --- the best of all models --------------------------------------------------------------------------


def link_claims(models: Mapping[str, tuple[Numbers, float]], stream: str = "mooc") -> list[Claim]:
    """Of Table 2 on one stream: of each model AP with deviation here, and the paper's AP."""
    lines = [
        Line(name, (Value(), Value(Spread(*here), Spread(theirs, 0.1), 3)), "inductive")
        for name, (here, theirs) in models.items()
    ]
    rule = Line("edgebank", (Value(), Value(Spread(99.0, nan), seeds=1)), "inductive, rules")
    return claimed("table2", Grid(stream, "model", ("AUC", "AP"), (*lines, rule)))


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "found"),
    [
        (((90.0, 0.5), 80.0), ((88.0, 0.5), 79.0), HOLDS, "1 of 3; +2.00 to tgn"),
        (((90.0, 0.5), 80.0), ((89.5, 0.5), 79.0), OPEN, "1 of 3; +0.50 to tgn"),
        (((90.0, 0.5), 80.0), ((90.5, 0.5), 79.0), OPEN, "2 of 3; -0.50 to tgn"),
        (((90.0, 0.5), 80.0), ((92.0, 0.5), 79.0), FAILS, "2 of 3; -2.00 to tgn"),
        (((90.0, 0.5), 78.0), ((88.0, 0.5), 79.0), BETTER, "1 of 3; +2.00 to tgn"),
        (((90.0, 0.5), 78.0), ((89.5, 0.5), 79.0), OPEN, "1 of 3; +0.50 to tgn"),
        (((90.0, 0.5), 78.0), ((92.0, 0.5), 79.0), NEITHER, "2 of 3; -2.00 to tgn"),
        (((90.0, nan), 80.0), ((10.0, nan), 79.0), ALONE, "1 of 3; +40.00 to gae"),
    ],
)
def test_the_best_of_all_models(
    ours: tuple[Numbers, float], theirs: tuple[Numbers, float], verdict: str, found: str
) -> None:
    """The rule with 99 does not count, nor does a model without a number in the paper."""
    models = {"contig": ours, "tgn": theirs, "gae": ((50.0, 9.0), 20.0), "vgae": ((95.0, 0.1), nan)}
    [claim] = link_claims(models)
    assert (claim.where, claim.verdict, claim.found) == ("mooc, inductive", verdict, found)
    place = 1 if ours[1] > theirs[1] else 2
    assert claim.said == f"{place} of 3; {ours[1] - theirs[1]:+.2f} to tgn"


def test_the_best_is_sought_on_each_side_by_itself() -> None:
    models = {"contig": ((90.0, 0.1), 80.0), "tgn": ((80.0, 0.1), 79.0), "gat": ((91.0, 0.1), 60.0)}
    [claim] = link_claims(models)
    assert (claim.said, claim.found) == ("1 of 3; +1.00 to tgn", "2 of 3; -1.00 to gat")
    assert claim.verdict == FAILS


def test_the_best_is_above_every_other_and_not_just_above_the_next() -> None:
    """TGN's mean is lower than TGAT's, but its seeds are further apart."""
    models = {"contig": ((91.3, 1.5), 90.0), "tgat": ((88.9, 0.7), 60.0), "tgn": ((88.7, 1.2), 80.0)}
    [claim] = link_claims(models)
    assert (claim.found, claim.verdict) == ("1 of 3; +2.40 to tgat", OPEN)


def test_nothing_is_claimed_without_the_numbers() -> None:
    for models in (
        {"contig": ((90.0, 0.1), 80.0)},
        {"tgn": ((90.0, 0.1), 80.0), "gat": ((91.0, 0.1), 60.0)},
        {"contig": ((90.0, 0.1), nan), "tgn": ((80.0, 0.1), 79.0)},
        {"contig": ((nan, nan), 80.0), "tgn": ((80.0, 0.1), 79.0)},
    ):
        assert link_claims(models) == []


def test_nothing_is_claimed_of_a_stream_that_the_paper_does_not_show() -> None:
    line = (Line("contig", values(*[95] * 5), "transductive"), Line("tgn", values(*[90] * 5), "transductive"))
    assert claimed("fig4", Grid("mooc", "model", SETS, line)) == []
    assert claimed("fig5", Grid("own", "value", ("a",), (Line("d = 172", values(9), "dim"),))) == []
    assert claimed("table4", Grid("own", "left out", ("a", "b"), (Line("contig", values(9, 9)),))) == []


# --- against the rival -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tgn", "verdict", "gat", "best"),
    [
        (85.0, HOLDS, 80.0, HOLDS),
        (89.5, OPEN, 80.0, OPEN),
        (95.0, FAILS, 80.0, FAILS),
        (85.0, HOLDS, 95.0, FAILS),
    ],
)
def test_recommendation(tgn: float, verdict: str, gat: float, best: str) -> None:
    learned = (Line("contig", values(90, 1)), Line("tgn", values(tgn, 99)), Line("gat", values(gat, 99)))
    lines = (*learned, Line("recency", values(99, 99), "rules"))
    gain = Value(Spread(100 * (90 / tgn - 1), nan), Spread(3.25, nan), 3)
    first, second = claimed(
        "fig3",
        Grid("wikipedia", "model", ("R@5", "R@10"), lines, rank=True),
        Grid("own", "model", ("R@5", "R@10"), lines, rank=True),  # of which the paper says nothing
        Grid("gain", "stream", ("gain",), (Line("wikipedia", (gain,)),)),
    )
    assert (first.what, first.verdict) == ("Fig. 3: best Recall@5 of all models", best)
    assert (second.said, second.verdict) == ("by +3.25%", verdict)
    assert second.found == f"by {100 * (90 / tgn - 1):+.2f}%"


@pytest.mark.parametrize(
    ("ours", "every", "sets", "longest"),
    [
        ((92, 93, 94, 95, 96), HOLDS, "in 5 of 5: 0-20%, 20-40%, 40-60%, 60-80%, 80-100%", HOLDS),
        ((96, 95, 94, 93, 92), HOLDS, "in 5 of 5: 0-20%, 20-40%, 40-60%, 60-80%, 80-100%", FAILS),
        ((90, 90, 90, 90, 96), PARTLY, "in 1 of 5: 80-100%", HOLDS),
        ((90, 90, 90, 90, 90.9), OPEN, "in 0 of 5", OPEN),
        ((96, 90, 90, 90, 88), FAILS, "in 1 of 5: 0-20%", FAILS),
        ((90, 90, 90, 90.9, 90.8), OPEN, "in 0 of 5", OPEN),
        ((92, 93, nan, 95, 96), HOLDS, "in 4 of 4: 0-20%, 20-40%, 60-80%, 80-100%", HOLDS),
    ],
)
def test_intervals(ours: tuple[float, ...], every: str, sets: str, longest: str) -> None:
    lines = (Line("contig", values(*ours), "transductive"), Line("tgn", values(*[90] * 5), "transductive"))
    first, second = claimed("fig4", Grid("wikipedia", "model", SETS, lines))
    assert (first.found, first.verdict) == (sets, every)
    assert second.found == f"{ours[3] - 90:+.2f} in 60-80%, {ours[4] - 90:+.2f} in 80-100%"
    assert second.verdict == longest


def test_with_one_seed_nothing_is_judged() -> None:
    alone = {"std": nan}
    for ours in ((92, 93, 94, 95, 96), (96, 95, 94, 93, 92), (80, 80, 80, 80, 80)):
        lines = (
            Line("contig", values(*ours, **alone), "transductive"),
            Line("tgn", values(*[90] * 5, **alone), "transductive"),
        )
        first, second = claimed("fig4", Grid("wikipedia", "model", SETS, lines))
        assert (first.found, first.verdict, second.verdict) == ("not judged", ALONE, ALONE)
    parts = tuple(
        Line(name, (Value(Spread(here, nan), Spread(there, nan), 1),) * 2)
        for name, here, there in (("without update", 10, 70), ("contig", 90, 75))
    )
    for claim in claimed("table4", Grid("mooc", "left out", ("a", "b"), parts)):
        assert (claim.found, claim.verdict) == ("not judged", ALONE)
    swept = tuple(
        Line(label, values(mean, **alone), "dim")
        for label, mean in (("d = 16", 10), ("d = 172", 50), ("d = 256", 90))
    )
    for claim in claimed("fig5", Grid("mooc", "value", ("a",), swept)):
        assert (claim.found, claim.verdict) == ("not judged", ALONE)


# --- the model's parts and options -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("without", "verdict", "found"),
    [
        ((80, 85, 99), HOLDS, "2 of 3: update, latest"),
        ((80, 89.5, 99), PARTLY, "1 of 3: update"),
        ((89.5, 90.5, 50), OPEN, "0 of 3"),
        ((80, 95, 50), FAILS, "1 of 3: update"),
        ((80, nan, 50), HOLDS, "1 of 2: update"),
    ],
)
def test_ablations(without: tuple[float, ...], verdict: str, found: str) -> None:
    """Of the last part the paper's own number says that it does not help."""
    theirs = {"without update": 70, "without latest": 74, "without inherent": 76, "contig": 75}
    lines = tuple(
        Line(name, (Value(Spread(mean, 0.5), Spread(there, nan), 3),) * 2)
        for (name, there), mean in zip(theirs.items(), (*without, 90), strict=True)
    )
    both = claimed("table4", Grid("mooc", "left out", ("a", "b"), lines))
    assert [claim.where for claim in both] == ["mooc, transductive", "mooc, inductive"]
    for claim in both:
        assert (claim.found, claim.verdict) == (found, verdict)
    if without[1] == without[1]:
        assert both[0].said == "2 of 3: update, latest"


def sensitivity(**curves: tuple[float, ...]) -> dict[str, Claim]:
    labels = {"heads": "heads = 1, heads = 2, heads = 4", "dim": "d = 16, d = 172, d = 256"}
    labels |= {"horizon": "T = 0.6, T = 1, T = 1.6", "neighbors": "k = 2, k = 5"}
    lines = [
        Line(label, values(mean, 1), option)
        for option, means in curves.items()
        for label, mean in zip(labels[option].split(", "), means, strict=False)
    ]
    found = claimed("fig5", Grid("mooc", "value", ("a", "b"), tuple(lines)))
    return {claim.what.partition(": ")[2]: claim for claim in found}


def test_sensitivity() -> None:
    found = sensitivity(heads=(89.5, 90, 90.9), dim=(80, 90, 90), horizon=(80, 90, 80), neighbors=(50, 60))
    best, rises, falls = found.values()
    assert (best.said, best.found, best.verdict) == ("T = 1, heads = 2, d = 172", "none is", HOLDS)
    assert (rises.said, rises.found, rises.verdict) == ("T, heads, d", "T, d", PARTLY)
    assert (falls.said, falls.found, falls.verdict) == ("T", "T", HOLDS)
    best, rises = sensitivity(dim=(92, 90, 91.1)).values()
    assert (best.found, best.verdict) == ("d = 16, d = 256 is", FAILS)
    assert (rises.found, rises.verdict) == ("none", FAILS)
    assert sensitivity(neighbors=(50, 60)) == {}  # the paper's own value was not tried


@pytest.mark.parametrize(
    ("power", "error", "verdict"),
    [
        (0.96, 0.003, HOLDS),
        (1.04, 0.003, HOLDS),
        (1.06, 0.003, FAILS),
        (0.94, 0.003, FAILS),
        (1.0, 0.4, OPEN),
        (1.0, nan, OPEN),
    ],
)
def test_growth(power: float, error: float, verdict: str) -> None:
    value = Value(Spread(power, error), Spread(1.0, nan), 5)
    [claim] = claimed("fig6", Grid("time", "streams with", ("x",), (Line("more nodes", (value,)),)))
    told = f" ± {error:.3f}" if error == error else ""
    assert (claim.found, claim.verdict) == (f"power {power:.3f}{told}", verdict)


def test_a_whole_study_has_claims_of_every_item(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert claims(tables(plan)).grids == ()  # nothing is done
    [words] = claims(tables(fill(plan))).grids
    sections = [section for section, _, _ in words.body()]
    said = dict.fromkeys(section.partition(":")[0] for section in sections)
    assert list(said) == ["Table 2", "Table 3", "Table 4", "Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6"]
    together = list(dict.fromkeys(sections))
    assert sorted(sections, key=together.index) == sections  # what is of one claim stands together
