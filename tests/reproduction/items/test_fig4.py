"""Fig. 4: AP by interval, and the lead over TGN."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from support.figures import curves
from support.studies import expect, fill, grid, group, number, planned, runs, table_of, value

from contig.experiments.rows import Spread
from contig.models.tgn import TGN
from contig.reproduction.claims import Claim
from contig.reproduction.items.fig4 import Fig4
from contig.reproduction.plan import Plan
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict
from contig.tasks.intervals import SETS

HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS, Verdict.OPEN
ALL_FIVE = "in 5 of 5: 0-20%, 20-40%, 40-60%, 60-80%, 80-100%"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "fig4"))


def test_numbers_and_the_lead(plan: Plan) -> None:
    jobs = group(plan, "fig4", "mooc").jobs
    last = {
        model: [number(j.folder.name, "inductive", SETS[4]) for j in runs(jobs, model)]
        for model in ("contig", "tgn")
    }
    table = table_of(plan, "fig4")
    expect(value(grid(table, "mooc"), "tgn", SETS[4], "inductive"), last["tgn"])
    lead = value(grid(table, "mooc: contig minus tgn"), "inductive", SETS[4])
    assert lead.ours.mean == pytest.approx(100 * (np.mean(last["contig"]) - np.mean(last["tgn"])))


def test_a_model_that_cannot_score_new_nodes_has_no_inductive_line(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TGN, "inductive", False)
    mooc = grid(table_of(plan, "fig4"), "mooc")
    assert [line.section for line in mooc.lines if line.label == "tgn"] == ["transductive"]


def test_the_figure_has_curves_over_the_sets(plan: Plan) -> None:
    table = table_of(plan, "fig4")
    figure = Fig4().figure(table)
    assert figure is not None
    lines = {line.label: line.values for line in grid(table, "mooc").section("inductive")}
    drawn = curves(figure.axes[3])
    for name in ("contig", "tgn"):
        expected = [(float(x), value.ours.mean) for x, value in enumerate(lines[name])]
        assert drawn[name] == [pytest.approx(point) for point in expected]


def test_transductive_and_inductive_panels_of_a_dataset_have_one_y_axis(plan: Plan) -> None:
    figure = Fig4().figure(table_of(plan, "fig4"))
    assert figure is not None
    first, second, third, fourth = (axes.get_ylim() for axes in figure.axes)
    assert first == second
    assert third == fourth
    assert first != third


def claims(ours: tuple[float, ...], std: float = 0.5, dataset: str = "wikipedia") -> list[Claim]:
    """Against TGN with 90 in every set."""
    lines = tuple(
        Line(name, tuple(Value(Spread(mean, std), seeds=3) for mean in means), "transductive")
        for name, means in (("contig", ours), ("tgn", (90.0,) * 5))
    )
    return list(Fig4().claims(Table("fig4", "", (Grid(dataset, "model", SETS, lines),))))


@pytest.mark.parametrize(
    ("ours", "every", "sets", "longest"),
    [
        ((92, 93, 94, 95, 96), HOLDS, ALL_FIVE, HOLDS),
        ((96, 95, 94, 93, 92), HOLDS, ALL_FIVE, FAILS),
        ((90, 90, 90, 90, 96), Verdict.PARTLY, "in 1 of 5: 80-100%", HOLDS),
        ((90, 90, 90, 90, 90.9), OPEN, "in 0 of 5", OPEN),
        ((96, 90, 90, 90, 88), FAILS, "in 1 of 5: 0-20%", FAILS),
        ((90, 90, 90, 90.9, 90.8), OPEN, "in 0 of 5", OPEN),
        ((92, 93, nan, 95, 96), HOLDS, "in 4 of 4: 0-20%, 20-40%, 60-80%, 80-100%", HOLDS),
    ],
)
def test_claims(ours: tuple[float, ...], every: Verdict, sets: str, longest: Verdict) -> None:
    first, second, _ = claims(ours)
    assert (first.ours, first.verdict) == (sets, every)
    assert second.ours == f"{ours[3] - 90:+.2f} in 60-80%, {ours[4] - 90:+.2f} in 80-100%"
    assert second.verdict is longest


@pytest.mark.parametrize("ours", [(92, 93, 94, 95, 96), (96, 95, 94, 93, 92), (80, 80, 80, 80, 80)])
def test_one_seed_is_not_judged(ours: tuple[float, ...]) -> None:
    first, second, best = claims(ours, std=nan)
    assert (first.ours, first.verdict) == ("needs more seeds", Verdict.ONE_SEED)
    assert second.verdict is best.verdict is Verdict.ONE_SEED


@pytest.mark.parametrize(
    ("ours", "std", "verdict", "shown"),
    [
        (95.0, 0.5, HOLDS, "rank 1 of 3, +2.00 vs. tgat"),
        (93.5, 0.5, OPEN, "rank 1 of 3, +0.50 vs. tgat"),
        (92.5, 0.5, OPEN, "rank 2 of 3, -0.50 vs. tgat"),
        (91.5, 0.5, FAILS, "rank 2 of 3, -1.50 vs. tgat"),
        (95.0, nan, Verdict.ONE_SEED, "rank 1 of 3, +2.00 vs. tgat"),
    ],
)
def test_the_best_of_all_models_in_the_last_set(
    ours: float, std: float, verdict: Verdict, shown: str
) -> None:
    """Not TGN alone; what is in the other sets, heuristics and models on other events do not matter."""

    def line(name: str, last: float, *others: float, **kind: bool) -> Line:
        values = tuple(Value(Spread(ap, std), seeds=3) for ap in (*(others or (50.0,) * 4), last))
        return Line(name, values, "inductive", **kind)

    lines = (
        line("contig", ours),
        line("tgn", 90.0, 99.0, 99.0, 99.0, 99.0),
        line("tgat", 93.0),
        line("gat", nan),
        line("recency", 99.0, heuristic=True),
        line("contig, activity", 99.0, excluded=True),
        line("gae", 99.0, other_events=True),
    )
    found = Fig4().claims(Table("fig4", "", (Grid("wikipedia", "model", SETS, lines),)))
    [best] = [claim for claim in found if "best AP of all models" in claim.text]
    assert (best.where, best.paper) == ("wikipedia, inductive", "yes (abstract)")
    assert (best.ours, best.verdict) == (shown, verdict)


def test_what_the_abstract_says_is_quoted(plan: Plan) -> None:
    notes = " ".join(table_of(plan, "fig4").notes)
    assert (
        '"compared with a range of state-of-the-art baselines, especially for long-interval interactions'
        in notes
    )


def test_no_claim_about_a_dataset_the_paper_does_not_show() -> None:
    assert claims((95, 95, 95, 95, 95), dataset="mooc") == []
