"""Fig. 5: one option at a time varies; its runs may be shorter than those of Table 2."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from support.figures import legend, points
from support.studies import expect, fill, grid, group, metric, planned, runs, small_stream, table_of, value

from contig.data.splits import chronological_split
from contig.experiments.rows import Spread
from contig.reproduction.claims import Claim
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.fig5 import SYMBOLS, Fig5
from contig.reproduction.plan import Plan, make_plan
from contig.reproduction.scales import Scale
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict

SMALL = Fig5(values={"horizon": (0.5, 1.0), "dim": (4, 8, 16)}, settings={}, events=None)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "fig5"))


def swept(folder: Path, fig5: Fig5) -> Plan:
    """Two epochs and two seeds, with the runs of Table 4."""
    scale = Scale(seeds=1, settings={"dim": 8, "epochs": 2})
    study = planned(folder, "table4", seeds=2, scale=scale).study
    return make_plan(replace(study, items=(*study.items, fig5)))


def test_the_papers_values() -> None:
    full, quick = Fig5(), Fig5().quick()
    assert full.values["dim"] == full.values["time_dim"] == (16, 64, 128, 172, 256)
    assert (min(full.values["horizon"]), max(full.values["horizon"])) == (0.6, 1.6)
    assert set(quick.values) == set(full.values) == set(SYMBOLS)


def test_a_sweep_passes_through_the_full_models_run(tmp_path: Path) -> None:
    plan = swept(tmp_path, SMALL)
    jobs = group(plan, "fig5", "mooc", "dim").jobs
    dims = [(job.recipe.variant, job.recipe.settings["dim"]) for job in jobs if job.seed == 0]
    assert dims == [("dim 4", 4), ("as given", 8), ("dim 16", 16)]
    full = {job.folder for job in runs(group(plan, "table4", "mooc").jobs, "contig")}
    folders = [job.folder for g in plan.groups["fig5"] if g.dataset == "mooc" for job in g.jobs]
    assert len([folder for folder in folders if folder in full]) == 2 * 2  # options, seeds
    assert len(set(folders)) == 2 * (1 + 2 + 1)


def test_runs_can_be_shorter(tmp_path: Path) -> None:
    """All have the same length, so the middle of a curve is then not the full model's run."""
    per_epoch = len(chronological_split(swept(tmp_path, SMALL).study.datasets[0].stream).train)
    plan = swept(tmp_path, replace(SMALL, events=per_epoch + 1))
    folders = {job.folder: job for g in plan.groups["fig5"] if g.dataset == "mooc" for job in g.jobs}
    assert {job.recipe.config(0).train.epochs for job in folders.values()} == {1}
    assert len(folders) == 2 * (1 + 2 + 1)
    others = {job.folder for job in group(plan, "table4", "mooc").jobs}
    assert others
    assert not others & set(folders)
    longer = swept(tmp_path, replace(SMALL, events=99 * per_epoch))
    jobs = group(longer, "fig5", "mooc", "dim").jobs
    assert {job.folder for job in jobs} & others  # never longer than the recipe says


def test_a_quick_one_takes_one_dataset(tmp_path: Path) -> None:
    plan = swept(tmp_path, replace(SMALL, datasets_at_most=1))
    assert {group.dataset for group in plan.groups["fig5"]} == {"wikipedia"}


def test_numbers(plan: Plan) -> None:
    mooc = grid(table_of(plan, "fig5"), "mooc")
    assert [line.label for line in mooc.section("horizon")] == ["T = 0.6", "T = 1"]
    jobs = runs(group(plan, "fig5", "mooc", "horizon").jobs, "contig", "horizon 0.6")
    expect(value(mooc, "T = 0.6", "AP transductive", "horizon"), metric(jobs, "transductive", "ap"))


def test_the_figure_has_a_row_for_each_dataset_and_a_curve_for_each_section(plan: Plan) -> None:
    table = table_of(plan, "fig5")
    figure = Fig5().figure(table)
    assert figure is not None
    for place, found in ((0, table.grids[0]), (5, table.grids[1])):
        lines = found.section("horizon")
        expected = [
            (x, line.values[i].ours.mean) for i in (0, 1) for x, line in zip((0.6, 1.0), lines, strict=True)
        ]
        assert points(figure.axes[place]) == [pytest.approx(point) for point in expected]


def test_panels_of_a_dataset_have_one_y_axis(plan: Plan) -> None:
    """Otherwise the noise of one option would look like the effect of another."""
    table = table_of(plan, "fig5")
    figure = Fig5().figure(table)
    assert figure is not None
    for row, found in enumerate(table.grids):
        [limits] = {axes.get_ylim() for axes in figure.axes[5 * row : 5 * row + 5]}
        means = [value.ours for line in found.lines for value in line.values]
        assert limits[0] < min(s.mean - s.std for s in means)
        assert limits[1] > max(s.mean + s.std for s in means)
    assert figure.axes[0].get_ylim() != figure.axes[5].get_ylim()


def marked(axes: Axes) -> list[float]:
    """Return where a panel has a vertical line through its whole height."""
    lines = [line for line in axes.lines if list(line.get_ydata()) == [0, 1]]
    return [float(line.get_xdata()[0]) for line in lines]


def test_the_paper_s_values_are_marked(plan: Plan) -> None:
    figure = Fig5().figure(table_of(plan, "fig5"))
    assert figure is not None
    assert [marked(axes) for axes in figure.axes[:5]] == [[1.0], [15.0], [2.0], [172.0], [172.0]]
    assert legend(figure) == ["transductive", "inductive", "the paper's value"]


