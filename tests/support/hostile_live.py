"""Attacks on a live engine: kills, damage, full disks, two engines at once.

The client of every attack sends the same batches, each with an id, and sends a batch again if it was not
acknowledged. However it is disturbed, the engine must end in the state of one that was not.
"""

from __future__ import annotations

import inspect
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from contig import files
from contig.errors import DiskError, RunError
from contig.live import Engine, Events, Settings, recovery
from contig.live.log import EventLog
from contig.live.snapshots import FOLDER as SNAPSHOTS
from contig.live.snapshots import SnapshotFolder
from contig.live.snapshotter import Snapshotter
from support.hostile import FINISHED, _damage, _empty, outcome, small_disk
from support.live import HEAD, state_of, train_for_serving
from support.processes import REFUSED, fork, join
from support.trained import bit_identical, tiny_stream

MODEL = "contig-pair"


def batches() -> list[Events]:
    """What the client sends: batches of many sizes, with events that come late, and new nodes."""
    stream, rng = tiny_stream(), np.random.default_rng(8)
    names = stream.ids.labels
    src, dst, t = (column[HEAD:].tolist() for column in (names[stream.src], names[stream.dst], stream.t))
    found, at = [], 0
    while at < len(t):
        end = at + int(rng.choice([1, 2, 3, 8]))
        columns = [list(column[at:end]) for column in (src, dst, t)]
        if rng.random() < 0.3:
            columns[2][0] -= int(rng.integers(1, 9))
        if rng.random() < 0.2:
            columns[0][-1] = 1000 + at
        found.append(Events(*columns))
        at = end
    return found


class LiveReference:
    """A trained run, the batches, and the state of an engine that nobody disturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.batches = folder, batches()

    @cached_property
    def run(self) -> Path:
        return train_for_serving(self.folder / "run", MODEL)

    @cached_property
    def states(self) -> dict[str, Any]:
        """The state after all batches, by what happens to late events."""
        return {late: self._undisturbed(late) for late in ("reject", "accept")}

    def _undisturbed(self, late: str) -> Any:
        folder = _empty(self.folder / f"undisturbed-{late}")
        with self.engine(folder, late=late) as engine:
            self.send(engine, 0)
            return state_of(engine)

    @cached_property
    def crashed(self) -> Path:
        """A folder with all batches, some snapshots and a log that was not closed."""
        folder = _empty(self.folder / "crashed")
        with self.engine(self.folder / "crashing", late="accept", snapshot_every_events=10**9) as engine:
            half = len(self.batches) // 2
            self.send(engine, 0, half)
            engine._snapshots.take()
            self.send(engine, half)
            shutil.copytree(engine.folder, folder, ignore=shutil.ignore_patterns(".lock"))
        return folder

    def engine(self, folder: Path, **settings: Any) -> Engine:
        return Engine.open(folder, self.run, Settings.of(**settings), "cpu")

    def send(self, engine: Engine, first: int, stop: int | None = None) -> None:
        """Send batches from a number on."""
        for _ in self.sending(engine, first, stop):
            pass

    def sending(self, engine: Engine, first: int, stop: int | None = None) -> Iterator[int]:
        """Send batches from a number on; yield the number of each that was acknowledged."""
        for number in range(first, len(self.batches) if stop is None else stop):
            engine.observe(self.batches[number], f"batch {number}")
            yield number

    def finish(self, folder: Path, first: int, settings: dict[str, Any]) -> str:
        """Send the rest; the state must be that of an undisturbed engine."""
        with self.engine(folder, **settings) as engine:
            known = engine._log.receipt(f"batch {first - 1}") if first else True
            if not known:
                return "LOST an acknowledged batch"
            self.send(engine, first)
            if not bit_identical(state_of(engine), self.states[settings["late"]]):
                return "DIFFERENT state"
        left = [path.name for path in (folder / SNAPSHOTS).glob(".*")]
        return f"LEFT {left[0]}" if left else "same"


def drawn_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Settings under which snapshots and compactions happen all the time."""
    return {
        "late": str(rng.choice(["reject", "accept"])),
        "snapshot_every_events": int(rng.choice([1, 5, 20])),
        "keep_snapshots": int(rng.integers(1, 4)),
        "retention": str(rng.choice(["all", "snapshot"])),
    }


