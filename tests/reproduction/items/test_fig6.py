"""Fig. 6: the time of an epoch on datasets that grow in two ways."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pytest
from support.figures import curves, legend
from support.studies import SECONDS, fill, group, planned, table_of, value

from contig.data.datasets import open_stream
from contig.experiments.rows import Spread
from contig.reproduction.items.fig6 import FIXED, GROWING, Fig6, growth, timings
from contig.reproduction.plan import Plan
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "fig6"))


def test_the_sizes_of_the_paper_are_trained_on() -> None:
    assert (Fig6().sizes[0], Fig6().sizes[-1]) == (40_000, 800_000)
    assert max(Fig6().quick().sizes) < min(Fig6().sizes)


def test_the_middle_size_is_one_run(tmp_path: Path) -> None:
    plan = planned(tmp_path, "fig6")
    fixed, growing = (group(plan, "fig6", "synthetic", series).jobs for series in (FIXED, GROWING))
    assert [job.recipe.data for job in growing] == ["synthetic:100", "synthetic:200", "synthetic:400"]
    files = [str(tmp_path / f"data/synthetic-{size}-fixed-nodes.parquet") for size in (100, 400)]
    assert [job.recipe.data for job in fixed] == [files[0], "synthetic:200", files[1]]
    assert [job.folder for job in plan.timed] == [j.folder for j in (*fixed, growing[0], growing[2])]
    assert fixed[0].recipe.fingerprint == open_stream(files[0], bipartite=True).fingerprint()
    assert plan.trainings == []


def test_all_sizes_are_trained_alike(tmp_path: Path) -> None:
    """Also files, which have no held-out nodes by default, and short trainings, which are not compiled."""
    found = {replace(job.recipe.config(0).train, seed=0) for job in planned(tmp_path, "fig6").timed}
    [train] = found
    assert (train.holdout, train.compile) == ("tgn", "on")


def test_datasets_and_models_do_not_apply(plan: Plan) -> None:
    notices = list(Fig6().notices(replace(plan.study, models=("tgn",))))
    assert notices == [
        "fig6 is about contig alone; --models does not apply to it",
        "fig6 uses synthetic datasets; --datasets does not apply to it",
    ]
    assert list(Fig6().notices(replace(plan.study, every_dataset=False))) == []


@pytest.mark.parametrize("series", [FIXED, GROWING])
def test_numbers(series: str, plan: Plan) -> None:
    """The first epoch, of 50 s each, is left out."""
    measured, laws = table_of(plan, "fig6").grids
    found = timings(group(plan, "fig6", "synthetic", series).jobs)
    assert found == [(n, n // 5, 7 * n // 10, s) for n, s in SECONDS[series].items()]
    values = measured.models(series)["400"]
    seconds = SECONDS[series][400]
    assert [v.ours.mean for v in values] == [280, 80, seconds, pytest.approx(280 / seconds)]
    x, y = np.log([t.trained for t in found]), np.log([t.seconds for t in found])
    law = growth(found)
    assert law is not None
    assert law.exponent == pytest.approx(np.polyfit(x, y, 1)[0])
    exponent = value(laws, series, "x")
    assert exponent.ours == pytest.approx((law.exponent, law.error))
    assert laws.layout().header == ("datasets with", "x")  # the paper states no exponent


def test_the_figure_has_both_ways_to_grow_and_their_power_laws(plan: Plan) -> None:
    figure = Fig6().figure(table_of(plan, "fig6"))
    assert figure is not None
    drawn = curves(figure.axes[0])
    for series in (FIXED, GROWING):
        measured = [(0.7 * n, s) for n, s in SECONDS[series].items()]
        assert drawn[series] == [pytest.approx(point) for point in measured]
        slope, offset = np.polyfit(*np.log(measured).T, 1)
        [law] = [name for name in drawn if name.startswith(f"{series}, fitted: events^({slope:.3f} ± ")]
        assert drawn[law] == [pytest.approx((x, np.exp(offset) * x**slope)) for x, _ in measured]
    assert legend(figure) == list(drawn)
    assert list(drawn)[:3] == [FIXED, GROWING, "linear growth: events^1"]


def test_the_figure_compares_with_linear_growth_through_the_middle(plan: Plan) -> None:
    figure = Fig6().figure(table_of(plan, "fig6"))
    assert figure is not None
    drawn = curves(figure.axes[0])
    (start, low), (stop, high) = drawn["linear growth: events^1"]
    assert (start, stop) == pytest.approx((70, 280))
    assert high / low == pytest.approx(stop / start)
    measured = np.log([*drawn[FIXED], *drawn[GROWING]])
    x, y = measured.mean(axis=0)
    assert low / start == pytest.approx(np.exp(y - x))


def test_a_fit_has_the_color_of_what_it_fits(plan: Plan) -> None:
    figure = Fig6().figure(table_of(plan, "fig6"))
    assert figure is not None
    colors = [mark.lines[0].get_color() for mark in figure.axes[0].containers]  # type: ignore[attr-defined]
    fixed, growing, _, *fits = colors
    assert fits == [fixed, growing]
    assert fixed != growing


def test_one_size_has_no_lines(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig6"))
    for series in (FIXED, GROWING):
        for job in group(plan, "fig6", "synthetic", series).jobs:
            if job.recipe.data != "synthetic:200":
                (job.folder / "metrics.json").unlink(missing_ok=True)
    figure = Fig6().figure(table_of(plan, "fig6"))
    assert figure is not None
    assert curves(figure.axes[0]) == {name: [(140.0, 1.1)] for name in (FIXED, GROWING)}


def test_runs_on_several_datasets_are_of_one_seed(plan: Plan) -> None:
    assert Fig6().error_bars(plan.groups["fig6"]) == "one seed"


def test_a_quick_figure_says_so(plan: Plan) -> None:
    figure = Fig6().figure(replace(table_of(plan, "fig6"), warning="QUICK: small"), [])
    assert figure is not None
    assert "QUICK" in figure.texts[1].get_text()


@pytest.mark.parametrize(
    ("exponent", "error", "verdict"),
    [
        (0.96, 0.003, Verdict.HOLDS),
        (1.04, 0.003, Verdict.HOLDS),
        (1.06, 0.003, Verdict.FAILS),
        (0.94, 0.003, Verdict.FAILS),
        (1.3, 0.06, Verdict.FAILS),
        (0.7, 0.06, Verdict.FAILS),
        (1.04, 0.02, Verdict.OPEN),
        (1.06, 0.02, Verdict.OPEN),
        (1.0, 0.4, Verdict.OPEN),
        (1.0, nan, Verdict.OPEN),
    ],
)
def test_claims(exponent: float, error: float, verdict: Verdict) -> None:
    found = Value(Spread(exponent, error), seeds=5)
    grid = Grid("time", "datasets with", ("x",), (Line(GROWING, (found,)),), derived=True)
    [claim] = Fig6().claims(Table("fig6", "", (grid,)))
    shown = f" ± {error:.3f}" if error == error else ""
    assert (claim.ours, claim.verdict) == (f"exponent {exponent:.3f}{shown}", verdict)
