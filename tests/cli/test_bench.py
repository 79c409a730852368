"""``contig bench`` from one end to the other, small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Answer

from contig.cli.bench import _command

pytest.importorskip("torch_geometric")
pytest.importorskip("torchdiffeq")

ONE_PROCESS = "contig-step,tgn-step,contig-plain,tgn-plain,epoch,scoring,ranking,lookup,ode,roofline"


def test_quick_measures_everything(tmp_path: Path) -> None:
    kept, table = tmp_path / "speed.json", tmp_path / "speed.md"
    given = ("--quick", "--device", "cpu", "--only", ONE_PROCESS)
    report = Answer("bench", *given, "--json", "--out", kept, "--markdown", table).json
    assert json.loads(kept.read_text()) == report
    assert report["events"] == 2000
    assert report["device"] == "cpu"
    assert {"command", "hardware", "cpu", "load"} <= report.keys()
    assert {"torch", "torch-geometric", "torchdiffeq"} <= report["versions"].keys()
    assert (report["settings"]["neighbors"], report["settings"]["dim"]) == (5, 16)
    rows = report["measurements"]
    assert list(dict.fromkeys(row["name"] for row in rows)) == ONE_PROCESS.split(",")
    for row in rows:
        for side in ("ours", "peer", "ratio"):
            low, high = row[f"{side}_range"]
            assert 0 < low <= row[side] <= high
        assert row["repeats"] == (1 if row["name"] == "epoch" else 2)
        low, high = (row["peer_range"][i] / row["ours_range"][1 - i] for i in (0, 1))
        assert low <= row["ratio"] <= high
    shown = Answer("bench", "--from", kept).words
    for row in rows:
        assert row["name"] in shown
        assert f"| `{row['name']}` | {row['what']} |" in table.read_text()


def test_the_command_is_kept_without_places() -> None:
    words = ["bench", "mooc", "--out", "/here/a.json", "--dim", "8", "--markdown=/there.md", "--quick"]
    assert _command(words) == "contig bench mooc --dim 8 --quick"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--steps", "9:3"), "--steps 9:3: write two numbers"),
        (("--steps", "1:9999"), "steps 1:9999: an epoch of"),
        (("--only", "speed"), "speed"),
        (("--dim", "1"), "dim"),
        (("--compile", "maybe"), "compile"),
        (("--out", "."), "--out . is a folder"),
    ],
)
def test_what_cannot_be_measured_is_refused(given: tuple[str, str], told: str) -> None:
    assert told in Answer("bench", "--quick", "--device", "cpu", *given).refusal
