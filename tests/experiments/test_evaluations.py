"""Evaluations: stored with their run, one file for each task and its options."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contig.experiments import evaluations as module
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job
from contig.experiments.recipes import Recipe
from contig.runs.folder import RunFolder


class FakeRun:
    """A run whose evaluation returns how it was called."""

    @staticmethod
    def open(folder: Path, device: str) -> Any:
        def evaluate(*given: Any, **named: Any) -> Any:
            return SimpleNamespace(as_dict=lambda: {"called": [str(folder), device, *given, named]})

        return SimpleNamespace(evaluate=evaluate, folder=RunFolder(folder))


def test_each_is_stored_by_its_task_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Run", FakeRun)
    job = Job(Recipe("mooc"), 0, tmp_path / "run")
    plain, batch = (
        Evaluation(job, "recommend"),
        Evaluation(job, "recommend", {"as_of": "batch", "candidates": 9}),
    )
    assert not plain.done
    plain.run("cpu")
    assert plain.done
    assert json.loads(plain.file.read_text()) == {"called": [str(job.folder), "cpu", "recommend", {}]}
    assert not batch.done
    batch.run("cuda")
    assert batch.file.name == "recommend-as_of=batch-candidates=9.json"
    assert json.loads(batch.file.read_text()) == {
        "called": [str(job.folder), "cuda", "recommend", batch.options]
    }
