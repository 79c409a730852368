"""``--part``: parts of a sweep in one folder give the runs and the tables of a single sweep."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from support.commands import Answer
from support.finished import finish
from support.inline import run_inline
from support.studies import store
from support.trained import identical_runs

from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job, Work

COMPARE = [*("compare", "synthetic:300", "--models", "jodie,tgn", "--seeds", 2, "--device", "cpu")]
COMPARE += ["--epochs", 1, "--set", "dim=6", "--set", "batch_size=60", "--task", "recommend"]
TIMES = ("train_speed", "score_speed", "epoch_seconds", "peak_memory")


def parts(command: list[Any], out: Path, order: list[str]) -> list[Answer]:
    return [Answer(*command, "--out", out, "--part", part) for part in order]


def tables(out: Path) -> Any:
    """What ``compare`` has written, without what is measured with a clock."""
    content = json.loads((out / "compare.json").read_text())
    for row in content[0]["rows"]:
        for name in TIMES:
            row.pop(name)
    return content


@pytest.fixture
def finished(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Finish work without doing it: the AP depends on the model and the seed."""

    def run(work: Work, device: str) -> None:
        if isinstance(work, Job):
            finish(work, 0.8 + 0.01 * work.seed + 0.002 * len(work.recipe.model))
        else:
            store(cast("Evaluation", work))

    return cast("list[Job]", run_inline(monkeypatch, run))


def test_parts_that_overlap_in_time_equal_one_sweep(
    here: Path, monkeypatch: pytest.MonkeyPatch, fast_training: None
) -> None:
    """While the first part trains its first run, the second one starts and ends; the third comes later."""
    meanwhile: list[Answer] = []

    def run(work: Work, device: str) -> None:
        if not meanwhile:
            meanwhile.append(Answer(*COMPARE, "--only-done", "--out", "divided"))
            meanwhile.extend(parts(COMPARE, Path("divided"), ["2/3", "1/3", "1/2"]))
            meanwhile.append(Answer(*COMPARE, "--out", "divided"))
        work.run(device)

    started = run_inline(monkeypatch, run)
    [first] = parts(COMPARE, Path("divided"), ["1/3"])
    only_done, second, twice, other, whole = meanwhile
    assert (first.code, second.code, only_done.code) == (0, 0, 0), first.err + second.err
    assert "Part 1/3 cannot start in divided" in twice.refusal
    assert "Part 1/2 cannot start in divided" in other.refusal
    assert "The command cannot start in divided" in whole.refusal
    assert "repeat the command without --part" in first.err
    assert first.out == second.out == ""  # tables wait for the last part
    assert not (here / "divided/.parts").exists()
    parts(COMPARE, Path("divided"), ["3/3"])
    divided = Counter(work.name for work in started)
    assert set(divided.values()) == {1}
    started.clear()
    assert Answer(*COMPARE, "--out", "divided").code == 0
    assert started == []  # the parts have left nothing to do
    assert Answer(*COMPARE, "--out", "single").code == 0
    assert Counter(work.name for work in started) == divided
    assert tables(here / "divided") == tables(here / "single")
    for folder in (here / "single/runs").glob("*/"):
        assert identical_runs(folder, here / "divided/runs" / folder.name)


def test_parts_of_repeat(finished: list[Job], here: Path) -> None:
    for model in ("tgn", "jodie"):
        (here / f"{model}.json").write_text(json.dumps({"data": "synthetic:300", "model": model}))
    command = ["repeat", "tgn.json", "jodie.json", "--seeds", 3, "--evaluate", "recommend"]
    assert [answer.code for answer in parts(command, here / "out", ["3/4", "1/4"])] == [0, 0]
    without_gpu = ["--only-done", "--device", "cuda:77"]
    shown = Answer("repeat", "tgn.json", "jodie.json", "--seeds", 3, *without_gpu, "--out", here / "out")
    assert sum(int(line[4]) for line in shown.lines if line[0] == "synthetic:300") == 3  # seeds so far
    parts(command, here / "out", ["4/4", "2/4"])
    names = [work.name for work in finished]
    assert len(names) == len(set(names)) == 12
    whole = Answer("repeat", "tgn.json", "jodie.json", "--seeds", 3, "--out", here / "out")
    single = Answer("repeat", "tgn.json", "jodie.json", "--seeds", 3, "--out", here / "single")
    assert whole.out == single.out
    assert len(finished) == 12 + 6


