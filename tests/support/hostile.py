"""What a hostile world does to contig: damaged files, kills, two processes at once, disks that refuse.

Every attack is drawn from a seed and returns how it ended. ``tests/test_hostile.py`` runs a few of each,
``make torture`` thousands (see ``tests/support/torture.py``).
"""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contig.data.events import EventStream
from contig.errors import ContigError
from contig.history import History
from contig.runs.run import Run
from contig.training.fit import fit, resume
from support.damaged_files import FORMATS, check_valid, mutated
from support.golden import golden_stream
from support.labels import quick_classifiers
from support.processes import REFUSED, fork, join
from support.trained import TINY, fast_training, identical_runs, tiny_stream, without_costs

FINISHED = 0  # exit code of a child
GOOD = {"read", "refused", "same", "warned", "resumed", "trained again", "one of two", "finished"}
UPDATE_SECONDS = 0.15  # about what an update of the reference takes
SETTINGS: dict[str, Any] = {**TINY, "epochs": 2, "checkpoint_seconds": 0, "device": "cpu", "show": False}


class Reference:
    """Runs that nobody disturbed, and their answers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stream = folder, tiny_stream()

    def run(self, seed: int) -> Path:
        path = self.folder / f"seed-{seed}"
        if not path.exists():
            fit(self.stream, out=path, seed=seed, **SETTINGS)
        return path

    @cached_property
    def answers(self) -> dict[str, Any]:
        return answers(self.run(0))

    @property
    def later(self) -> EventStream:
        """Events after those of the runs, with a new node; a batch and a half."""
        stream, labels = self.stream, self.stream.ids.labels
        src, dst = labels[stream.src[:45]], labels[stream.dst[:45]]
        src[11] = src[40] = labels.max() + 1
        return EventStream.from_arrays(src, dst, stream.t[-1] + np.arange(45) // 2, bipartite=True)

    @cached_property
    def updated(self) -> tuple[Path, list[Any], list[Any]]:
        """A run that observed the later events, and the embeddings before and after them."""
        path = self.folder / "updated"
        shutil.copytree(self.run(0), path)
        before = Run.open(path, "cpu").embed().tolist()
        Run.open(path, "cpu").observe(self.later)
        return path, before, Run.open(path, "cpu").embed().tolist()

    @cached_property
    def rich(self) -> tuple[Path, dict[str, Any]]:
        """A run with files of every kind (text ids, features, classifier, later events), and its answers."""
        stream, path = rich_stream(), self.folder / "rich"
        run = fit(stream[:320], out=path, **SETTINGS | {"epochs": 1})
        run.classify(show=False)
        saved = run.evaluate("recommend", show=False).as_dict()
        run.folder.save_evaluation("recommend", saved, run.folder.version("best.pt"))
        Run.open(path, "cpu").observe(stream[320:])
        return path, rich_answers(path)

    @cached_property
    def history(self) -> Path:
        History.from_stream(self.stream).save(self.folder / "history")
        return self.folder / "history"


def answers(path: Path) -> dict[str, Any]:
    """Return everything a run can be asked for."""
    run = Run.open(path, "cpu")
    ids = run.stream.ids
    sides = None if ids.is_dst is None else ids.is_dst.tolist()
    return {
        "ids": (ids.labels.tolist(), sides, run.stream.origin),
        "embeddings": run.embed().tolist(),
        "metrics": without_costs(run.metrics.as_dict()),
        "test": run.evaluate(show=False).result.as_dict(),
    }


def rich_stream() -> EventStream:
    """Events with text ids, some of which are on both sides, labels, and features of events and nodes."""
    stream = golden_stream(node_features=True)
    names = [np.array([f"n{i % 23}" for i in side]) for side in (stream.src, stream.dst)]
    named = EventStream.from_arrays(
        *names, stream.t, label=stream.label, edge_features=stream.edge_features, bipartite=True
    )
    return named.with_node_features(np.random.default_rng(7).normal(size=(named.num_nodes, 2)))


def rich_answers(path: Path) -> dict[str, Any]:
    """Return the answers that also need the files which a plain run does not have."""
    run = Run.open(path, "cpu")
    classes = run.classify(show=False)
    return {
        **answers(path),
        "events": [len(run.stream), run.stream.node_features.tolist()],
        "labels": run.arrived_labels.tolist(),
        "classes": [classes.probability.tolist(), classes.decoder],
        "evaluation": run.folder.evaluation("recommend").as_dict(),
    }


def count(
    attack: Callable[..., str],
    attacks: int,
    seed: int,
    *given: Any,
    show: Callable[[int, Counter[str]], None] = lambda done, ends: None,
) -> Counter[str]:
    """Run an attack that many times, each with a seed of its own, and count how it ended.

    ``show`` gets the number of attacks so far and how they ended, after each one.
    """
    ends: Counter[str] = Counter()
    with fast_training(), pytest.MonkeyPatch.context() as patch:
        quick_classifiers(patch)
        for i in range(attacks):
            ends[attack(np.random.default_rng([seed, i]), *given)] += 1
            show(i + 1, ends)
    return ends


def outcome(use: Callable[[], str]) -> str:
    """Return what ``use`` says, ``refused`` for a ContigError, or the name of a foreign exception."""
    try:
        return use()
    except ContigError:
        return "refused"
    except Exception as error:
        return f"FOREIGN {type(error).__name__}: {str(error)[:120]}"


# -- files --------------------------------------------------------------------------------------------------


def damaged_input(rng: np.random.Generator, folder: Path) -> str:
    """Read a damaged file of events or features."""
    name = str(rng.choice(list(FORMATS)))
    path = folder / name
    path.write_bytes(mutated(FORMATS[name](), rng))

    def use() -> str:
        check_valid(path)
        return "read"

    return outcome(use)


def _damage(path: Path, rng: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    at = int(rng.integers(len(data)))
    match rng.integers(7):
        case 0:
            data[at] ^= 1 << int(rng.integers(8))
        case 1:
            del data[at:]
        case 2:
            data[at : at + 8] = rng.bytes(8)
        case 3:
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        case 4:
            data += data[:at] or b"x"
        case 5:
            data = bytearray(rng.bytes(len(data)))
        case _:
            path.unlink()
            return
    path.write_bytes(data)


def damaged_run(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Damage one file of a run, then ask it for everything and resume it."""
    if rng.integers(2):
        return _damaged(rng, reference.run(0), answers, reference.answers, folder / "damaged")
    intact, expected = reference.rich
    return _damaged(rng, intact, rich_answers, expected, folder / "damaged")


