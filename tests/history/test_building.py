"""An index of Parquet files: equal to reading them into memory, resumable, and never half-built."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from support.memory_flags import is_read_by_page
from support.processes import fork, join

import contig
from contig.data import mapped_arrays
from contig.data.index_folder import BUILDING, HEAD, folder_of, is_index
from contig.data.indexing import database
from contig.data.indexing.column_files import ColumnFile
from contig.data.indexing.events import Budget
from contig.data.read_options import ReadOptions
from contig.data.readers import parquet
from contig.errors import ConfigError, DataError, DiskError, RunError
from contig.history import History, TimeScale, building, stored_evidence, time_scale
from contig.history.building import build, build_index
from contig.history.evidence import EvidenceSpec, follows, incoming, meeting, node
from contig.kernels.dispatch import disabled
from contig.live import Engine, Events
from contig.locks import LOCK

pytest.importorskip("duckdb", reason="an index needs the extra index")

SMALL = Budget(duckdb_bytes=64 << 20, events=37, entries=61)  # several parts and several ranges of nodes


def write_files(folder: Path, sizes: tuple[int, ...] = (70, 41, 23), **changes: Any) -> Path:
    """Write files of events out of order, with equal times, self-loops and features."""
    rng, folder = np.random.default_rng(3), folder / "files"
    folder.mkdir()
    for number, size in enumerate(sizes):
        src, dst = rng.integers(5, 17, size), rng.integers(5, 21, size)
        columns = {
            "src": src,
            "dst": np.where(rng.random(size) < 0.1, src, dst),
            "t": rng.integers(0, 50, size) + 10 * number,
            "label": rng.integers(0, 2, size),
            "features": list(rng.random((size, 3), dtype=np.float32)),
        }
        columns |= {name: make(columns, size) for name, make in changes.items()}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return folder


TEXT = {"src": lambda c, n: [f"ä{x:04}" for x in c["src"]]}  # then the other ids become text, too
USERS = {**TEXT, "dst": lambda c, n: [f"item {x}" for x in c["dst"]]}
DATES = {"t": lambda c, n: pa.array(c["t"] * 1_000_000, pa.timestamp("us"))}
FRACTIONS = {"t": lambda c, n: pa.array(c["t"] * 1_500_000, pa.timestamp("us", "UTC"))}
FLOATS = {"t": lambda c, n: c["t"] / 3, "src": lambda c, n: c["src"].astype(float)}
MISSING = {"label": lambda c, n: pa.array(c["label"], mask=np.arange(n) % 3 == 0)}
MISSING_FLOATS = {"label": lambda c, n: np.where(np.arange(n) % 3 == 0, np.nan, c["label"])}


@pytest.mark.parametrize("changes", [{}, TEXT, USERS, DATES, FRACTIONS, FLOATS, MISSING, MISSING_FLOATS])
def test_index_equals_reading_the_files(tmp_path: Path, changes: dict[str, Any]) -> None:
    files = write_files(tmp_path, **changes)
    build([files], tmp_path / "index", ReadOptions(), SMALL)
    expected, found = contig.read_events(files), contig.read_events(tmp_path / "index")
    assert expected.equals(found)
    assert found.dates == expected.dates == (changes in (DATES, FRACTIONS))
    assert found.fingerprint() == expected.fingerprint()
    assert found.ids.labels.tolist() == expected.ids.labels.tolist()
    assert dict(found.ids.index) == expected.ids.index
    for label in (*expected.ids.labels.tolist(), -1, "", "zz", 10**12):
        assert [found.ids.number_of(label, dst=dst) for dst in (False, True)] == [
            expected.ids.number_of(label, dst=dst) for dst in (False, True)
        ]
    ours, theirs = History.from_stream(found), History.from_stream(expected)
    _check_equal(ours, theirs)
    assert ours.segments.longest == theirs.segments.longest


def _check_equal(one: History, other: History) -> None:
    """Both histories have the same columns and entries."""
    expected, found = one.saved_arrays(), other.saved_arrays()
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert torch.equal(array, found[name]), name


def test_a_file_that_changes_while_it_is_indexed_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows and times stay, so that the number of events in each part does, too."""
    files, write = write_files(tmp_path), building.write_events

    def changing(*given: Any) -> Any:
        table = pq.read_table(files / "1.parquet")
        pq.write_table(
            table.set_column(1, "dst", table["dst"].take(list(range(40, -1, -1)))), files / "1.parquet"
        )
        return write(*given)

    monkeypatch.setattr(building, "write_events", changing)
    with pytest.raises(DataError, match=r"1\.parquet changed while it was indexed\. Repeat the command"):
        build([files], tmp_path / "index", ReadOptions(), SMALL)
    assert not is_index(tmp_path / "index")
    monkeypatch.undo()
    build([files], tmp_path / "index", ReadOptions(), SMALL)
    assert contig.read_events(files).equals(contig.read_events(tmp_path / "index"))