def test_parts_of_reproduce(finished: list[Job], here: Path) -> None:
    command = [
        "reproduce",
        "table2",
        "fig6",
        "--quick",
        "--datasets",
        "synthetic:300",
        "--models",
        "contig,tgn",
    ]
    found = []
    for part in ("2/2", "1/2"):
        [answer] = parts(command, here / "out", [part])
        assert answer.code == 0, answer.err
        assert not (here / "out/report.html").exists()
        found.append({job.name for job in finished})
        finished.clear()
    second, first = found
    assert not first & second
    timed = {name for name in first if "-timing-" in name}  # times are compared, so one part has them all
    assert len(timed) == 4 + 3  # sizes of growing and of fixed nodes, one in common
    evaluated = {name for name in first | second if name.startswith("link-")}
    assert all(name.startswith("synthetic-300-") for name in (first | second) - timed - evaluated)
    assert {name.rpartition(" of ")[2] for name in evaluated} == (first | second) - timed - evaluated
    assert abs(len(first - timed) - len(second)) <= 2  # a run and its evaluation
    assert Answer(*command, "--only-done", "--out", here / "out").code == 0
    assert finished == []
    assert Answer(*command, "--out", here / "single").code == 0
    assert {job.name for job in finished} == first | second
    for name in ("table2.csv", "fig6.csv", "claims.txt"):
        assert (here / "out" / name).read_text() == (here / "single" / name).read_text()


def test_parts_of_a_grid(finished: list[Job], here: Path) -> None:
    pytest.importorskip("optuna", reason="needs the extra tune")
    command = ["tune", "synthetic:300", "--grid", "lr=0.1,0.2,0.3", "--grid", "dim=8,16", "--device", "cpu"]
    assert [answer.code for answer in parts(command, here / "out", ["2/2", "1/2"])] == [0, 0]
    assert len({job.name for job in finished}) == len(finished) == 6
    assert Answer(*command, "--out", here / "out").code == 0
    assert len(finished) == 6
    assert Answer(*command, "--out", here / "single").code == 0
    for name in ("tune.csv", "best.json"):
        assert (here / "out" / name).read_text() == (here / "single" / name).read_text()


def test_a_failure_in_a_part_is_reported(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_inline(monkeypatch, lambda work, device: "no luck")
    [answer] = parts(
        ["compare", "synthetic:300", "--models", "tgn", "--no-heuristics"], here / "out", ["1/3"]
    )
    assert "failed: no luck (full log: " in answer.refusal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--part", "4/3"], "--part 4/3: expected K/N with K from 1 to N, such as 2/3"),
        (["--part", "0/2"], "--part 0/2: expected K/N"),
        (["--part", "x"], "--part x: expected K/N"),
        (["--device", "cpu,gpu"], "device='gpu' is not a device"),
        (["--device", "cpu,"], "device='' is not a device"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["compare", "synthetic:300"],
        ["repeat", "collegemsg"],
        ["reproduce", "fig6", "--quick"],
        ["tune", "synthetic:300", "--grid", "lr=0.1,0.2"],
    ],
)
def test_bad_values_are_refused_before_anything_is_written(
    command: list[str], options: list[str], message: str, here: Path
) -> None:
    assert message in " ".join(Answer(*command, *options).refusal.split())
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["compare", "synthetic:300", "--only-done"], "leave out --part 1/2"),
        (["reproduce", "fig6", "--only-done"], "leave out --part 1/2"),
        (["tune", "synthetic:300", "--grid", "lr=0.1..0.9"], "--part cannot divide the search of a range"),
        (["tune", "synthetic:300", "--grid", "lr=1,2,3", "--trials", "2"], "this one needs --trials 3"),
    ],
)
def test_what_cannot_be_divided_is_refused(command: list[str], message: str, here: Path) -> None:
    assert message in " ".join(Answer(*command, "--part", "1/2").refusal.split())
    assert list(here.iterdir()) == []