def _damaged(
    rng: np.random.Generator,
    intact: Path,
    ask: Callable[[Path], dict[str, Any]],
    expected: dict[str, Any],
    copy: Path,
) -> str:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(intact, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.suffix != ".png")
    damaged = files[rng.integers(len(files))]
    before = damaged.read_bytes()
    _damage(damaged, rng)
    if damaged.exists() and damaged.read_bytes() == before:
        return "same"

    def use() -> str:
        if damaged.name == "checkpoint.pt":
            resume(copy, device="cpu", show=False)
            return "same" if identical_runs(copy, intact) else f"DIFFERENT {damaged.name}"
        if not damaged.exists():  # results that are made again
            resume(copy, device="cpu", show=False)
        return "same" if ask(copy) == expected else f"DIFFERENT {damaged.relative_to(copy)}"

    with _warnings() as warned:
        end = outcome(use)
    return "warned" if end.startswith("DIFFERENT") and any(damaged.name in line for line in warned) else end


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what contig warns about."""
    log, lines = logging.getLogger("contig"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def damaged_history(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Damage one file of a saved history, then query it, in a process of its own: it must not crash."""
    copy = folder / "history"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(reference.history, copy)
    files = sorted(copy.iterdir())
    _damage(files[rng.integers(len(files))], rng)

    def use() -> int:
        import torch

        history = History.load(copy, mapped=bool(rng.integers(2)))
        nodes = torch.arange(history.num_nodes + 3)
        history.before(nodes, torch.full((len(nodes),), 10**9), 5)
        return FINISHED

    code = join(fork(use))
    return {FINISHED: "read", REFUSED: "refused"}.get(code, f"CRASH {code}")


