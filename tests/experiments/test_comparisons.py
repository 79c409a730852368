"""Comparisons: the notes say how the numbers were measured, and the files agree with each other."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.finished import finish

from contig.cli.tables import comparison_text
from contig.data.events import EventStream
from contig.experiments.comparisons import Comparison, plan_comparison, save
from contig.experiments.jobs import Failure, Job
from contig.tasks.results import LinkMetrics


def stream() -> EventStream:
    """40 events, one every 3 days: the test lasts 15 days."""
    days = np.arange(0, 120, 3) * 86_400
    events = EventStream.from_arrays([k % 5 for k in range(40)], [7 + k % 3 for k in range(40)], days)
    return replace(events, benchmark=True)


def compared(folder: Path, models: str, seeds: int, at_once: int = 1, failing: str = "") -> Comparison:
    planned = plan_comparison("here/my.csv", stream(), models.split(), {}, seeds, folder)
    failures: list[Failure[Job]] = []
    for job in planned.jobs:
        if job.recipe.model == failing:
            failures.append(Failure(job, "no luck"))
        else:
            finish(job, 0.8 + 0.05 * job.seed)
    return planned.collect(failures, at_once)


def test_the_notes_of_a_comparison(tmp_path: Path) -> None:
    comparison = compared(tmp_path, "tgn edgebank", seeds=3, at_once=2)
    assert comparison.title == "my.csv: 40 events, 8 nodes"
    assert [row.label for row in comparison.rows] == ["tgn", "edgebank", "edgebank, window"]
    assert comparison.notes() == [
        "Test events, random negatives, batches of 200, new nodes by holdout tgn.",
        "AP and AUC in %, mean over batches; mean ± standard deviation over 3 seeds (heuristics: one run).",
        "Inductive negatives: among all destinations (ours) or inductive events (dyglib, as published).",
        "window: only the last 15 days count, the duration of the test period.",
        "tgn: 1 layer, 10 neighbors, 172 dimensions, lr 0.0003, at most 50 epochs, patience 5.",
        "Departures of every model from its paper, and their reasons: docs/results/departures.md.",
        "Speed and memory: abacus, 2 runs at a time; training speed: median of the epochs after the first; "
        "peak memory of the whole process.",
    ]


def test_figures_of_few_events_are_noted(tmp_path: Path) -> None:
    comparison = compared(tmp_path, "tgn edgebank", seeds=2)
    first, *others = comparison.rows
    few = [
        replace(one, result=replace(one.result, inductive=LinkMetrics(ap=0.5, events=2)))
        for one in first.results
    ]
    marked = replace(comparison, rows=[replace(first, results=tuple(few)), *others])
    (note,) = set(marked.notes()) - set(comparison.notes())
    assert note == "* fewer than 100 events: the figures may be due to chance (here 2)."
    line = next(line for line in comparison_text(marked).splitlines() if line.strip().startswith("tgn"))
    assert "50.00 ± 0.00*" in line
    assert line.count("*") == 1
    counts = {name: marked.as_dict()["rows"][0][name]["events"] for name in ("transductive", "inductive")}
    assert counts == {"transductive": 700, "inductive": 2}
    assert "50.00 ± 0.00*" in marked._repr_html_()


@pytest.mark.parametrize(
    ("models", "seeds", "note"),
    [("tgn", 1, "one seed."), ("tgn jodie", 2, "mean ± standard deviation over 2 seeds.")],
)
def test_the_statistic_depends_on_the_seeds(models: str, seeds: int, note: str, tmp_path: Path) -> None:
    notes = compared(tmp_path, models, seeds).notes()
    assert notes[1].endswith(f"; {note}")
    named = [note.partition(":")[0] for note in notes[3:-2]]
    assert [name for name in named if name != "All trained models"] == models.split()
    assert "at a time" not in notes[-1]


def test_nothing_to_note_or_draw_without_results(tmp_path: Path) -> None:
    comparison = compared(tmp_path, "tgn", 1, failing="tgn")
    assert comparison.notes() == []
    assert save([comparison], tmp_path / "out", "text") is None
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("compare.csv", "compare.json", "compare.txt")
    ]


def test_the_files_agree(tmp_path: Path) -> None:
    comparisons = [compared(tmp_path, "tgn jodie", 2, failing="jodie"), compared(tmp_path, "gat", 2)]
    assert save(comparisons, tmp_path, "the text\n") is not None
    assert (tmp_path / "compare.txt").read_text() == "the text\n"
    assert (tmp_path / "compare.png").read_bytes()[:4] == b"\x89PNG"
    content = json.loads((tmp_path / "compare.json").read_text())
    assert content == [one.as_dict() for one in comparisons]
    assert [(one["data"], one["events"], one["nodes"], one["seeds"]) for one in content] == [
        ("here/my.csv", 40, 8, 2)
    ] * 2
    with (tmp_path / "compare.csv").open(newline="") as file:
        lines = {line["model"]: line for line in csv.DictReader(file)}
    assert list(lines) == ["tgn", "jodie", "gat"]
    assert float(lines["gat"]["ap_transductive_mean"]) == content[1]["rows"][0]["transductive"]["ap"]["mean"]
    assert lines["jodie"]["failures"] == "seed 0: no luck; seed 1: no luck"


def test_without_a_figure_an_earlier_one_is_removed(tmp_path: Path) -> None:
    comparison = replace(compared(tmp_path, "tgn", seeds=1), rows=[])
    (tmp_path / "compare.png").write_bytes(b"of an earlier comparison")
    assert save([comparison], tmp_path, "") is None
    assert not (tmp_path / "compare.png").exists()
