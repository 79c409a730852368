"""What was acknowledged survives; damage is noticed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live import HEAD, open_engine, rows, state_of
from support.trained import bit_identical

from contig import files
from contig.data.events import EventStream
from contig.errors import ConfigError, DamagedLogError, DataError, DiskError, RunError, StorageFullError
from contig.live import Engine, run_copy, snapshotter
from contig.live.run_copy import copy_run, fingerprint
from contig.live.snapshots import SnapshotFolder
from contig.models.state import NodeState
from contig.runs.folder import RunFolder


@pytest.fixture
def run(live_run: Callable[[str], Path]) -> Path:
    return live_run("contig-pair")


def send(engine: Engine, tiny: EventStream, first: int, last: int, size: int = 7) -> None:
    for start in range(first, last, size):
        engine.observe(rows(tiny, slice(start, min(start + size, last))), batch_id=f"batch {start}")


def copy_of(folder: Path, target: Path) -> Path:
    """What a crash would leave on disk at this moment."""
    return Path(shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".lock")))


def newest(folder: Path) -> Path:
    return SnapshotFolder(folder).files()[0].path


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(bytes(data))


@pytest.fixture
def crashed(run: Path, tiny: EventStream, tmp_path: Path) -> Iterator[tuple[Path, dict[str, object]]]:
    """A folder after a crash, with two snapshots and batches after them; and the state that was lost."""
    with open_engine(tmp_path / "live", run) as engine:
        send(engine, tiny, HEAD, 300)
        engine._snapshots.take()
        send(engine, tiny, 300, 337)
        folder = copy_of(tmp_path / "live", tmp_path / "crashed")
        yield folder, state_of(engine)


Crashed = tuple[Path, dict[str, object]]


def test_a_restart_ends_in_the_state_of_an_engine_that_never_stopped(crashed: Crashed) -> None:
    folder, state = crashed
    with open_engine(folder) as again:
        assert bit_identical(state_of(again), state)
        assert again.status().live_events == 337 - HEAD


def test_events_that_are_applied_by_half_are_never_saved(
    run: Path, tiny: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the log, and would count twice if a snapshot had them, too."""

    def fails(count: int) -> None:
        raise MemoryError

    with open_engine(tmp_path / "live", run) as engine, open_engine(tmp_path / "twin", run) as twin:
        send(engine, tiny, HEAD, 300)
        with monkeypatch.context() as patch:
            patch.setattr(engine._graph.state, "grow", fails)
            with pytest.raises(MemoryError):
                send(engine, tiny, 300, 307)
        for later in (lambda: send(engine, tiny, 307, 314), lambda: engine.embed([int(tiny.src[0])])):
            with pytest.raises(RunError, match="open its folder again"):
                later()
        send(twin, tiny, HEAD, 307)
        expected = state_of(twin)
    with open_engine(tmp_path / "live") as again:
        assert again.status().live_events == 307 - HEAD
        assert bit_identical(state_of(again), expected)


