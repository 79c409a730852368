"""An archive has what tables are made of, and is enough to continue from."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.inline import run_inline
from support.studies import LINKS, fill, planned, table_of

from contig.errors import ConfigError
from contig.experiments.jobs import Job, run_jobs
from contig.reproduction.archive import check_archive, write_archive
from contig.reproduction.plan import Plan, make_plan

ITEMS = "table2 fig3"


def unpacked(archive: Path, folder: Path) -> Plan:
    """Unpack an archive into a study of its own."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return make_plan(replace(planned(folder, ITEMS).study, out=folder))


def test_an_unpacked_archive_gives_the_same_tables(tmp_path: Path) -> None:
    before = fill(planned(tmp_path / "one", ITEMS))
    weights = before.jobs[0].folder / "best.pt"
    weights.write_bytes(b"large")
    assert write_archive(before.study.out, tmp_path / "all.tar.xz") == len(before.jobs)
    after = unpacked(tmp_path / "all.tar.xz", tmp_path / "two")
    for name in ITEMS.split():
        assert table_of(after, name).sheet() == table_of(before, name).sheet()
    assert not list((tmp_path / "two").rglob("best.pt"))
    assert all(work.done for job in after.jobs for work in after.chain(job))


def partly_done(folder: Path) -> tuple[Plan, Job, Job]:
    """Return a study, one of its runs without an evaluation, and one that is not finished."""
    plan = fill(planned(folder, ITEMS))
    partly, unfinished = plan.jobs[0], plan.jobs[3]
    (partly.folder / LINKS).unlink()
    (unfinished.folder / "metrics.json").unlink()
    return plan, partly, unfinished


def test_a_finished_run_is_kept_with_the_evaluations_it_has(tmp_path: Path) -> None:
    before, partly, unfinished = partly_done(tmp_path / "one")
    assert write_archive(before.study.out, tmp_path / "some.tar.xz") == len(before.jobs) - 1
    after = unpacked(tmp_path / "some.tar.xz", tmp_path / "two")
    assert [job.name for job in after.jobs if not job.folder.exists()] == [unfinished.name]
    kept = tmp_path / "two" / "runs" / partly.name / "evaluations"
    assert [path.name for path in kept.iterdir()] == ["recommend.json"]
    for name in ITEMS.split():
        assert table_of(after, name).sheet() == table_of(before, name).sheet()


def test_what_an_unpacked_run_lacks_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, partly, unfinished = partly_done(tmp_path / "one")
    write_archive(before.study.out, tmp_path / "some.tar.xz")
    after = unpacked(tmp_path / "some.tar.xz", tmp_path / "two")
    started = run_inline(monkeypatch, lambda work, device: None)
    run_jobs([after.chain(job) for job in after.jobs])
    link = Path(LINKS).stem
    assert [work.name for work in started] == [
        name
        for job in (partly, unfinished)
        for name in (job.name, f"{link} of {job.name}", f"recommend of {job.name}")
    ]


def test_finished_runs_of_other_calls_are_kept(tmp_path: Path) -> None:
    fill(planned(tmp_path / "one", ITEMS))
    fewer = fill(planned(tmp_path / "one", "table2", seeds=1))
    everything = len(list((tmp_path / "one" / "runs").iterdir()))
    assert write_archive(fewer.study.out, tmp_path / "all.tar.xz") == everything > len(fewer.jobs)


def test_equal_results_make_equal_archives(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path / "one", "table2"))
    for name in ("a.tar.xz", "b.tar.xz"):
        write_archive(plan.study.out, tmp_path / name)
        for path in (tmp_path / "one").rglob("*.json"):
            path.touch()
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()


def test_paths_that_cannot_be_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"results\.zip: the name of an archive ends in \.tar\.xz"):
        check_archive(tmp_path / "results.zip")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file is a file, not a folder"):
        check_archive(tmp_path / "file" / "results.tar.xz")
