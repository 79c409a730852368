"""``contig reproduce``: train, evaluate and report, without repeating what is finished."""

from __future__ import annotations

import csv
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.commands import Answer
from support.inline import Run, run_inline
from support.studies import LINKS

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


def run_small(patch: pytest.MonkeyPatch, run: Run) -> list[Work]:
    """Make everything small, undrawn and run by ``run`` in this process; return what is started."""
    patch.setattr(items, "choose_items", tiny_items)
    patch.setattr(scales, "QUICK", replace(QUICK, settings=SMALL, events=300))
    patch.setattr(label_decoding, "VALIDATIONS", 2)
    patch.setattr(label_decoding, "STEPS", 5)
    patch.setattr(Item, "figure", lambda item, table, facts=None: None)
    return run_inline(patch, run)


def succeed(work: Work, device: str) -> None:
    work.run(device)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, fast_training: None, here: Path) -> list[Work]:
    return run_small(monkeypatch, succeed)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 labeled events, of which the smoke test takes 300."""
    rng = np.random.default_rng(8)
    rows = np.stack([rng.integers(0, 12, 400), rng.integers(20, 29, 400), np.arange(400)], axis=1)
    label = rng.integers(0, 2, 400)
    lines = [f"{s},{d},{t},{y}" for (s, d, t), y in zip(rows.tolist(), label.tolist(), strict=True)]
    path = tmp_path_factory.mktemp("data") / "visits.csv"
    path.write_text("src,dst,t,label\n" + "\n".join(lines) + "\n")
    return path


class Complete(NamedTuple):
    """A complete smoke test: its command, what it printed and what it ran."""

    command: tuple[object, ...]
    out: Path
    answer: Answer
    started: list[Work]


@pytest.fixture(scope="module")
def complete(visits: Path, fast_training: None, tmp_path_factory: pytest.TempPathFactory) -> Complete:
    out = tmp_path_factory.mktemp("reproduced")
    command = (*COMMAND, "--datasets", visits, "--out", out)
    with pytest.MonkeyPatch.context() as patch:
        started = run_small(patch, succeed)
        return Complete(command, out, Answer(*command), started)


def test_every_file_says_that_it_is_a_smoke_test(complete: Complete) -> None:
    assert complete.answer.code == 0, complete.answer.err
    for name in (*NAMES, "claims"):
        for extension in ("txt", "csv", "tex", "md"):
            text = (complete.out / f"{name}.{extension}").read_text()
            assert "quick" in text.lower(), f"{name}.{extension}"
    page = (complete.out / "report.html").read_text()
    assert len(re.findall("<section", page)) == len(re.findall('class="tag">QUICK', page))
    assert "report.html" in complete.answer.err


def test_timed_runs_come_first_and_evaluations_after_their_run(complete: Complete) -> None:
    kinds = [type(work) for work in complete.started]
    # Two models, six ablations, three values of options, and twice three sizes with the middle one in common;
    # four tasks of two models, and one of the ablations.
    assert (kinds.count(Job), kinds.count(Evaluation)) == (2 + 6 + 3 + 5, 4 * 2 + 6)
    for i, work in enumerate(complete.started):
        if isinstance(work, Evaluation):
            assert work.job == next(one for one in reversed(complete.started[:i]) if isinstance(one, Job))
    timed = [Path(work.recipe.data).stem for work in complete.started[:5] if isinstance(work, Job)]
    assert timed == [
        *("synthetic-200-fixed-nodes", "synthetic:300", "synthetic-400-fixed-nodes"),
        *("synthetic:200", "synthetic:400"),
    ]


def rows_of(path: Path, **values: str) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if values.items() <= row.items()]


def tgn_run(out: Path) -> Path:
    [folder] = out.glob("runs/visits-first-300-tgn-0-*/")
    return folder


def test_tables_hold_the_numbers_of_the_runs(complete: Complete) -> None:
    metrics = json.loads((tgn_run(complete.out) / "metrics.json").read_text())
    assert metrics["data"]["events"] == 300
    links = json.loads((tgn_run(complete.out) / LINKS).read_text())
    assert links["protocol"]["negatives"] == "random-any"
    rows = rows_of(complete.out / "table2.csv", label="tgn", section="transductive")
    ours = {row["measure"]: float(row["ours"]) for row in rows}
    assert ours == pytest.approx({m.upper(): 100 * links["transductive"][m] for m in ("auc", "ap")})
    ranks = json.loads((tgn_run(complete.out) / "evaluations/recommend.json").read_text())
    [row] = rows_of(complete.out / "fig3.csv", label="tgn", measure="MRR")
    assert float(row["ours"]) == pytest.approx(100 * ranks["transductive"]["mrr"])


def test_finished_work_is_not_repeated(complete: Complete, started: list[Work]) -> None:
    assert Answer(*complete.command).out == complete.answer.out
    assert started == []


def test_a_call_for_one_item_keeps_the_report_of_the_others(complete: Complete, started: list[Work]) -> None:
    before = (complete.out / "report.html").read_text()
    command = ["table4" if word == "all" else word for word in complete.command]
    answer = Answer(*command)
    assert answer.code == 0
    assert (complete.out / "report.html").read_text() == before
    assert "Table 4" in answer.out
    assert "Table 2:" not in answer.out
    assert started == []


def test_only_unfinished_work_is_resumed(complete: Complete, started: list[Work]) -> None:
    folder, table = tgn_run(complete.out), complete.out / "table2.txt"
    (folder / "metrics.json").unlink()
    (folder / "evaluations/intervals.json").unlink()
    assert Answer(*complete.command, "--only-done").code == 0
    assert started == []
    assert "tgn" not in table.read_text()
    assert Answer(*complete.command).code == 0
    assert [work.name for work in started] == [folder.name, f"intervals of {folder.name}"]
    assert "tgn" in table.read_text()


def test_runs_of_other_events_or_settings_are_not_used_and_counted(
    complete: Complete, started: list[Work]
) -> None:
    jobs = [work for work in complete.started if isinstance(work, Job)]
    folders = [job.folder for job in jobs if "visits" in job.name][:2]
    others = [
        folder.with_name(re.sub("-[0-9a-f]{8}-(v[0-9]+)$", r"-01234567-\1", folder.name))
        for folder in folders
    ]
    for folder, other in zip(folders, others, strict=True):
        folder.rename(other)
    answer = Answer(*complete.command, "--only-done")
    for folder, other in zip(folders, others, strict=True):
        other.rename(folder)
    assert "2 finished runs called visits were made with other settings or events" in answer.err
    assert "the events are now first 300 events, " in answer.err
    assert "cannot be shown" not in Answer(*complete.command, "--only-done").err


def test_results_are_not_looked_for_in_a_folder_that_does_not_exist(complete: Complete, here: Path) -> None:
    answer = Answer(*complete.command[:-1], "typo", "--only-done")
    assert answer.code == 2
    assert "there is no folder typo. Name another one with --out" in answer.err
    assert not Path("typo").exists()


def test_runs_with_other_numerics_are_used_only_on_request(
    complete: Complete, started: list[Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = numerics.VERSION
    monkeypatch.setattr(numerics, "VERSION", 1234)
    without = Answer(*complete.command, "--only-done")
    assert "16 runs made with other numerics are not used; use them with --any-numerics" in without.err
    assert "No results yet" in without.out
    used = Answer(*complete.command, "--only-done", "--any-numerics")
    assert "other numerics" not in used.err
    assert "No results yet" not in used.out
    page = (complete.out / "report.html").read_text()
    assert f"numerics v{ours}" in page
    assert "v1234" not in page


def test_a_failure_is_reported_and_the_rest_is_shown(
    visits: Path, here: Path, monkeypatch: pytest.MonkeyPatch, fast_training: None
) -> None:
    def run(work: Work, device: str) -> str | None:
        if isinstance(work, Job) and work.recipe.model == "tgn":
            return "No luck today."
        work.run(device)
        return None

    run_small(monkeypatch, run)
    command = ["reproduce", "table2", "fig4", *COMMAND[2:], "--datasets", visits, "--out", "made", "--json"]
    answer = Answer(*command)
    assert answer.code == 2
    assert "tgn-0-" in answer.err
    assert "No luck today." in answer.err
    assert "No luck today." in (here / "made/report.html").read_text()
    assert {row["label"] for row in json.loads(answer.out)} == {"contig"}


def test_a_run_from_an_archive_is_trained_again_for_another_item(
    visits: Path, here: Path, started: list[Work]
) -> None:
    options = ["--quick", "--models", "tgn", "--no-heuristics", "--device", "cpu", "--datasets", visits]
    made = Answer("reproduce", "table2", *options, "--out", "made", "--archive", "made.tar.xz")
    assert "wrote made.tar.xz (1 finished run)" in made.err
    with tarfile.open("made.tar.xz") as file:
        file.extractall("again", filter="data")
    kept = Answer("reproduce", "table2", *options, "--out", "again")
    assert (kept.code, kept.out, len(started)) == (0, made.out, 2)
    more = Answer("reproduce", "table2", "fig4", *options, "--out", "again")
    assert more.code == 0, more.err
    assert "1 finished run without weights: trained again" in more.err
    assert "3 of 3, intervals of" in more.err
    assert [type(work) for work in started[2:]] == [Job, Evaluation, Evaluation]
    assert (tgn_run(here / "again") / "best.pt").exists()


def test_a_run_that_is_trained_again_keeps_the_tables_of_earlier_calls(
    visits: Path, here: Path, started: list[Work]
) -> None:
    options = ["--quick", "--models", "tgn", "--no-heuristics", "--device", "cpu", "--datasets", visits]
    Answer("reproduce", "table2", *options, "--out", "made", "--archive", "made.tar.xz")
    with tarfile.open("made.tar.xz") as file:
        file.extractall("again", filter="data")
    more = Answer("reproduce", "fig4", *options, "--out", "again", "--archive", "more.tar.xz")
    assert more.code == 0, more.err
    assert [type(work) for work in started[2:]] == [Job, Evaluation, Evaluation]
    results = sorted(path.name for path in (tgn_run(here / "again") / "evaluations").glob("*.json"))
    assert results == ["intervals.json", "link-negatives=random-any.json"]
    assert (here / "again" / "table2.csv").read_text() == (here / "made" / "table2.csv").read_text()
    with tarfile.open("more.tar.xz") as file:
        assert sum(name.endswith(tuple(results)) for name in file.getnames()) == 2


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
    Path("runs/reproduce-quick").mkdir(parents=True)
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
        (["table2", "--configs", "nofolder"], "--configs nofolder is not a folder"),
        (["table2", "--archive", "r.tar.xz", "--part", "2/3"], "leave out --part 2/3, or write it"),
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
