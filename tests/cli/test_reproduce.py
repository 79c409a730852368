"""``contig reproduce``: train, evaluate and report, without repeating what is finished."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import Answer
from support.inline import run_inline

from contig import numerics
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job, Work
from contig.reproduction import items, scales
from contig.reproduction.items import NAMES, Item, choose_items
from contig.reproduction.items.fig5 import Fig5
from contig.reproduction.items.fig6 import Fig6
from contig.reproduction.scales import QUICK
from contig.tasks import label_decoding

SMALL = {"epochs": 2, "dim": 8, "time_dim": 8, "neighbors": 2, "batch_size": 50}
VALUES = {"horizon": (0.6, 1.0), "neighbors": (2.0,), "heads": (1, 2), "dim": (8,), "time_dim": (4, 8)}
TINY: dict[str, Item] = {
    "fig5": Fig5(VALUES, settings={}, events=None, datasets_at_most=1),
    "fig6": Fig6(sizes=(200, 300, 400), settings=SMALL),
}


def tiny_items(names: list[str], quick: bool = False) -> tuple[Item, ...]:
    return tuple(TINY.get(item.name, item) for item in choose_items(names, quick))


COMMAND = ["reproduce", "all", "--quick", "--models", "contig,tgn", "--no-heuristics", "--device", "cpu"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, fast_training: None, here: Path) -> list[Work]:
    """Run in this process what would run in workers, and return it."""

    def run(work: Work, device: str) -> str | None:
        work.run(device)
        return None

    monkeypatch.setattr(items, "choose_items", tiny_items)
    monkeypatch.setattr(scales, "QUICK", replace(QUICK, settings=SMALL, events=300))
    monkeypatch.setattr(label_decoding, "VALIDATIONS", 2)
    return run_inline(monkeypatch, run)


@pytest.fixture
def visits(here: Path) -> Path:
    """400 labelled events, of which the smoke test takes 300."""
    rng = np.random.default_rng(8)
    rows = np.stack([rng.integers(0, 12, 400), rng.integers(20, 29, 400), np.arange(400)], axis=1)
    label = rng.integers(0, 2, 400)
    lines = [f"{s},{d},{t},{y}" for (s, d, t), y in zip(rows.tolist(), label.tolist(), strict=True)]
    path = here / "visits.csv"
    path.write_text("src,dst,t,label\n" + "\n".join(lines) + "\n")
    return path


def test_a_complete_quick_reproduction(
    started: list[Work], visits: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answer(*COMMAND, "--datasets", visits, "--out", "made")
    assert answer.code == 0, answer.err
    made = here / "made"
    for name in (*NAMES, "claims"):
        for ending in ("txt", "csv", "tex", "md"):
            text = (made / f"{name}.{ending}").read_text()
            assert "quick" in text.lower(), f"{name}.{ending} must say that it is a smoke test"
    for item in NAMES:
        assert (made / f"{item}.png").read_bytes()[:4] == b"\x89PNG"
        assert (made / f"{item}.svg").exists()
    page = (made / "report.html").read_text()
    assert page.count("<svg") == len(NAMES)
    assert len(re.findall("<section", page)) == len(re.findall('class="tag">QUICK', page))
    kinds = [type(work) for work in started]
    # two models; six ablations; three values besides the plain; twice three sizes, of which the middle ones
    # are one; three tasks of two models
    assert (kinds.count(Job), kinds.count(Evaluation)) == (2 + 6 + 3 + 5, 3 * 2)
    for i, work in enumerate(started):
        if isinstance(work, Evaluation):  # right after its run was trained
            assert work.job == next(one for one in reversed(started[:i]) if isinstance(one, Job))
    timed = [Path(work.recipe.data).stem for work in started[:5] if isinstance(work, Job)]
    assert timed == [
        *("synthetic-200-fixed-nodes", "synthetic:300", "synthetic-400-fixed-nodes"),
        *("synthetic:200", "synthetic:400"),
    ]
    _agrees_with_the_runs(made)
    started.clear()
    monkeypatch.setattr(Item, "figure", lambda item, table, facts=None: None)  # drawing once is enough
    again = Answer(*COMMAND, "--datasets", visits, "--out", "made")
    assert started == []  # everything is finished
    assert again.out == answer.out
    _resumes(started, visits, made)
    _ignores_runs_with_other_numerics(visits, made, monkeypatch)


def _agrees_with_the_runs(made: Path) -> None:
    """The table's numbers are those of the run's own file."""
    [folder] = made.glob("runs/visits-first-300-tgn-0-*/")
    found = json.loads((folder / "metrics.json").read_text())
    assert found["data"]["events"] == 300
    with (made / "table2.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["label"], r["section"]) == ("tgn", "transductive")]
    ours = {row["measure"]: float(row["ours"]) for row in rows}
    assert ours == pytest.approx({m.upper(): 100 * found["transductive"][m] for m in ("auc", "ap")})
    ranks = json.loads((folder / "evaluations/recommend.json").read_text())
    with (made / "fig3.csv").open(newline="") as file:
        [row] = [r for r in csv.DictReader(file) if (r["label"], r["measure"]) == ("tgn", "MRR")]
    assert float(row["ours"]) == pytest.approx(100 * ranks["transductive"]["mrr"])


def _resumes(started: list[Work], visits: Path, made: Path) -> None:
    """Only what an interruption left unfinished is done."""
    [folder] = made.glob("runs/visits-first-300-tgn-0-*/")
    (folder / "metrics.json").unlink()
    (folder / "evaluations/intervals.json").unlink()
    part = Answer(*COMMAND, "--datasets", visits, "--out", "made", "--only-done")
    assert (part.code, started) == (0, [])
    assert "tgn" not in (made / "table2.txt").read_text()
    assert Answer(*COMMAND, "--datasets", visits, "--out", "made").code == 0
    assert [work.name for work in started] == [folder.name, f"intervals of {folder.name}"]
    assert "tgn" in (made / "table2.txt").read_text()


def _ignores_runs_with_other_numerics(visits: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = numerics.VERSION
    monkeypatch.setattr(numerics, "VERSION", 1234)
    command = [*COMMAND, "--datasets", visits, "--out", "made", "--only-done"]
    without, counted = Answer(*command), Answer(*command, "--any-numerics")
    assert "16 runs were made with other numerics; --any-numerics uses them" in without.err
    assert "No results yet" in without.out
    assert "other numerics" not in counted.err
    assert "No results yet" not in counted.out
    page = (made / "report.html").read_text()
    assert f"numerics v{ours}" in page
    assert "v1234" not in page


def test_a_failure_is_reported_and_the_rest_is_shown(
    visits: Path, here: Path, monkeypatch: pytest.MonkeyPatch, started: list[Work]
) -> None:
    def run(work: Work, device: str) -> str | None:
        if isinstance(work, Job) and work.recipe.model == "tgn":
            return "No luck today."
        work.run(device)
        return None

    run_inline(monkeypatch, run)
    command = ["reproduce", "table2", "fig4", *COMMAND[2:], "--datasets", visits, "--out", "made", "--json"]
    answer = Answer(*command)
    assert answer.code == 2
    assert "tgn-0-" in answer.err
    assert "No luck today." in answer.err
    assert "No luck today." in (here / "made/report.html").read_text()
    assert {row["label"] for row in json.loads(answer.out)} == {"contig"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table4", "--models", "tgn"], "table4 is about contig alone; --models does not apply"),
        (["fig6", "--models", "contig"], "fig6 uses synthetic datasets; --datasets does not apply"),
        (["table3", "--models", "tgn"], "table3 is skipped: plain has no labels"),
    ],
)
def test_notices_about_options_that_do_not_apply(
    words: list[str], message: str, here: Path, fast_training: None
) -> None:
    (here / "plain.csv").write_text("src,dst,t\n" + "".join(f"{i % 5},{7 + i % 3},{i}\n" for i in range(60)))
    wanted = ["reproduce", *words, "--quick", "--only-done", "--datasets", "plain.csv"]
    assert message in Answer(*wanted).err


def test_an_interruption_is_reported_once_with_the_way_to_continue(
    visits: Path, here: Path, monkeypatch: pytest.MonkeyPatch, fast_training: None
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    run_inline(monkeypatch, stop)
    answer = Answer("reproduce", "table2", *COMMAND[2:], "--datasets", visits, "--out", "made")
    assert answer.code == 130
    assert "repeat the command to continue" in answer.err
    assert "--only-done" in answer.err
    assert "failed" not in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table9"], "Unknown table or figure 'table9'"),
        (["table2", "--models", "tng"], "Did you mean 'tgn'"),
        (["table2", "--datasets", "mok"], "Did you mean 'mooc'"),
        (["table2", "--datasets", ","], "--datasets ',' is empty"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    words: list[str], message: str, here: Path, started: list[Work]
) -> None:
    assert message in Answer("reproduce", *words).refusal
    assert started == []


def test_help_names_every_item_and_has_examples() -> None:
    answer = Answer("reproduce", "--help")
    assert answer.code == 0
    assert answer.out.count("contig reproduce") >= 3
    assert all(name in answer.words for name in NAMES)