def test_a_file_is_indexed_once(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    with pytest.raises(ConfigError, match=r"0\.parquet is given 2 times"):
        build_index([files / "0.parquet", files], tmp_path / "index")


def test_rows_that_are_rejected_while_sorting_leave_no_build_to_resume(tmp_path: Path) -> None:
    def last_missing(columns: dict[str, Any], size: int) -> list[Any]:
        return [*columns["features"][:-1], np.full(3, np.nan, np.float32)]

    with pytest.raises(DataError, match="a feature is missing or not a finite"):
        build_index(write_files(tmp_path, features=last_missing), tmp_path / "index")
    assert not (tmp_path / "index" / BUILDING).exists()


def test_reference_of_the_placement_agrees(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    with disabled():
        build([files], tmp_path / "index", ReadOptions(), SMALL)
        found = History.from_stream(contig.read_events(tmp_path / "index"))
    _check_equal(found, History.from_stream(contig.read_events(files)))


def test_columns_are_mapped_not_read(tmp_path: Path) -> None:
    build_index([write_files(tmp_path)], tmp_path / "index")
    stream = contig.read_events(tmp_path / "index")
    assert isinstance(stream.src, np.memmap)
    assert isinstance(stream.edge_features, np.memmap)
    assert folder_of(stream) == tmp_path / "index"
    assert folder_of(stream[3:]) is None  # its history is not the saved one
    part = History.from_stream(stream[3:])
    assert part.num_events == len(stream) - 3


def test_appending_to_the_history_leaves_the_files_unchanged(tmp_path: Path) -> None:
    folder = build_index(write_files(tmp_path), tmp_path / "index")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    stream = contig.read_events(folder)
    history, plain = History.from_stream(stream), History.from_stream(contig.read_events(tmp_path / "files"))
    last = int(stream.t[-1])
    new = (torch.tensor([2, 30]), torch.tensor([5, 2]), torch.tensor([last, last + 4]))
    for one in (history, plain):
        one.append(*new, torch.ones(2, 3))
    nodes = torch.arange(31)
    ours, theirs = (one.before(nodes, torch.full((31,), last + 9), 6) for one in (history, plain))
    assert torch.equal(ours.event, theirs.event)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_first_part_of_an_index_cannot_grow(tmp_path: Path) -> None:
    """It shares the arrays of the whole, which would give other answers."""
    stream = contig.read_events(build_index(write_files(tmp_path), tmp_path / "index"))
    whole = History.from_stream(stream)
    nodes = torch.arange(stream.num_nodes)
    ends = torch.full((stream.num_nodes,), int(stream.t[-1]) + 1)
    before = whole.before(nodes, ends, 6).event.clone()
    part, last = whole.only(np.arange(40)), torch.tensor([int(stream.t[-1])])
    with pytest.raises(DataError, match="first part of an index"):
        part.append(torch.tensor([2]), torch.tensor([5]), last, torch.ones(1, 3))
    assert torch.equal(whole.before(nodes, ends, 6).event, before)


def test_evidence_is_stored_with_the_index_and_grows(tmp_path: Path) -> None:
    folder = build_index(write_files(tmp_path, (300, 211)), tmp_path / "index")
    spec = EvidenceSpec((3.0, 20.0), nodes=True, steps=(1, 3))
    streams = contig.read_events(tmp_path / "files"), contig.read_events(folder)
    plain, mapped = (History.from_stream(stream) for stream in streams)
    beginning = np.arange(int(np.searchsorted(streams[0].t, streams[0].t[200], side="right")))
    first, started = plain.only(beginning), mapped.only(beginning)
    for number in range(3):
        _compare_evidence(plain, mapped, spec, end=200)
        if not number:  # the beginning of the mapped history answers as its own history would
            _compare_evidence(first, started, spec, end=int(streams[0].t[len(beginning) - 1]))
            assert started.segments.entry_event.data_ptr() == mapped.segments.entry_event.data_ptr()
            stored = {path: path.read_bytes() for path in folder.glob("evidence-*/*")}
            assert len(stored) == 7
        again = History.from_stream(contig.read_events(folder))
        _compare_evidence(History.from_stream(streams[0]), again, spec, end=200)
        rng = np.random.default_rng(number)  # more and more events, beyond the space that files leave
        new = [torch.from_numpy(rng.integers(0, 25, 10 ** (number + 2))) for _ in range(2)]
        t = torch.full((len(new[0]),), int(plain.events["t"][-1]) + 1)
        for history in (plain, mapped):
            history.append(*new, t, torch.ones(len(t), 3))
    assert {path: path.read_bytes() for path in folder.glob("evidence-*/*")} == stored


def test_events_that_were_appended_first_are_counted_and_not_stored(tmp_path: Path) -> None:
    """Evidence that is asked for after events were appended, whether or not it was stored before."""
    folder = build_index(write_files(tmp_path, (300, 211)), tmp_path / "index")
    spec = EvidenceSpec((3.0, 20.0), nodes=True, steps=(1, 3))
    streams = contig.read_events(tmp_path / "files"), contig.read_events(folder)
    rng = np.random.default_rng(0)
    new = [torch.from_numpy(rng.integers(0, 12, 57)) for _ in range(2)]
    for _ in range(2):
        plain, mapped = (History.from_stream(stream) for stream in streams)
        last = int(plain.events["t"][-1])
        for history in (plain, mapped):
            history.append(*new, torch.full((57,), last + 1), torch.ones(57, 3))
        _compare_evidence(plain, mapped, spec, end=2 * last)  # half of the queries see what was appended
        _compare_evidence(*(History.from_stream(stream) for stream in streams), spec, end=2 * last)


def test_damage_of_stored_evidence_is_noticed(tmp_path: Path) -> None:
    folder = build_index(write_files(tmp_path), tmp_path / "index")
    spec = EvidenceSpec((3.0, 20.0), nodes=True, steps=(1, 3))
    History.from_stream(contig.read_events(folder)).evidence(spec)
    files = sorted(folder.glob("evidence-*/*.npy"))
    assert len(files) == 6
    rng = np.random.default_rng(3)
    for path in files:
        content = path.read_bytes()
        for at in rng.integers(0, len(content), 5):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << rng.integers(8)]) + content[at + 1 :])
            with pytest.raises(DataError, match=rf"{path.name} does not match .* remove it"):
                History.from_stream(contig.read_events(folder)).evidence(spec)
        path.write_bytes(content[:-1])
        with pytest.raises(DataError, match=rf"{path.name} does not match .* remove it"):
            History.from_stream(contig.read_events(folder)).evidence(spec)
        path.write_bytes(content)  # as in a copy: another time, the same checksum
        History.from_stream(contig.read_events(folder)).evidence(spec)
    head = next(folder.glob("evidence-*/evidence.json"))
    content = json.loads(head.read_text())
    for broken in ([], {**content, "events": 3}, {**content, "events": {**content["events"], "files": [1]}}):
        head.write_text(json.dumps(broken))
        with pytest.raises(DataError, match="is damaged"):
            History.from_stream(contig.read_events(folder)).evidence(spec)
    for part in content.values():
        del part["files"]  # as in older ones
    head.write_text(json.dumps(content))
    History.from_stream(contig.read_events(folder)).evidence(spec)