def live_killed(rng: np.random.Generator, reference: LiveReference, folder: Path) -> str:
    """Kill an engine with SIGKILL while it takes in events, up to three times, then let it finish."""
    reference.states, reference.run  # noqa: B018 - computed before the first fork
    out, settings, acknowledged = _empty(folder / "live"), drawn_settings(rng), 0
    for _ in range(int(rng.integers(1, 4))):
        moment = drawn_moment(rng)
        code, acknowledged = _load_and_kill(rng, reference, out, settings, acknowledged, moment)
        if code != -signal.SIGKILL:
            return f"CRASH {code}, to be killed {moment or 'from outside'}"
    end = outcome(lambda: reference.finish(out, acknowledged, settings))
    return "REFUSED after a kill" if end == "refused" else end


class Moment(NamedTuple):
    """A step of the engine's work: the nth call or return in a part of its code."""

    part: str
    step: int


def drawn_moment(rng: np.random.Generator) -> Moment | None:
    """Draw a moment at which an engine kills itself; None for a kill from outside at any time."""
    if rng.random() < 0.5:
        return None
    return Moment(str(rng.choice(list(_parts()))), int(rng.geometric(1 / 60)))


def _parts() -> dict[str, tuple[Callable[..., Any], ...]]:
    """What an engine does with its files, by the functions that do it."""
    return {
        "start": (EventLog.open, EventLog._check, recovery.adopt_run, recovery.restore, recovery._replay),
        "commit": (EventLog.append, EventLog._insert, EventLog._transaction, EventLog._record_end),
        "snapshot": (Snapshotter._save, SnapshotFolder.save, SnapshotFolder.prune, files.replacing),
        "compaction": (Snapshotter._compact, EventLog.drop_step, EventLog.forget_receipts),
    }


def _die_at(moment: Moment) -> None:
    """Let this process kill itself at a moment, in whichever thread reaches it."""
    codes = {inspect.unwrap(part).__code__ for part in _parts()[moment.part]}
    steps = itertools.count(1)

    def watch(frame: FrameType, event: str, value: object) -> None:
        if frame.f_code in codes and next(steps) == moment.step:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(watch)
    sys.setprofile(watch)


def _load_and_kill(
    rng: np.random.Generator,
    reference: LiveReference,
    out: Path,
    settings: dict[str, Any],
    first: int,
    moment: Moment | None,
) -> tuple[int, int]:
    """Let a child send batches until it is killed; return its exit code and how many were acknowledged."""
    reader, writer = os.pipe()
    pid = fork(lambda: _serve(reference, out, settings, first, writer, moment))
    os.close(writer)
    last = done = first
    if moment is not None:
        last = len(reference.batches)  # if it gets there alive
    elif rng.random() < 0.8:
        last = min(first + int(rng.integers(0, 25)), len(reference.batches))
    else:
        threading.Event().wait(float(rng.uniform(0, 0.15)))  # while it starts
    while done < last and (message := os.read(reader, 4)):
        done = int.from_bytes(message, "little")
    threading.Event().wait(float(rng.exponential(0.003)))  # in the middle of whatever comes next
    os.kill(pid, signal.SIGKILL)
    code = join(pid)
    while message := os.read(reader, 4):  # acknowledged before the kill
        done = int.from_bytes(message, "little")
    os.close(reader)
    return code, done


