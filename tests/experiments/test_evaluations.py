"""Evaluations: stored with their run, one file for each task and its options."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from support.trained import tiny_stream

from contig.errors import RunError
from contig.experiments import evaluations as module
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job
from contig.experiments.recipes import Recipe
from contig.runs import folder
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training.fit import fit


class FakeRun:
    """A run whose evaluation returns how it was called."""

    @staticmethod
    def open(path: Path, device: str) -> Any:
        def evaluate(*given: Any, **named: Any) -> Any:
            return SimpleNamespace(as_dict=lambda: {"called": [str(path), device, *given, named]})

        return SimpleNamespace(evaluate=evaluate, folder=RunFolder(path))


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


def test_a_name_that_is_too_long_for_a_file_is_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """235 bytes are left of 255: a temporary file is named ``.NAME.json.12345678.json``."""
    monkeypatch.setattr(module, "Run", FakeRun)
    job = Job(Recipe("mooc"), 0, tmp_path / "run")
    start = len("recommend-candidates_from=")
    for length in (1, 234 - start, 235 - start):
        given = Evaluation(job, "recommend", {"candidates_from": "n" * length})
        assert given.file.stem == f"recommend-candidates_from={'n' * length}"
        given.run("cpu")
        assert given.done
    long = [{"candidates_from": "é" * 100 + end} for end in ("", "x", "y")] + [
        {"candidates_from": "n" * (236 - start)}
    ]
    found = [Evaluation(job, "recommend", options) for options in long]
    for one in found:
        assert not one.done
        one.run("cpu")
        assert json.loads(one.file.read_text())["called"][-1] == one.options
    assert len({one.file for one in found}) == 4
    assert {len(one.file.stem) for one in found} == {235}


def test_a_path_among_the_options_stays_inside_the_run(tmp_path: Path) -> None:
    job = Job(Recipe("mooc"), 0, tmp_path / "run")
    given = Evaluation(job, "recommend", {"candidates_from": "../../x/ns.pkl"})
    assert given.file.parent == tmp_path / "run" / "evaluations"
    assert given.file != Evaluation(job, "recommend", {"candidates_from": "../../y/ns.pkl"}).file


def test_a_changed_file_of_candidates_means_another_evaluation(tmp_path: Path) -> None:
    file, job = tmp_path / "ns.npy", Job(Recipe("mooc"), 0, tmp_path / "run")
    given = Evaluation(job, "recommend", {"candidates_from": str(file)})
    file.write_bytes(b"first")
    first = given.file
    file.write_bytes(b"other")
    assert given.file != first
    file.write_bytes(b"first")  # also where the times of the file are those of another version
    assert given.file == first
    (tmp_path / "elsewhere").mkdir()
    moved = file.rename(tmp_path / "elsewhere/ns.npy")
    assert Evaluation(job, "recommend", {"candidates_from": str(moved)}).file == first
    assert Evaluation(job, "recommend", {"candidates_from": str(moved), "as_of": "batch"}).file != first


def test_a_result_that_is_named_by_a_path_counts_until_the_file_changes(tmp_path: Path) -> None:
    """Earlier versions stored results like this."""
    file, job = tmp_path / "ns.npy", Job(Recipe("mooc"), 0, tmp_path / "run")
    given = Evaluation(job, "recommend", {"candidates_from": str(file)})
    former = job.folder / "evaluations" / f"recommend-candidates_from={quote(str(file), safe='')}.json"
    former.parent.mkdir(parents=True)
    former.write_text("{}")
    assert given.done  # although the file is gone
    file.write_bytes(b"first")
    assert not given.done
    os.utime(former, ns=(0, file.stat().st_ctime_ns + 1))
    assert given.done
    assert given.file == former
    replacement = tmp_path / "part"
    replacement.write_bytes(b"other")
    os.utime(replacement, ns=(0, 0))  # a copy that keeps an old time of modification
    os.utime(former, ns=(0, replacement.stat().st_ctime_ns - 1))
    replacement.replace(file)
    assert not given.done


def test_a_file_that_changes_during_the_evaluation_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, job = tmp_path / "ns.npy", Job(Recipe("mooc"), 0, tmp_path / "run")
    file.write_bytes(b"first")
    given = Evaluation(job, "recommend", {"candidates_from": str(file)})

    class Changing(FakeRun):
        @staticmethod
        def open(path: Path, device: str) -> Any:
            def evaluate(*_: Any, **__: Any) -> Any:
                file.write_bytes(b"other")
                return SimpleNamespace(as_dict=dict)

            return SimpleNamespace(evaluate=evaluate, folder=RunFolder(path))

    monkeypatch.setattr(module, "Run", Changing)
    with pytest.raises(RunError, match="has changed meanwhile"):
        given.run("cpu")
    assert not list(tmp_path.glob("run/evaluations/*"))


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    fit(tiny_stream(), "popularity", out=tmp_path / "run", show=False)
    return Evaluation(Job(Recipe("mooc"), 0, tmp_path / "run"), "intervals")


def test_a_damaged_result_is_noticed(evaluation: Evaluation) -> None:
    evaluation.run("cpu")
    assert evaluation.result() == Run.open(evaluation.job.folder).evaluate("intervals", show=False).result
    text = evaluation.file.read_text()
    evaluation.file.write_text(text.replace("0.", "0.1", 1))
    with pytest.raises(RunError, match=r"intervals\.json is damaged.*To evaluate again, delete"):
        evaluation.result()
    evaluation.file.unlink()
    evaluation.run("cpu")
    assert evaluation.file.read_text() == text


def test_a_result_is_saved_under_the_lock_of_its_run(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    @contextmanager
    def locked(path: Path, *, wait: bool) -> Iterator[None]:
        assert not evaluation.done
        yield
        assert evaluation.done
        waited.append((path, wait))

    monkeypatch.setattr(folder, "locked", locked)
    evaluation.run("cpu")
    assert waited == [(evaluation.job.folder, True)]


def test_a_run_that_is_trained_further_meanwhile_keeps_no_result_of_its_old_weights(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Run.evaluate

    def slowly(run: Run, *given: Any, **named: Any) -> Any:
        result = evaluate(run, *given, **named)
        run.folder.save("best.pt", {"other": 1})
        return result

    monkeypatch.setattr(Run, "evaluate", slowly)
    with pytest.raises(RunError, match="trained further during its evaluation"):
        evaluation.run("cpu")
    assert not evaluation.done
