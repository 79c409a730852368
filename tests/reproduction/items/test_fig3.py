"""Fig. 3: recommendation, and the gain over TGN."""

from __future__ import annotations

from math import nan
from pathlib import Path

import numpy as np
import pytest
from support.figures import curves, legend, legend_notes
from support.plotted import misplaced_texts
from support.studies import (
    expect,
    fill,
    grid,
    group,
    number,
    planned,
    runs,
    small_stream,
    table_of,
    value,
)

from contig.experiments.rows import Spread
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.fig3 import Fig3
from contig.reproduction.plan import Plan
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict

GAIN = "relative gain of contig over tgn in Recall@5, %"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), "fig3"))


def test_recalls_and_the_gain(plan: Plan) -> None:
    jobs = group(plan, "fig3", "mooc").jobs
    at_5 = {
        model: [number(j.folder.name, "transductive", "recall_at_5") for j in runs(jobs, model)]
        for model in ("contig", "tgn")
    }
    table = table_of(plan, "fig3")
    expect(value(grid(table, "mooc"), "contig", "R@5"), at_5["contig"])
    gain = value(grid(table, GAIN), "mooc", "gain")
    assert gain.ours.mean == pytest.approx(100 * (np.mean(at_5["contig"]) / np.mean(at_5["tgn"]) - 1))
    assert gain.paper.mean == 110.51
    assert any("only as an image" in note for note in table.notes)


def test_models_that_cannot_score_new_nodes_are_named(tmp_path: Path) -> None:
    notes = table_of(planned(tmp_path, "fig3", models=("contig", "gae", "ctdne")), "fig3").notes
    assert any(note.startswith("gae, ctdne: measured only on test events") for note in notes)


def test_unfinished_evaluations_are_left_out(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig3"))
    one = group(plan, "fig3", "mooc").evaluations[0]
    one.file.unlink()
    assert value(grid(table_of(plan, "fig3"), "mooc"), one.job.recipe.model, "MRR").seeds == 2


def test_the_figure_has_curves_over_k(plan: Plan) -> None:
    table = table_of(plan, "fig3")
    figure = Fig3().figure(table)
    assert figure is not None
    recalls = {line.label: [v.ours.mean for v in line.values[:4]] for line in grid(table, "mooc").lines}
    best = max(("edgebank", "edgebank, window"), key=lambda name: np.mean(recalls[name]))
    drawn = curves(figure.axes[1])
    assert list(drawn) == ["contig", "tgn", f"{best} (heuristic)"]
    for name, points in drawn.items():
        expected = zip((5, 10, 15, 20), recalls[name.removesuffix(" (heuristic)")], strict=True)
        assert points == [pytest.approx(point) for point in expected]


def test_the_figure_of_a_study_without_the_paper_s_model(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig3", models=("tgat", "gae")))
    figure = Fig3().figure(table_of(plan, "fig3"))
    assert figure is not None
    assert legend(figure) == ["tgat", "gae*"]
    assert legend_notes(figure).startswith("* only on test events between nodes seen in training")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_text_of_the_figure_overlaps(count: int, tmp_path: Path) -> None:
    names = ("wikipedia", "mooc", "collegemsg")[:count]
    datasets = tuple(StudyDataset(name, small_stream(), name) for name in names)
    models = ("contig", "tgn", "tgat", "gat", "gae", "ctdne", "edgebank", "recency")
    plan = fill(planned(tmp_path, "fig3", models=models, datasets=datasets))
    figure = Fig3().figure(table_of(plan, "fig3"), [Fig3().error_bars(plan.groups["fig3"])])
    assert figure is not None
    assert misplaced_texts(figure) == []


@pytest.mark.parametrize(
    ("tgn", "verdict", "gat", "best"),
    [
        (85.0, Verdict.HOLDS, 80.0, Verdict.HOLDS),
        (89.5, Verdict.OPEN, 80.0, Verdict.OPEN),
        (95.0, Verdict.FAILS, 80.0, Verdict.FAILS),
        (85.0, Verdict.HOLDS, 95.0, Verdict.FAILS),
    ],
)
def test_claims(tgn: float, verdict: Verdict, gat: float, best: Verdict) -> None:
    """Heuristics, models on other events and a dataset that the paper does not use do not count."""

    def line(name: str, at_5: float, heuristic: bool = False) -> Line:
        values = tuple(Value(Spread(mean, 0.5), seeds=3) for mean in (at_5, 50.0))
        return Line(name, values, heuristic=heuristic)

    lines = (line("contig", 90), line("tgn", tgn), line("gat", gat), line("recency", 99, heuristic=True))
    lines += (line("gae", 99)._replace(other_events=True),)
    gain = Value(Spread(100 * (90 / tgn - 1), nan), Spread(3.25, nan), 3)
    grids = (
        Grid("wikipedia", "model", ("R@5", "R@10"), lines),
        Grid("own", "model", ("R@5", "R@10"), lines),
        Grid("gain", "dataset", ("gain",), (Line("wikipedia", (gain,)),), derived=True),
    )
    first, second = Fig3().claims(Table("fig3", "", grids))
    assert (first.text, first.verdict) == ("Fig. 3: best Recall@5 of all models", best)
    assert " of 3, " in first.ours
    assert (second.text, second.paper) == ("Fig. 3: higher Recall@5 than tgn", "+3.25%")
    assert (second.ours, second.verdict) == (f"{100 * (90 / tgn - 1):+.2f}%", verdict)