def test_a_query_about_the_past_that_fails_changes_nothing(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        send(engine, tiny, HEAD, 350)
        before, model = state_of(engine), engine._graph.model
        observe = model.observe

        def fails(state: NodeState, *given: Any) -> None:
            observe(state, *given)
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(model, "observe", fails)
            with pytest.raises(MemoryError):
                engine.embed([int(tiny.ids.labels[tiny.src[0]])], tiny.t[305].item(), side="src")
        assert bit_identical(state_of(engine), before)
        assert engine._graph.state.position == engine._graph.base_position


def test_snapshots_that_fail_are_not_repeated_with_every_batch(
    run: Path, tiny: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(snapshotter, "FIRST_PAUSE", 1e6)

    def full(batches: int, content: object) -> None:
        tried.append(batches)
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_engine(tmp_path, run, snapshot_every_events=1) as engine:
        snapshots = engine._snapshots
        with monkeypatch.context() as patch:
            patch.setattr(snapshots.folder, "save", full)
            send(engine, tiny, HEAD, HEAD + 2, 1)
            snapshots.take()
            failed = len(tried)
            for first in range(HEAD + 2, 300):
                send(engine, tiny, first, first + 1)
            assert len(tried) == failed
            assert "No space" in (engine.status().snapshot_error or "")
        snapshots.take()
        assert engine.status().snapshot_error is None


def test_events_that_arrive_in_the_pause_are_saved_after_it(
    run: Path, tiny: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only after the next interval, which is an hour."""
    monkeypatch.setattr(snapshotter, "FIRST_PAUSE", 0.3)
    saved, failed = threading.Event(), threading.Event()

    def full(batches: int, content: object) -> None:
        failed.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_engine(tmp_path, run, snapshot_every_events=1) as engine:
        folder = engine._snapshots.folder
        save = folder.save

        def mended(batches: int, content: Any) -> None:
            save(batches, content)
            saved.set()

        monkeypatch.setattr(folder, "save", full)
        send(engine, tiny, HEAD, HEAD + 1)
        assert failed.wait(60)
        monkeypatch.setattr(folder, "save", mended)
        send(engine, tiny, HEAD + 1, HEAD + 2)
        assert saved.wait(60)


def test_a_damaged_snapshot_does_not_count_as_kept(run: Path, tiny: EventStream, tmp_path: Path) -> None:
    """The log keeps what the good ones do not contain."""
    with open_engine(tmp_path / "live", run, retention="snapshot", keep_snapshots=2) as engine:
        for number, first in enumerate(range(HEAD, 325, 25)):
            if number == 2:
                flip(newest(tmp_path / "live"), 1000)
            send(engine, tiny, first, first + 25)
            engine._snapshots.take()
        state = state_of(engine)
        folder = copy_of(tmp_path / "live", tmp_path / "crashed")
    flip(newest(folder), 1000)
    with open_engine(folder) as again:
        assert bit_identical(state_of(again), state)


def test_the_copy_of_the_run_is_on_disk_before_it_is_used(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    replace = Path.replace

    def replaced(source: Path, target: Path) -> Path:
        synced.append(target)
        return replace(source, target)

    monkeypatch.setattr(files, "sync", lambda path: synced.append(path))
    monkeypatch.setattr(run_copy, "sync", lambda path: synced.append(path))
    monkeypatch.setattr(Path, "replace", replaced)
    copy_run(run, tmp_path)
    moved = synced.index(tmp_path / "run")
    copied = {path.relative_to(tmp_path / "run") for path in (tmp_path / "run").rglob("*")}
    draft = tmp_path / ".run"
    assert {path.relative_to(draft) for path in synced[:moved]} == {*copied, Path()}
    assert synced[moved + 1 :] == [tmp_path]


def test_a_run_on_a_read_only_disk_is_served(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be locked, and need not be."""

    def refused(folder: RunFolder) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "access", lambda path, mode: path != run)
    monkeypatch.setattr(RunFolder, "locked", refused)
    copy_run(run, tmp_path)
    assert fingerprint(tmp_path / "run") == fingerprint(run)


def test_a_copy_that_fails_names_the_file(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr(run_copy, "link_or_copy", full)
    with pytest.raises(DiskError, match=r"could not be copied to .*No space left on device"):
        copy_run(run, tmp_path)


def test_a_damaged_snapshot_is_skipped_with_a_warning(
    crashed: Crashed, caplog: pytest.LogCaptureFixture
) -> None:
    folder, state = crashed
    flip(newest(folder), 1000)
    with caplog.at_level(logging.WARNING), open_engine(folder) as again:
        assert bit_identical(state_of(again), state)
    assert "does not match its checksum" in caplog.text


def test_without_any_snapshot_the_whole_log_is_replayed(crashed: Crashed) -> None:
    folder, state = crashed
    shutil.rmtree(folder / "snapshots")
    with open_engine(folder) as again:
        assert bit_identical(state_of(again), state)


def test_a_truncated_log_is_reported_and_left_as_it_is(crashed: Crashed) -> None:
    folder, _ = crashed
    wal = folder / "log.sqlite-wal"
    os.truncate(wal, wal.stat().st_size - 2000)
    with pytest.raises(DamagedLogError, match="before the last one that was acknowledged"):
        open_engine(folder)


def test_a_log_that_ends_before_its_snapshot_is_reported(crashed: Crashed) -> None:
    folder, _ = crashed
    for name in ("log.sqlite", "log.sqlite-wal", "log.end"):
        (folder / name).unlink()
    with pytest.raises(DamagedLogError, match="ends before its newest snapshot"):
        open_engine(folder)


def test_a_missing_log_is_reported(crashed: Crashed) -> None:
    folder, _ = crashed
    (folder / "log.sqlite").unlink()
    with pytest.raises(DamagedLogError, match="missing"):
        open_engine(folder)


@pytest.mark.parametrize("what", ["pages", "record"])
def test_flipped_bytes_in_the_log_are_reported(
    run: Path, tiny: EventStream, tmp_path: Path, what: str
) -> None:
    with open_engine(tmp_path, run) as engine:
        send(engine, tiny, HEAD, 330)
    path = tmp_path / "log.sqlite"
    if what == "record":
        records = path.read_bytes()
        content = rows(tiny, [HEAD]).t[0].to_bytes(8, "little") * 2  # two events of one time
        flip(path, records.index(content))
    else:
        os.truncate(path, path.stat().st_size // 2)
    before = path.read_bytes()
    with pytest.raises(DamagedLogError, match="Restore"):
        open_engine(tmp_path)
    assert path.read_bytes() == before


def test_a_full_disk_refuses_a_batch_and_changes_nothing(
    run: Path, tiny: EventStream, tmp_path: Path
) -> None:
    with open_engine(tmp_path, run) as engine:
        send(engine, tiny, HEAD, 300)
        before = state_of(engine)
        pages = engine._log._run("PRAGMA page_count").fetchone()[0]
        engine._log._run(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageFullError, match="free some space"):
            engine.observe(rows(tiny, slice(300, 400)), batch_id="x" * 100_000)  # more than the last page
        assert bit_identical(state_of(engine), before)
        engine._log._run("PRAGMA max_page_count = 1000000")
        send(engine, tiny, 300, 337)
        after = state_of(engine)
    with open_engine(tmp_path) as again:
        assert bit_identical(state_of(again), after)


def test_a_batch_that_is_sent_again_changes_nothing(run: Path, tiny: EventStream, tmp_path: Path) -> None:
    late = rows(tiny, [0, HEAD, HEAD + 1])
    with open_engine(tmp_path, run) as engine:
        first = engine.observe(late, "one")
        assert (first.accepted, [r.row for r in first.rejected], first.repeated) == (2, [0], False)
        engine.observe(rows(tiny, slice(HEAD + 2, 300)))
        state = state_of(engine)
        again = engine.observe(late, "one")
        assert again.repeated
        assert (again.accepted, again.rejected, again.last_time) == (2, first.rejected, first.last_time)
        with pytest.raises(DataError, match="used for other events"):
            engine.observe(rows(tiny, [HEAD]), "one")
    with open_engine(tmp_path) as engine:
        assert engine.observe(late, "one").repeated
        assert bit_identical(state_of(engine), state)


def test_compaction_drops_what_snapshots_contain(run: Path, tiny: EventStream, tmp_path: Path) -> None:
    with open_engine(tmp_path, run, retention="snapshot", keep_snapshots=2) as engine:
        for first in range(HEAD, 350, 25):
            send(engine, tiny, first, first + 25)
            engine._snapshots.take()
        assert engine._log.first_batch == 12  # those of the last 25 events before the newest are kept
        assert len(SnapshotFolder(tmp_path).files()) == 2
        state = state_of(engine)
        folder = copy_of(tmp_path, tmp_path.with_name("copy"))
    flip(newest(folder), 1000)
    with open_engine(folder) as again:
        assert bit_identical(state_of(again), state)
        assert again.observe(rows(tiny, slice(HEAD, HEAD + 7)), f"batch {HEAD}").repeated


def test_no_snapshot_and_a_compacted_log_is_an_error(run: Path, tiny: EventStream, tmp_path: Path) -> None:
    with open_engine(tmp_path, run, retention="snapshot", keep_snapshots=1) as engine:
        send(engine, tiny, HEAD, 300)
    shutil.rmtree(tmp_path / "snapshots")
    with pytest.raises(DamagedLogError, match="no usable snapshot"):
        open_engine(tmp_path)


def test_two_engines_cannot_share_a_folder(run: Path, tmp_path: Path) -> None:
    with open_engine(tmp_path, run), pytest.raises(RunError, match=f"process {os.getpid()}"):
        open_engine(tmp_path)


def test_a_folder_keeps_its_own_run(
    run: Path, live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="not a live folder yet"):
        open_engine(tmp_path / "live")
    moved = Path(shutil.copytree(run, tmp_path / "run"))
    open_engine(tmp_path / "live", moved).close()
    shutil.rmtree(moved)
    with open_engine(tmp_path / "live", moved) as engine:  # it has a copy
        assert engine.status().live_events == 0
    with pytest.raises(RunError, match="serves another version") as refused:
        open_engine(tmp_path / "live", live_run("contig"))
    place = tmp_path / "live"
    assert f"contig serve {place / 'run'} --folder {place}. To serve the new one" in str(refused.value)
    open_engine(place, place / "run").close()  # as the message says


@pytest.mark.parametrize("batch_id", ["", 5, "half \ud83d"])
def test_a_batch_id_that_cannot_be_stored_is_refused(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path, batch_id: Any
) -> None:
    with open_engine(tmp_path, live_run("contig")) as engine:
        with pytest.raises(ConfigError, match="batch_id="):
            engine.observe(rows(tiny, slice(HEAD, HEAD + 3)), batch_id=batch_id)
        assert engine.status().live_events == 0
        assert engine.observe(rows(tiny, slice(HEAD, HEAD + 3)), batch_id="a").accepted == 3


def test_a_wall_clock_that_goes_backwards_does_not_matter(
    run: Path, tiny: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    with open_engine(tmp_path, run, snapshot_every_events=20) as engine:
        send(engine, tiny, HEAD, 337)
        engine._snapshots.take()
        status = engine.status()
        state = state_of(engine)
    assert status.uptime_s >= 0
    assert (status.snapshot_age_s or 0) >= 0
    with open_engine(tmp_path) as again:
        assert bit_identical(state_of(again), state)
