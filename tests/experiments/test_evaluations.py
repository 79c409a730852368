"""Evaluations: asked by a command, kept beside the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from contig.errors import RunError
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job
from contig.experiments.recipes import Recipe
from contig.files import write_json


def test_it_is_kept_beside_the_run_by_its_question(tmp_path: Path) -> None:
    job = Job(Recipe("mooc"), 0, tmp_path / "run")
    plain, batch = Evaluation(job, "recommend"), Evaluation(job, "recommend", (("as-of", "batch"),))
    assert not plain.done
    assert plain.result() is None
    write_json(plain.file, {"transductive": {"mrr": 0.25}})
    assert plain.done
    assert plain.result() == {"transductive": {"mrr": 0.25}}
    assert not batch.done  # another question
    command = batch.command("cpu")
    assert command[3:5] == ["evaluate", str(job.folder)]
    assert " ".join(command[5:]) == f"--task recommend --device cpu --out {batch.file} --as-of batch"


def test_a_damaged_one_says_the_cure(tmp_path: Path) -> None:
    one = Evaluation(Job(Recipe("mooc"), 0, tmp_path), "classify")
    one.file.parent.mkdir()
    one.file.write_text("{")
    with pytest.raises(RunError, match=r"classify\.json.*remove it"):
        one.result()
