"""Running many jobs from the command line: progress, interruption, failures."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from support.finished import finish
from support.inline import run_inline

from contig.cli import jobs as module
from contig.cli.jobs import report_failures, run_with_progress
from contig.experiments.jobs import Job, Work, as_chains, plan
from contig.experiments.recipes import Recipe


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is printed as notices."""
    found: list[str] = []
    monkeypatch.setattr(module.console, "notice", found.append)
    return found


def three_jobs(folder: Path) -> list[Job]:
    """The first of them is finished."""
    jobs = plan([Recipe("mooc", "tgn")], 3, folder)
    finish(jobs[0])
    return jobs


def test_each_result_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notices: list[str]) -> None:
    jobs = three_jobs(tmp_path)
    run_inline(monkeypatch, lambda job, device: "no luck" if job == jobs[1] else finish(job, 0.875))
    [failure] = run_with_progress("runs", as_chains(jobs), "cpu", at_once=1)
    assert failure == (jobs[1], "no luck")
    assert notices == [f"1 of 2, {jobs[1].name}: failed: no luck", f"2 of 2, {jobs[2].name}: AP 87.50"]


def test_an_interruption_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notices: list[str]
) -> None:
    def interrupt(work: Work, device: str) -> None:
        raise KeyboardInterrupt

    run_inline(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_with_progress("runs", as_chains(three_jobs(tmp_path)), "cpu", at_once=1)
    assert notices == ["interrupted; nothing is lost: repeat the command to continue"]


def test_failures_decide_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    report_failures([])
    with pytest.raises(typer.Exit) as end:
        report_failures(["tgn failed", "jodie failed"])
    assert end.value.exit_code == 2
    assert capsys.readouterr().err.splitlines() == ["error: tgn failed", "error: jodie failed"]