def test_stored_evidence_of_another_format_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, spec = build_index(write_files(tmp_path), tmp_path / "index"), EvidenceSpec()
    now = stored_evidence.evidence_folder(index, spec)
    assert now == stored_evidence.evidence_folder(index, spec)
    monkeypatch.setattr(stored_evidence, "FORMAT", stored_evidence.FORMAT + 1)
    later = stored_evidence.evidence_folder(index, spec)
    monkeypatch.undo()
    monkeypatch.setattr(stored_evidence, "LAYOUT", (*stored_evidence.LAYOUT[:1], 30))
    assert len({now, later, stored_evidence.evidence_folder(index, spec)}) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="forks as Unix has them")
def test_what_a_killed_process_has_counted_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_index(write_files(tmp_path), tmp_path / "index")
    history, spec = History.from_stream(contig.read_events(folder)), EvidenceSpec((3.0,))
    foreign, unsigned = folder / ".evidence-there", folder / ".evidence-unsigned"
    for other in (foreign, unsigned):
        other.mkdir()
    (foreign / LOCK).write_text('{"pid": 1, "host": "another machine", "started": "today"}')

    def killed(make: Any, decays: Any, time: Any, zeros: Any) -> None:
        zeros("table", (5,), torch.int64)
        os.kill(os.getpid(), signal.SIGKILL)

    def evidence() -> int:
        history.evidence(spec)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(stored_evidence.KeyedEvents, "of_parts", killed)
        assert join(fork(evidence)) == -signal.SIGKILL
    (left,) = set(folder.glob(".evidence-*")) - {foreign, unsigned}
    assert len(list(left.rglob("*.npy"))) == 1

    count, living = stored_evidence.KeyedEvents.of_parts, []

    def watched(*given: Any) -> Any:
        """Let another process begin to count in the meantime."""
        assert not left.exists()
        assert join(fork(lambda: stored_evidence._remove_abandoned(folder) or 0)) == 0
        living.extend(set(folder.glob(".evidence-*")) - {foreign, unsigned})
        return count(*given)

    monkeypatch.setattr(stored_evidence.KeyedEvents, "of_parts", watched)
    evidence()
    assert len(set(living)) == 1  # nobody has removed it while it was in use
    assert (
        len(list(folder.glob("evidence-*/*"))) == 7
    )  # the head, and three arrays each of pairs and transitions
    assert set(folder.glob(".evidence-*")) == {foreign, unsigned}
    assert list(foreign.iterdir())


