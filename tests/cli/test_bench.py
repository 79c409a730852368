"""``contig bench`` from end to end, on a small scale."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.commands import Answer
from support.extras import needs

from contig.cli.bench import _command
from contig.runs.run import Run

pytestmark = needs("torch_geometric", "torchdiffeq", "pandas")

ONE_PROCESS = (  # the others start processes, or need a GPU
    "contig-step,tgn-step,contig-plain,tgn-plain,epoch,scoring,ranking,ranking-times,departures,read,index,"
    "append,lookup,lookup-loop,ode,roofline"
)


def test_quick_takes_every_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    saved, table = tmp_path / "speed.json", tmp_path / "speed.md"
    recipe = tmp_path / "recipe.json"
    recipe.write_text('{"data": "any", "variants": {"no norm": {"state_norm": false}}}')
    options = ("--quick", "--device", "cpu", "--only", ONE_PROCESS, "--recipe", recipe)
    report = Answer("bench", *options, "--json", "--out", saved, "--markdown", table).json
    assert json.loads(saved.read_text()) == report
    assert report["events"] == 2000
    assert report["device"] == "cpu"
    assert {"command", "hardware", "cpu", "load"} <= report.keys()
    assert {"torch", "torch-geometric", "torchdiffeq"} <= report["versions"].keys()
    assert (report["settings"]["neighbors"], report["settings"]["dim"]) == (5, 16)
    rows = report["measurements"]
    assert list(dict.fromkeys(row["name"] for row in rows)) == ONE_PROCESS.split(",")
    for row in rows:
        assert 0 < row["ours_range"][0] <= row["ours"] <= row["ours_range"][1], row
        assert row["repeats"] == (1 if row["name"] == "epoch" or row["unit"] != "s" else 2)
        if not row["peer_name"]:
            continue
        for side in ("peer", "ratio"):
            assert 0 < row[f"{side}_range"][0] <= row[side] <= row[f"{side}_range"][1]
        low, high = (row["peer_range"][i] / row["ours_range"][1 - i] for i in (0, 1))
        assert low <= row["ratio"] <= high
    shown = Answer("bench", "--from", saved).words
    for row in rows:
        assert row["name"] in shown
        assert f"| `{row['name']}` | {row['what']} |" in table.read_text()


def test_ranking_times_agrees_with_the_evaluation_of_the_run(run: Path) -> None:
    command = ["bench", "--quick", "--device", "cpu", "--only", "ranking-times"]
    rows = Answer(*command, "--ranked", 9999, "--run", run, "--json").json["measurements"]
    opened = Run.open(run, "cpu")
    mrr = [
        100 * opened.evaluate("recommend", as_of=as_of, show=False).result.transductive.mrr
        for as_of in ("event", "batch")
    ]
    assert len(rows) == 2
    assert list(map(float, re.findall(r"([\d.]+)%", rows[0]["note"]))) == pytest.approx(mrr, abs=0.006)


def test_the_command_is_saved_without_local_paths() -> None:
    words = ["bench", "mooc", "--out", "/here/a.json", "--dim", "8", "--markdown=/there.md", "--quick"]
    assert _command(words) == "contig bench mooc --dim 8 --quick"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", "9:3"), "--steps 9:3: expected A:B"),
        (("--steps", "1:9999"), "steps 1:9999: an epoch of"),
        (("--steps", "10000:20000"), "steps 10000:20000: an epoch of"),
        (("--steps", "1:" + "9" * 5000), "expected A:B"),
        (("--only", "speed"), "speed"),
        (("--dim", "1"), "dim"),
        (("--compile", "maybe"), "compile"),
        (("--out", "."), "--out: . is a folder"),
    ],
)
def test_invalid_options_are_rejected(options: tuple[str, str], message: str) -> None:
    assert message in Answer("bench", "--quick", "--device", "cpu", *options).refusal


def test_an_empty_name_is_not_the_default_dataset() -> None:
    assert "Unknown dataset ''" in Answer("bench", "", "--quick", "--device", "cpu").refusal
