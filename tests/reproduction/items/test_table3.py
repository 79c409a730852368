"""Table 3: classification, a column for each labeled dataset."""

from __future__ import annotations

import math
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
from support.figures import points
from support.studies import expect, fill, group, number, planned, runs, small_stream, table_of, value

from contig.experiments.rows import Spread
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.table3 import Table3
from contig.reproduction.plan import Plan, make_plan
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "table3"))


def test_only_models_with_embeddings_are_classified_by(plan: Plan) -> None:
    assert {job.recipe.model for job in plan.trainings} == {"contig", "tgn"}
    one = group(plan, "table3", "mooc").evaluations[0]
    assert (one.task, dict(one.options)) == ("classify", {"seeds": 5})
    assert Table3().quick().options() == {"seeds": 1}


def test_only_labeled_datasets_are_used(plan: Plan) -> None:
    plain = StudyDataset("plain", small_stream(labeled=False), "plain")
    study = replace(plan.study, datasets=(*plan.study.datasets, plain))
    assert [group.dataset for group in make_plan(study).groups["table3"]] == ["wikipedia", "mooc"]
    assert list(Table3().notices(study)) == []
    assert list(Table3().notices(replace(study, datasets=(plain,)))) == [
        "table3 is skipped: plain has no labels"
    ]


def test_numbers(plan: Plan) -> None:
    table = table_of(plan, "table3")
    [only] = table.grids
    assert only.columns == ("wikipedia", "mooc")
    jobs = runs(group(plan, "table3", "wikipedia").jobs, "contig")
    expect(value(only, "contig", "wikipedia"), [number(j.folder.name, "transductive") for j in jobs], 87.13)
    assert {line.label for line in only.lines} == {"contig", "tgn"}
    assert any("mean of 4 decoders" in note for note in table.notes)


def test_a_model_without_results_on_a_dataset_has_an_empty_cell(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table3"))
    for one in group(plan, "table3", "mooc").evaluations:
        if one.job.recipe.model == "tgn":
            one.file.unlink()
    [only] = table_of(plan, "table3").grids
    assert value(only, "tgn", "mooc").ours.mean != value(only, "tgn", "mooc").ours.mean
    assert value(only, "tgn", "mooc").paper.mean == 63.93


def test_the_note_counts_positive_labels(plan: Plan) -> None:
    counts = "12 of 3,456 on wikipedia, 12 of 3,456 on mooc"
    assert f"Label 1 among test events: {counts}." in table_of(plan, "table3").notes


def test_models_without_new_nodes_are_measured_on_other_events(tmp_path: Path) -> None:
    """They are excluded from comparisons, and omitted where too few events have label 1."""
    plan = fill(planned(tmp_path, "table3", models=("contig", "gae", "tgn")))
    table = table_of(plan, "table3")
    [only] = table.grids
    assert math.isnan(value(only, "gae", "wikipedia").ours.mean)
    jobs = runs(group(plan, "table3", "mooc").jobs, "gae")
    expect(value(only, "gae", "mooc"), [number(j.folder.name, "transductive") for j in jobs])
    assert list(only.models()) == ["contig", "tgn"]
    counts = "Label 1 among test events: 12 of 3,456 on wikipedia, 12 of 3,456 on mooc."
    few = "9 of 345 (too few for an AUC) on wikipedia, 11 of 345 on mooc"
    assert {counts, f"Label 1 among test events whose source was seen in training: {few}."} <= set(
        table.notes
    )
    assert any(
        note.startswith("gae: measured only on test events whose source was seen") for note in table.notes
    )


def test_the_figure_has_a_panel_for_each_dataset(plan: Plan) -> None:
    table = table_of(plan, "table3")
    figure = Table3().figure(table)
    assert figure is not None
    assert [axes.get_title("left") for axes in figure.axes] == ["wikipedia", "mooc"]
    values = [line.values[1] for line in table.grids[0].lines]
    expected = [(x, place) for place, v in enumerate(values) for x in (v.paper.mean, v.ours.mean)]
    assert points(figure.axes[1]) == [pytest.approx(point) for point in expected]


def test_claims_are_judged_by_column() -> None:
    def line(name: str, *numbers: tuple[float, float]) -> Line:
        return Line(name, tuple(Value(Spread(a, 0.5), Spread(b, nan), 3) for a, b in numbers))

    lines = (line("contig", (80, 80), (70, 60)), line("tgn", (70, 79), (60, 61)))
    grid = Grid("labeled datasets", "model", ("wikipedia", "mooc"), lines)
    first, second = Table3().claims(Table("table3", "", (grid,)))
    assert (first.where, first.verdict) == ("wikipedia", Verdict.HOLDS)
    assert (second.where, second.verdict) == ("mooc", Verdict.ONLY_HERE)