def _compare_evidence(one: History, other: History, spec: EvidenceSpec, end: int) -> None:
    rng = np.random.default_rng(1)
    src, dst, t = (torch.from_numpy(rng.integers(0, high, 400)) for high in (20, 20, end))
    evidence = [history.evidence(spec) for history in (one, other)]
    for keys in (meeting(src, dst), node(src), incoming(dst)):
        expected, found = (part.events.features(keys, t, 2.0) for part in evidence)
        assert torch.equal(expected, found)
        assert found.any()
    expected, found = (part.transitions.features(follows(src, dst, 3), t, 2.0) for part in evidence)
    assert torch.equal(expected, found)
    times = torch.full((20,), end)
    ours, theirs = (history.before(torch.arange(20), times, 5) for history in (one, other))
    assert torch.equal(ours.event, theirs.event)


def test_full_disk_leaves_nothing_that_looks_whole_and_the_build_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = write_files(tmp_path), tmp_path / "index"
    append, left = ColumnFile.append, 0

    def fail_later(self: ColumnFile, rows: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            append(self, rows[: len(rows) // 2])
            raise DiskError(errno.ENOSPC, "No space left on device")
        append(self, rows)

    monkeypatch.setattr(ColumnFile, "append", fail_later)
    for left in (1, 9, 17, 2, 12, 5):  # writes until the disk is full, again and again  # noqa: B007
        with pytest.raises(DiskError):
            build([files], folder, ReadOptions(), SMALL)
        assert not is_index(folder)
        with pytest.raises(DataError, match="interrupted"):
            contig.read_events(folder)
    monkeypatch.setattr(ColumnFile, "append", append)
    build([files], folder, ReadOptions(), SMALL)
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] + [".npy"] * 12
    expected = contig.read_events(files)
    assert expected.equals(contig.read_events(folder))
    _check_equal(History.from_stream(contig.read_events(folder)), History.from_stream(expected))


@pytest.mark.parametrize("moved", [0, 1, 7, 12])
def test_a_build_resumes_that_ended_while_its_files_were_moved(
    moved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, folder = write_files(tmp_path), tmp_path / "index"
    move, left = Path.replace, moved

    def end_later(self: Path, target: Path) -> Path:
        nonlocal left
        if self.suffix == ".npy" and self.parent.name == "building":
            if not left:
                raise KeyboardInterrupt
            left -= 1
        return move(self, target)

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", end_later)
    monkeypatch.setattr(building, "write_head", end)
    with pytest.raises(KeyboardInterrupt):
        build([files], folder, ReadOptions(), SMALL)
    assert len(list(folder.glob("*.npy"))) == moved
    monkeypatch.undo()
    build([files], folder, ReadOptions(), SMALL)
    expected = contig.read_events(files)
    assert expected.equals(contig.read_events(folder))
    _check_equal(History.from_stream(contig.read_events(folder)), History.from_stream(expected))


def test_a_column_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limit of file sizes")
    file = ColumnFile(tmp_path / "t.npy", np.dtype("<i8"), (100_000,))
    file.open(0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_001, before[1]))
    try:
        with pytest.raises(DiskError, match=r"t\.npy: File too large"):
            file.append(np.arange(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        file.close()


@pytest.mark.skipif(sys.platform == "win32", reason="signals as Unix has them")
@pytest.mark.usefixtures("usual_ctrl_c")
def test_ctrl_c_ends_a_build_during_any_call_of_duckdb_and_it_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Press it during the first call, then during the second of the next attempt, and so on."""
    files, folder, attempts = write_files(tmp_path), tmp_path / "index", 0
    call, left = database.Database._checked, 0

    @contextmanager
    def pressed(self: database.Database) -> Iterator[None]:
        nonlocal left
        left -= 1
        with call(self):
            if not left:
                with suppress(BaseException):  # as in an import by DuckDB
                    os.kill(os.getpid(), signal.SIGINT)
            yield

    monkeypatch.setattr(database.Database, "_checked", pressed)
    while not is_index(folder):
        attempts += 1
        left = attempts
        if attempts > 100:
            pytest.fail("the build does not end")
        try:
            build([files], folder, ReadOptions(), SMALL)
        except KeyboardInterrupt:
            assert not is_index(folder)
        else:
            assert left > 0  # Ctrl-C was not pressed
    assert attempts > 15
    assert contig.read_events(files).equals(contig.read_events(folder))


@pytest.mark.skipif(sys.platform == "win32", reason="signals as Unix has them")
@pytest.mark.usefixtures("usual_ctrl_c")
def test_ctrl_c_ends_a_build_while_it_opens_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Press it in each place in turn where a file is opened, also where the exception gets lost."""
    files, ends, left = write_files(tmp_path), [], 0
    opened = pq.ParquetFile

    def pressed(*given: Any, **more: Any) -> pq.ParquetFile:
        nonlocal left
        left -= 1
        if not left:
            with suppress(BaseException):
                os.kill(os.getpid(), signal.SIGINT)
        return opened(*given, **more)

    monkeypatch.setattr(parquet.pq, "ParquetFile", pressed)
    for attempt in range(1, 7):  # each of three files is opened twice
        left = attempt
        with pytest.raises(KeyboardInterrupt):
            build([files], tmp_path / f"index-{attempt}", ReadOptions(), SMALL)
        ends.append(left)
    assert ends == [0] * 6  # no other file was opened after that


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_passes_over_an_index_read_it_in_advance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_index(write_files(tmp_path), tmp_path / "index")
    monkeypatch.setattr(mapped_arrays, "memory_size", lambda: 1)
    history = History.from_stream(contig.read_events(folder))
    scattered = [history.events["features"], history.segments.entry_time, history.segments.entry_event]

    def by_page() -> list[bool]:
        return [is_read_by_page(one.data_ptr()) for one in scattered]

    assert by_page() == [True] * 3
    with history.read_in_order():
        assert by_page() == [False] * 3
    assert by_page() == [True] * 3
    found = []
    intervals = time_scale._intervals
    monkeypatch.setattr(time_scale, "_intervals", lambda of: found.append(by_page()) or intervals(of))
    TimeScale.of(history)
    assert found == [[False] * 3]


def test_resuming_sorts_only_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, folder = write_files(tmp_path), tmp_path / "index"
    monkeypatch.setattr(building, "count_entries", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build([files], folder, ReadOptions(), SMALL)
    monkeypatch.undo()
    monkeypatch.setattr(building, "connected", lambda *_: pytest.fail("DuckDB was used again"))
    build([files], folder, ReadOptions(), SMALL)
    assert contig.read_events(files).equals(contig.read_events(folder))


def test_changed_files_are_indexed_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, folder = write_files(tmp_path), tmp_path / "index"
    monkeypatch.setattr(building, "count_entries", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build([files], folder, ReadOptions(), SMALL)
    monkeypatch.undo()
    (files / "1.parquet").unlink()
    build([files], folder, ReadOptions(), SMALL)
    assert len(contig.read_events(folder)) == 93
    build([files], folder, ReadOptions(), SMALL)  # up to date: nothing to do
    (files / "0.parquet").unlink()
    with pytest.raises(ConfigError, match=r"index of other files, or files that changed\. .*overwrite"):
        build([files], folder, ReadOptions(), SMALL)
    build([files], folder, ReadOptions(), SMALL, overwrite=True)
    assert len(contig.read_events(folder)) == 23


def test_an_index_with_other_options_names_them(tmp_path: Path) -> None:
    files, folder = write_files(tmp_path), tmp_path / "index"
    build([files], folder, ReadOptions(label="label"), SMALL)
    message = r"index of these files, read with other options\. .*overwrite"
    with pytest.raises(ConfigError, match=message):
        build([files], folder, ReadOptions(bipartite=False), SMALL)
    build([files], folder, ReadOptions(bipartite=False), SMALL, overwrite=True)


def test_runs_on_an_index_know_the_columns_that_were_named_for_it(tmp_path: Path) -> None:
    rows = {"who": ["a", "b", "c"] * 20, "what": ["x", "y"] * 30, "when": list(range(60))}
    pq.write_table(pa.table({"sku": ["other"] * 60, **rows}), tmp_path / "log.parquet")
    named = ReadOptions(src="who", dst="what", t="when")
    folder = build_index(tmp_path / "log.parquet", tmp_path / "index", reading=named)
    run = contig.fit(folder, "popularity", out=tmp_path / "run", show=False)
    later = pa.table({"sku": ["z"], "what": ["x"], "who": ["a"], "when": [99]})
    assert contig.Run.open(run.path).observe(later) == 1


def test_a_new_disk_may_hold_an_index(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "lost+found").mkdir(parents=True)
    (disk / ".DS_Store").touch()
    assert build_index(write_files(tmp_path), disk) == disk
    assert (disk / "lost+found").is_dir()


def test_an_index_is_not_built_in_place_of_a_file(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    (tmp_path / "taken").write_text("mine")
    for out in (tmp_path / "taken", tmp_path / "taken" / "index"):
        with pytest.raises(ConfigError, match=r"cannot hold an index: .*taken is a file; choose a folder"):
            build_index(files, out)
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_index_is_not_built_among_other_files(tmp_path: Path, overwrite: bool) -> None:
    files, folder = write_files(tmp_path), tmp_path / "run"
    contig.fit(contig.read_events(files), "edgebank", out=folder, show=False)
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(ConfigError, match="run is not an index and not empty; choose another folder"):
        build([files], folder, ReadOptions(), SMALL, overwrite=overwrite)
    assert {path.name for path in folder.iterdir()} == before
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".lock").touch()  # which a killed build leaves
    assert is_index(build([files], tmp_path / "empty", ReadOptions(), SMALL))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("complete", [True, False])
def test_a_run_is_not_made_in_an_index(tmp_path: Path, overwrite: bool, complete: bool) -> None:
    files, folder = write_files(tmp_path), tmp_path / "index"
    build([files], folder, ReadOptions(), SMALL)
    if not complete:
        (folder / HEAD).unlink()
        (folder / BUILDING).mkdir()
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(RunError, match="index is an index; choose another folder"):
        contig.fit(contig.read_events(files), "edgebank", out=folder, overwrite=overwrite, show=False)
    assert {path.name for path in folder.iterdir()} == before


def test_rejected_files_leave_nothing_behind(tmp_path: Path) -> None:
    write_files(tmp_path)
    with pytest.raises(DataError, match="no column 'nobody'"):
        build_index(tmp_path / "files", tmp_path / "index", reading=ReadOptions(src="nobody"))
    assert not (tmp_path / "index" / "building").exists()
    (tmp_path / "log.csv").write_text("src,dst,t\n1,2,3\n")
    with pytest.raises(DataError, match=r"log.csv is not a Parquet file, and an index is built from"):
        build_index(tmp_path / "log.csv", tmp_path / "index")


def test_damage_and_wrong_options_are_refused(tmp_path: Path) -> None:
    folder = build_index(write_files(tmp_path), tmp_path / "index")
    with pytest.raises(ConfigError, match="whose columns are fixed: 'src'"):
        contig.read_events(folder, src="who")
    assert contig.read_events(folder, features=False).edge_features is None
    content = bytearray((folder / "entry_node.npy").read_bytes())
    content[-1] ^= 1
    (folder / "entry_node.npy").write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"entry_node.npy is damaged"):
        contig.read_events(folder)
    head = json.loads((folder / HEAD).read_text())
    (folder / HEAD).write_text(json.dumps(head | {"schema": 99}))
    with pytest.raises(DataError, match="Upgrade contig"):
        contig.read_events(folder)


def _compare_live(*runs: Path) -> None:
    """Engines that serve the runs answer alike after live events, one of them of a new node."""
    events = Events([7, 99, 9], [11, 7, 99], [60, 61, 62], np.ones((3, 3), np.float32))
    answers = []
    for run in runs:
        with Engine.open(run.with_name(f"{run.name}-live"), run) as engine:
            engine.observe(events)
            answers.append(engine.score([7, 99], [9, 11]).score)
    assert np.array_equal(*answers)


def test_runs_train_on_an_index_as_on_files_and_survive_it(tmp_path: Path) -> None:
    files = write_files(tmp_path, (300, 200))
    folder = build_index(files, tmp_path / "index")
    settings = {"epochs": 1, "batch_size": 50, "show": False}
    runs = [
        contig.fit(source, "contig-pair", out=tmp_path / f"run{number}", **settings)
        for number, source in enumerate((files, folder))
    ]
    assert runs[0].metrics.transductive.ap == runs[1].metrics.transductive.ap
    shares = [run.evaluate("recommend").result.transductive.mrr for run in runs]
    assert shares[0] == shares[1]
    _compare_live(tmp_path / "run0", tmp_path / "run1")
    assert (tmp_path / "run1/stream/src.npy").samefile(folder / "src.npy")  # not a copy
    assert not list((tmp_path / "run1").rglob("evidence-*"))  # those of the index are used
    shutil.rmtree(folder)
    opened = contig.Run.open(tmp_path / "run1")
    assert np.array_equal(opened.score([7, 9], [11, 7]).score, runs[0].score([7, 9], [11, 7]).score)


def test_runs_on_an_index_are_updated_as_on_files(tmp_path: Path) -> None:
    files = write_files(tmp_path, (300, 200))
    last = int(contig.read_events(files).t[-1])
    more = [
        pa.table(
            {
                "src": [9, 7],
                "dst": [7, 9000 + i],
                "t": [last + 2 * i, last + 2 * i + 1],
                "features": [[0.5, i, 2.0], [1.0, 0.0, 0.5]],
            }
        )
        for i in (1, 2)
    ]
    scores = []
    for number, source in enumerate((files, build_index(files, tmp_path / "index"))):
        folder = tmp_path / f"run{number}"
        contig.fit(source, "jodie", out=folder, epochs=1, batch_size=50, dim=6, show=False)
        unknown = contig.Run.open(folder).score([7, 8888], [9001, 7])
        assert unknown.cold_start.all()
        scores.append(unknown.score)
        for events in more:
            contig.Run.open(folder).observe(events)
        opened = contig.Run.open(folder)
        assert opened.stream.src.dtype == np.int64
        scores.append(opened.score([7, 9, 9], [9002, 7, 9001]).score)
    assert np.array_equal(scores[0], scores[2])
    assert np.array_equal(scores[1], scores[3])