# -- processes ----------------------------------------------------------------------------------------------


def _train(reference: Reference, out: Path, seed: int) -> Callable[[], int]:
    def use() -> int:
        fit(reference.stream, out=out, seed=seed, **SETTINGS)
        return FINISHED

    return use


def _finish(reference: Reference, out: Path, seed: int = 0) -> str:
    """Finish what an interrupted training left; the result must be that of an uninterrupted one."""
    if (out / "config.json").exists():
        resume(out, device="cpu", show=False)
        end = "resumed"
    else:
        fit(reference.stream, out=out, seed=seed, **SETTINGS)
        end = "trained again"
    left = [path.name for path in out.rglob(".*")]
    if left:
        return f"LEFT {left[0]}"
    return end if identical_runs(out, reference.run(seed)) else "DIFFERENT after a resume"


def killed(rng: np.random.Generator, reference: Reference, folder: Path, seconds: float) -> str:
    """Kill a training with SIGKILL at a random moment, and resume it."""
    out = _empty(folder / "killed")
    pid = fork(_train(reference, out, 0))
    time.sleep(float(rng.uniform(0, seconds)))
    os.kill(pid, signal.SIGKILL)
    join(pid)
    return outcome(lambda: _finish(reference, out))


def killed_update(rng: np.random.Generator, reference: Reference, folder: Path, seconds: float) -> str:
    """Kill an update with SIGKILL at a random moment: the run is the old one or the new one."""
    out, (_, before, after) = _empty(folder / "killed-update"), reference.updated
    shutil.copytree(reference.run(0), out, dirs_exist_ok=True)

    def use() -> int:
        Run.open(out, "cpu").observe(reference.later)
        return FINISHED

    pid = fork(use)
    time.sleep(float(rng.uniform(0, seconds)))
    os.kill(pid, signal.SIGKILL)
    join(pid)

    def check() -> str:
        found = Run.open(out, "cpu").embed().tolist()
        if found not in (before, after):
            return "MIXED"
        if found == before:
            Run.open(out, "cpu").observe(reference.later)
        return "same" if Run.open(out, "cpu").embed().tolist() == after else "DIFFERENT after an update"

    return outcome(check)


