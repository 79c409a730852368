"""Table 4: six ablations and the full model."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import pytest
from support.figures import points
from support.studies import LINKS, expect, fill, grid, group, metric, planned, runs, table_of, value

from contig.experiments.rows import Spread
from contig.reproduction.items.table4 import Table4
from contig.reproduction.plan import Plan
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "table2 table4"))


def test_the_full_model_is_the_run_of_table_2(plan: Plan) -> None:
    jobs = group(plan, "table4", "mooc").jobs
    parts = [job.recipe.settings.get("without") for job in jobs if job.seed == 0]
    six = ["transform", "update", "adaptive", "latest", "neighbor", "inherent"]
    assert parts == [*((part,) for part in six), None]
    shared = [job.folder for job in runs(group(plan, "table2", "mooc").jobs, "contig")]
    assert [job.folder for job in runs(jobs, "contig")] == shared
    assert len(plan.trainings) == 2 * (3 + 3 + 2 + 6 * 3)  # contig, tgn, two heuristics, the ablations


def test_models_do_not_apply(plan: Plan) -> None:
    assert list(Table4().notices(plan.study)) == []
    [notice] = Table4().notices(replace(plan.study, models=("tgn",)))
    assert notice == "table4 is about contig alone; --models does not apply to it"


def test_numbers(plan: Plan) -> None:
    wikipedia = grid(table_of(plan, "table4"), "wikipedia")
    assert len(wikipedia.lines) == 7
    jobs = group(plan, "table4", "wikipedia").jobs
    without = runs(jobs, "contig", "without update")
    expect(
        value(wikipedia, "without update", "AP inductive"),
        metric(without, "inductive_dyglib", "ap", file=LINKS),
        95.03,
    )
    full = runs(jobs, "contig")
    expect(
        value(wikipedia, "contig", "AP transductive"), metric(full, "transductive", "ap", file=LINKS), 98.61
    )


def test_the_figure_has_a_panel_for_each_dataset_and_section(plan: Plan) -> None:
    table = table_of(plan, "table4")
    figure = Table4().figure(table)
    assert figure is not None
    assert figure.axes[3].get_title("left") == "mooc, inductive"
    values = [line.values[1] for line in grid(table, "mooc").lines]
    expected = [(x, place) for place, v in enumerate(values) for x in (v.paper.mean, v.ours.mean)]
    assert points(figure.axes[3]) == [pytest.approx(point) for point in expected]


def lines(ours: tuple[float, ...], std: float = 0.5) -> tuple[Line, ...]:
    """By the paper's own numbers, the last component does not help."""
    theirs = {"without update": 70, "without latest": 74, "without inherent": 76, "contig": 75}
    return tuple(
        Line(name, (Value(Spread(mean, std), Spread(there, nan), 3),) * 2)
        for (name, there), mean in zip(theirs.items(), ours, strict=True)
    )


@pytest.mark.parametrize(
    ("without", "verdict", "ours"),
    [
        ((80, 85, 99), Verdict.HOLDS, "2 of 3: update, latest"),
        ((80, 89.5, 99), Verdict.PARTLY, "1 of 3: update"),
        ((89.5, 90.5, 50), Verdict.OPEN, "0 of 3"),
        ((80, 95, 50), Verdict.FAILS, "1 of 3: update"),
        ((80, nan, 50), Verdict.HOLDS, "1 of 2: update"),
    ],
)
def test_claims(without: tuple[float, ...], verdict: Verdict, ours: str) -> None:
    table = Table("table4", "", (Grid("mooc", "variant", ("a", "b"), lines((*without, 90))),))
    both = list(Table4().claims(table))
    assert [claim.where for claim in both] == ["mooc, transductive", "mooc, inductive"]
    for claim in both:
        assert (claim.ours, claim.verdict) == (ours, verdict)
    if without[1] == without[1]:
        assert both[0].paper == "2 of 3: update, latest"


def test_every_component_is_explained(plan: Plan) -> None:
    [key] = [note for note in table_of(plan, "table4").notes if note.startswith("Without transform: ")]
    words = key.replace(",", "").replace(":", "").split()
    assert {"transform", "update", "adaptive", "latest", "neighbor", "inherent"} <= set(words)


def test_one_seed_is_not_judged() -> None:
    table = Table("table4", "", (Grid("mooc", "variant", ("a", "b"), lines((10, 20, 30, 90), nan)),))
    for claim in Table4().claims(table):
        assert (claim.ours, claim.verdict) == ("needs more seeds", Verdict.ONE_SEED)


def test_no_claim_about_a_dataset_the_paper_does_not_use() -> None:
    table = Table("table4", "", (Grid("own", "variant", ("a", "b"), lines((80, 85, 99, 90))),))
    assert list(Table4().claims(table)) == []