def _serve(
    reference: LiveReference,
    out: Path,
    settings: dict[str, Any],
    first: int,
    writer: int,
    moment: Moment | None,
) -> int:
    """Send batches while another thread reads, and report how many were acknowledged."""
    if moment is not None:
        _die_at(moment)
    engine = reference.engine(out, **settings)
    name = reference.batches[0].src[0]  # type: ignore[index]
    threading.Thread(target=_keep_reading, args=(engine, name), daemon=True).start()
    for number in reference.sending(engine, first):
        os.write(writer, (number + 1).to_bytes(4, "little"))
    while True:
        signal.pause()


def _keep_reading(engine: Engine, name: int) -> None:
    while True:
        engine.embed([name], side="src")


def live_damaged(rng: np.random.Generator, reference: LiveReference, folder: Path) -> str:
    """Damage one file of a live folder: it is refused, or nothing is lost."""
    out = _empty(folder / "damaged")
    shutil.copytree(reference.crashed, out)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    damaged = files[rng.integers(len(files))]
    _damage(damaged, rng)

    def use() -> str:
        with reference.engine(out, late="accept") as engine:
            reference.send(engine, 0)  # every batch is known
            same = bit_identical(state_of(engine), reference.states["accept"])
            return "same" if same else f"DIFFERENT {damaged.relative_to(out)}"

    return outcome(use)


def live_full_disk(rng: np.random.Generator, reference: LiveReference, folder: Path) -> str:
    """Fill the disk of an engine, then give it more space."""
    size = sum(path.stat().st_size for path in reference.run.rglob("*") if path.is_file()) // 1024
    settings = {**drawn_settings(rng), "snapshot_every_events": int(rng.choice([5, 10**9]))}
    reference.states  # noqa: B018
    with small_disk(folder / "disk", size + int(rng.integers(40, 1000))) as disk:
        code = join(fork(lambda: _fill(reference, disk, settings)))
        if code not in (FINISHED, REFUSED):
            return f"CRASH {code}"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        return outcome(lambda: reference.finish(disk / "live", 0, settings))


def live_small_files(rng: np.random.Generator, reference: LiveReference, folder: Path) -> str:
    """Limit the size of files while an engine takes in events, then lift the limit."""
    out, settings = _empty(folder / "limited"), drawn_settings(rng)
    reference.states  # noqa: B018
    limit = int(rng.integers(20_000, 400_000))

    def use() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return _fill(reference, out.parent, settings, out.name)

    code = join(fork(use))
    if code not in (FINISHED, REFUSED):
        return f"CRASH {code} at {limit} bytes"
    return outcome(lambda: reference.finish(out, 0, settings))


def _fill(reference: LiveReference, disk: Path, settings: dict[str, Any], name: str = "live") -> int:
    """Send batches until the disk refuses one; nothing of that batch may be known."""
    with reference.engine(disk / name, **settings) as engine:
        for number, batch in enumerate(reference.batches):
            before = engine.status().live_events
            try:
                engine.observe(batch, f"batch {number}")
            except DiskError:
                return REFUSED if engine.status().live_events == before else 1
    return FINISHED


def live_two_engines(rng: np.random.Generator, reference: LiveReference, folder: Path) -> str:
    """Open a folder that is in use: the second engine is refused, and the first is not disturbed."""
    out, settings = _empty(folder / "shared"), drawn_settings(rng)
    with reference.engine(out, **settings) as engine:
        reference.send(engine, 0, len(reference.batches) // 2)
        code = join(fork(lambda: _open(reference, out, settings)))
        if code != REFUSED:
            return f"NOT REFUSED {code}"
        reference.send(engine, len(reference.batches) // 2)
        same = bit_identical(state_of(engine), reference.states[settings["late"]])
    return "one of two" if same else "DIFFERENT state"


def _open(reference: LiveReference, out: Path, settings: dict[str, Any]) -> int:
    try:
        reference.engine(out, **settings).close()
    except RunError as error:
        return REFUSED if str(os.getppid()) in str(error) else 1
    return FINISHED