def test_a_value_that_was_not_tried_is_not_marked() -> None:
    """As in a smoke test, whose models are small."""
    lines = [
        Line(label, (Value(Spread(90.0, 1.0)), Value(Spread(80.0, 1.0))), option)
        for option, label in (("dim", "d = 8"), ("dim", "d = 64"), ("heads", "heads = 2"))
    ]
    figure = Fig5().figure(Table("fig5", "", (Grid("mooc", "value", ("a", "b"), tuple(lines)),)))
    assert figure is not None
    assert [marked(axes) for axes in figure.axes] == [[], [], [2.0], [], []]
    assert list(figure.axes[3].get_xticks()) == [8, 64]


def test_a_panel_without_results_keeps_its_place(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig5"))
    for job in group(plan, "fig5", "wikipedia", "heads").jobs:
        (job.folder / "metrics.json").unlink(missing_ok=True)
    figure = Fig5().figure(table_of(plan, "fig5"))
    assert figure is not None
    assert [axes.get_title("left") for axes in figure.axes[5:]] == [f"mooc: {s}" for s in SYMBOLS.values()]


def claims(std: float = 0.5, condition: str = "", **curves: tuple[float, ...]) -> list[Claim]:
    labels = {"heads": "heads = 1, heads = 2, heads = 4", "dim": "d = 16, d = 172, d = 256"}
    labels |= {"horizon": "T = 0.6, T = 1, T = 1.6", "neighbors": "k = 2, k = 5"}
    lines = [
        Line(label, tuple(Value(Spread(ap, std), seeds=3) for ap in (mean, 1.0)), option)
        for option, means in curves.items()
        for label, mean in zip(labels[option].split(", "), means, strict=True)
    ]
    grid = Grid("mooc", "value", ("a", "b"), tuple(lines), condition=condition)
    return list(Fig5().claims(Table("fig5", "", (grid,))))


def test_claims() -> None:
    best, rises, falls = claims(
        heads=(89.5, 90, 90.9), dim=(80, 90, 90), horizon=(80, 90, 80), neighbors=(50, 60)
    )
    assert (best.paper, best.ours) == ("T = 1, heads = 2, d = 172", "none is better, 3 of 6 are worse")
    assert (rises.paper, rises.ours) == ("T, heads, d", "T, d")
    assert (falls.paper, falls.ours) == ("T", "T")
    assert [claim.verdict for claim in (best, rises, falls)] == [
        *(Verdict.OPEN, Verdict.PARTLY, Verdict.HOLDS)
    ]


def test_the_papers_values_are_best_only_if_every_other_is_significantly_worse() -> None:
    """The legend: "holds" needs every comparison, and a difference within the spread is none."""
    assert claims(dim=(80, 90, 88))[0].verdict is Verdict.HOLDS
    assert claims(dim=(80, 90, 89.5))[0].verdict is Verdict.OPEN  # 0.5 is less than both deviations
    assert claims(dim=(89.5, 90, 89.5))[0].verdict is Verdict.OPEN
    assert claims(dim=(80, 90, 91.5))[0].verdict is Verdict.FAILS
    assert claims(dim=(89.5, 90, 89.5))[0].verdict.value == "within the spread"


def test_claims_say_on_how_many_events_the_runs_train() -> None:
    for claim in claims(dim=(80, 90, 88), horizon=(80, 90, 80), condition="at most 9 training events"):
        assert claim.where == "mooc, transductive, at most 9 training events"
    for claim in claims(dim=(80, 90, 88)):
        assert claim.where == "mooc, transductive"


def test_the_training_events_are_those_of_whole_epochs(tmp_path: Path) -> None:
    """Two epochs come closest to the limit on the smaller dataset, one on the larger."""
    small, large = (StudyDataset(n, small_stream(e), n) for n, e in (("wikipedia", 60), ("mooc", 120)))
    per_epoch = [len(chronological_split(one.stream).train) for one in (small, large)]
    study = planned(tmp_path, "fig5", datasets=(small, large)).study
    plan = fill(make_plan(replace(study, items=(replace(SMALL, events=2 * per_epoch[0] + 1),))))
    epochs = {g.dataset: {j.recipe.config(0).train.epochs for j in g.jobs} for g in plan.groups["fig5"]}
    assert epochs == {"wikipedia": {2}, "mooc": {1}}
    table = table_of(plan, "fig5")
    counts = [2 * per_epoch[0], per_epoch[1]]
    assert [grid.condition for grid in table.grids] == [f"at most {n:,} training events" for n in counts]
    [note] = [note for note in table.notes if note.startswith("A run trains on")]
    assert f" at most {counts[0]} events on wikipedia and {counts[1]} events on mooc, " in note


def test_runs_that_are_not_shortened_have_no_condition(plan: Plan) -> None:
    table = table_of(plan, "fig5")
    assert [grid.condition for grid in table.grids] == ["", ""]
    assert not any(note.startswith("A run trains on") for note in table.notes)


def test_claims_that_do_not_hold() -> None:
    best, rises = claims(dim=(92, 90, 91.1))
    assert (best.ours, best.verdict) == ("better: d = 16, d = 256", Verdict.FAILS)
    assert (rises.ours, rises.verdict) == ("none", Verdict.FAILS)


def test_no_claim_about_an_option_whose_published_value_was_not_tried() -> None:
    assert claims(neighbors=(50, 60)) == []


def test_one_seed_is_not_judged() -> None:
    for claim in claims(std=nan, dim=(10, 50, 90)):
        assert (claim.ours, claim.verdict) == ("needs more seeds", Verdict.ONE_SEED)