def two_at_once(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Train twice into one folder at the same time: one finishes, the other is refused."""
    out = _empty(folder / "shared")
    pids = [fork(_train(reference, out, seed)) for seed in (0, 1)]
    codes = [join(pid) for pid in pids]
    if sorted(codes) != [FINISHED, REFUSED]:
        return f"BOTH {codes}"
    return "one of two" if identical_runs(out, reference.run(codes.index(FINISHED))) else "MIXED"


def two_resumes(rng: np.random.Generator, reference: Reference, folder: Path, seconds: float) -> str:
    """Resume a killed training twice at the same time."""
    out = _empty(folder / "resumed")
    pid = fork(_train(reference, out, 0))
    while not (out / "checkpoint.pt").exists():
        time.sleep(0.002)
    time.sleep(float(rng.uniform(0, seconds / 2)))
    os.kill(pid, signal.SIGKILL)
    join(pid)

    def use() -> int:
        resume(out, device="cpu", show=False)
        return FINISHED

    codes = sorted(join(pid) for pid in [fork(use), fork(use)])
    if codes not in ([FINISHED, REFUSED], [FINISHED, FINISHED]):  # the second may come after the first
        return f"BOTH {codes}"
    return "one of two" if identical_runs(out, reference.run(0)) else "MIXED"


def small_files(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Train under a limit of file sizes, then without."""
    out, limit = _empty(folder / "limited"), int(10 ** rng.uniform(2, 6.6))  # a checkpoint has 2 MB

    def use() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return _train(reference, out, 0)()

    code = join(fork(use))
    if code not in (FINISHED, REFUSED):
        return f"CRASH {code} at {limit} bytes"
    return outcome(lambda: _finish(reference, out))


def full_disk(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Train on a full disk, then with more space; root may mount one."""
    with small_disk(folder / "disk", int(10 ** rng.uniform(1.5, 4))) as disk:  # kilobytes; a run has 3,200
        code = join(fork(_train(reference, disk / "run", 0)))
        if code not in (FINISHED, REFUSED):
            return f"CRASH {code}"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        return outcome(lambda: _finish(reference, disk / "run"))


def read_only(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Query a run on a read-only disk, and try to resume and train there."""
    with small_disk(folder / "disk", 65_536) as disk:
        shutil.copytree(reference.run(0), disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        if answers(disk / "run") != reference.answers:
            return "DIFFERENT answers"
        for use in (
            lambda: resume(disk / "run"),
            lambda: fit(reference.stream, out=disk / "new", **SETTINGS),
        ):
            if (end := outcome(lambda use=use: str(use()))) != "refused":  # type: ignore[misc]
                return f"NOT REFUSED {end}"
    return "refused"


@contextmanager
def small_disk(path: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a disk of that size."""
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)  # streams may still be mapped


def can_mount() -> bool:
    """Return whether this process may mount disks."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", folder]
        if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


def homeless(rng: np.random.Generator, folder: Path) -> str:
    """Train as a user whose home does not exist, from the command line."""
    out = _empty(folder / "homeless")
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": paths,
        "HOME": "/proc/none",
        "TMPDIR": str(folder),
    }
    options = [word for key in ("dim", "time_dim") for word in ("--set", f"{key}={TINY[key]}")]
    command = [
        "train",
        f"synthetic:{int(rng.integers(300, 500))}",
        "--epochs",
        "1",
        "--out",
        str(out),
        *options,
    ]
    for words in (["datasets"], command):
        ended = subprocess.run(
            [sys.executable, "-m", "contig", *words],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            return f"FAILED {ended.stderr[-200:]}"
    return "finished" if not (folder / "~").exists() else "LEFT a folder ~"


# A read-only image with one folder to write to, and a user without a name, a home or rights.
IMAGE = """
mount -t tmpfs tmpfs "$0" && mount -o remount,bind,ro / || exit 99
cd "$0" && exec unshare --user --map-user=12345 --map-group=12345 "$@"
"""
IN_IMAGE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", IMAGE)


def can_make_image() -> bool:
    """Return whether this process may create namespaces of users and mounts."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = [*IN_IMAGE, folder, "touch", f"{folder}/file"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def read_only_image(rng: np.random.Generator, folder: Path, models: Sequence[str] = ("contig",)) -> str:
    """Use the commands as a plain user id in a read-only image, where one folder can be written to."""
    place = _empty(folder / "image")
    place.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": str(place),
        "OMP_NUM_THREADS": "1",
    }
    call = f"{sys.executable} -m contig"
    train = f"{call} train synthetic:{int(rng.integers(300, 500))} --model {rng.choice(models)} --epochs 1"
    steps = (
        f"{call} datasets",
        "! touch /file",
        f"{train} --out run",
        f"{call} evaluate run --task recommend --no-heuristics",  # whose loops would be compiled, too
        f"{call} recommend run --node 3",
        f"! CONTIG_CACHE=/cache {train} --out another",
    )
    command = [*IN_IMAGE, str(place), "sh", "-c", " && ".join(steps)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode or "Traceback" in ended.stderr or "Matplotlib" in ended.stderr:
        return f"FAILED {ended.returncode}: {ended.stderr[-200:]}"
    return "finished"


def _empty(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return path
