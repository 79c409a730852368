"""An archive has what tables are made of, of complete runs only."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.studies import fill, planned, table_of

from contig.errors import ConfigError
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
    assert write_archive(before, tmp_path / "all.tar.xz") == len(before.jobs)
    after = unpacked(tmp_path / "all.tar.xz", tmp_path / "two")
    for name in ITEMS.split():
        assert table_of(after, name).sheet() == table_of(before, name).sheet()
    assert not list((tmp_path / "two").rglob("best.pt"))
    assert all(work.done for job in after.jobs for work in after.chain(job))


def test_a_run_without_all_its_evaluations_is_left_out(tmp_path: Path) -> None:
    before = fill(planned(tmp_path / "one", ITEMS))
    partly, unfinished = before.jobs[0], before.jobs[3]
    evaluation = next(work for work in before.chain(partly) if work is not partly)
    evaluation.file.unlink()  # type: ignore[attr-defined]
    (unfinished.folder / "metrics.json").unlink()
    assert write_archive(before, tmp_path / "some.tar.xz") == len(before.jobs) - 2
    after = unpacked(tmp_path / "some.tar.xz", tmp_path / "two")
    missing = {job.name for job in after.jobs if not job.folder.exists()}
    assert missing == {partly.name, unfinished.name}


def test_equal_results_make_equal_archives(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path / "one", "table2"))
    for name in ("a.tar.xz", "b.tar.xz"):
        write_archive(plan, tmp_path / name)
        for path in (tmp_path / "one").rglob("*.json"):
            path.touch()
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()


def test_paths_that_cannot_be_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"results\.zip: the name of an archive ends in \.tar\.xz"):
        check_archive(tmp_path / "results.zip")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file is a file, not a folder"):
        check_archive(tmp_path / "file" / "results.tar.xz")
