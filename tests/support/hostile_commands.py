"""Attacks on the command line: hostile words and files, disks that refuse, a user that nobody knows."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import typer
from typer.testing import CliRunner

from contig.cli import app
from support.commands import SET
from support.damaged_files import FORMATS, mutated
from support.hostile import FINISHED, Reference, _empty, small_disk
from support.processes import REFUSED, fork, join_within

# -- hostile words ------------------------------------------------------------------------------------------

HEADER = "user,item,t,label,price\n"
NEW_EVENTS = f"{HEADER}u1,i2,820,0,0.5\nu2,i3,825,1,0.25\n"
COMMANDS = {
    "inspect": "inspect log.csv --features price",
    "datasets": "datasets nothing --out x.csv",
    "index": "index tables/log.parquet --out indexed",
    "train": "train log.csv --features price --out new --no-heuristics",
    "resume": "resume run",
    "evaluate": "evaluate run --out x.csv",
    "classify": "classify run --data new.csv --out x.csv",
    "embed": "embed run --out x.csv",
    "score": "score run new.csv --out x.csv",
    "recommend": "recommend run --node u1",
    "nearest": "nearest run --node u1",
    "trajectory": "trajectory run --node u1 --points 5 --out x.csv",
    "update": "update run new.csv",
    "refit": "refit run --on new.csv --out refitted",
    "models": "models contig",
    "recipes": "recipes pair/collegemsg",
    "serve": "serve BAD",
    "send": "send BAD",
    "repeat": "repeat BAD",
    "compare": "compare BAD",
    "tune": "tune BAD",
    "bench": "bench BAD",
    "reproduce": "reproduce BAD",
}
# These take long, or never end, where their main argument is valid: they get none that is.
ENDLESS = ("serve", "send", "repeat", "compare", "tune", "bench", "reproduce")
LONGER = ("--epochs", "--patience", "--seeds", "--repeats")  # a huge number is valid, and takes its time
# No path outside the working folder that root could overwrite.
WORDS = (
    *(
        "",
        " ",
        "-",
        "--",
        "=",
        ",",
        ":",
        "0",
        "-1",
        "1.5",
        "nan",
        "inf",
        "-1e999",
        "1e308",
        "9" * 30,
        "9" * 5000,
    ),
    *(
        "\x00",
        "\x1b[31mred",
        "\r\n",
        "\u202eevil",
        "\ud800",
        "é" * 300,
        "[]",
        "{}",
        "null",
        "{0}",
        "%s",
        "*.csv",
    ),
    *("a=b", "dim=-1", "dim=1e9", "dim=1000000000", "lr=inf", "seed=-1", "heads=99", "neighbors=999999999"),
    *(
        "$HOME",
        ".",
        "/proc/self/mem",
        "/proc/none/x.csv",
        "x" * 300,
        "a/" * 2000,
        "loop",
        "link",
    ),
    *("forbidden.csv", "run", "run/config.json", "empty.csv", "log.csv/x.csv", "http://[", "C:\\x"),
    *("contig.cli:app", "os:system", "torch", "package.module:Class"),
    *("2024-13-45", "0001-01-01", "999999-01-01", "now"),
)
MEMORY = 3 << 30  # bytes that a command may use beyond what this process has
SECONDS = 60.0


class Workplace:
    """A folder with a trained run, files and names that commands are used with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def filled(self) -> Path:
        """The folder, once everything is in it."""
        self.folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        columns = rng.integers(0, 9, 240), rng.integers(0, 6, 240), rng.random(240)
        rows = [
            f"u{u},i{i},{100 + 3 * n},{int(p < 0.3)},{p:.3f}"
            for n, (u, i, p) in enumerate(zip(*columns, strict=True))
        ]
        (self.folder / "log.csv").write_text(HEADER + "\n".join(rows) + "\n")
        (self.folder / "tables").mkdir()
        (self.folder / "tables" / "log.parquet").write_bytes(FORMATS["events.parquet"]())
        (self.folder / "new.csv").write_text(NEW_EVENTS)
        (self.folder / "empty.csv").touch()
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "link").symlink_to("run")
        words = ["train", "log.csv", "--features", "price", "--out", "run", "--epochs", "1", *SET]
        assert _invoked([*words, "--no-heuristics"], self.folder)[0] == FINISHED
        assert _invoked(["classify", "run"], self.folder)[0] == FINISHED
        return self.folder

    @cached_property
    def options(self) -> dict[str, list[Any]]:
        """The options of every command."""
        commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
        return {
            name: [one for one in command.params if one.param_type_name == "option"]
            for name, command in commands.items()
        }


def hostile_command(rng: np.random.Generator, place: Workplace, folder: Path) -> str:
    """Call a command with hostile words or damaged files: it works or is refused, and says why."""
    here = _empty(folder / "commands")
    shutil.copytree(place.filled, here, symlinks=True)
    (here / "forbidden.csv").write_text(HEADER)  # without events: root may read it, and then trains nothing
    (here / "forbidden.csv").chmod(0)
    words = hostile_words(rng, place, here)
    before = _contents(here / "run")
    report = here / "report"

    def use() -> int:
        limit = _used_memory() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        code, problem = _invoked(words, here)
        report.write_text(problem, "utf-8", "replace")
        return code

    code = join_within(fork(use), SECONDS)
    shown = " ".join(word if re.fullmatch(r"[\w./=-]{1,40}", word) else repr(word[:60]) for word in words)
    if code is None:
        return f"HANGS {shown}"
    if report.exists() and (problem := report.read_text()):
        return f"FAILED {shown}: {problem}"
    if code not in (FINISHED, REFUSED):
        return f"CRASH {code} {shown}"
    if code == REFUSED and _contents(here / "run") != before:
        return f"CHANGED by a refused command: {shown}"
    return "finished" if code == FINISHED else "refused"


def hostile_words(rng: np.random.Generator, place: Workplace, here: Path) -> list[str]:
    """Return a command with one to three words replaced or added."""
    name = str(rng.choice(list(COMMANDS)))
    words = COMMANDS[name].split()
    for _ in range(rng.integers(1, 4)):
        option = place.options[name][rng.integers(len(place.options[name]))]
        at = int(rng.integers(1, len(words))) if len(words) > 1 else 0
        if at and words[at] != "BAD" and not words[at].startswith("--") and rng.integers(2):
            words[at] = _hostile_word(rng, here, name)
        elif option.is_flag:
            words.append(option.opts[0])
        elif option.opts[0] not in LONGER:
            words += [option.opts[0], _hostile_word(rng, here, name)]
    words = [_bad_argument(rng) if word == "BAD" else word for word in words]
    return [*words, "--epochs", "1", *SET] if name == "train" else words


def _hostile_word(rng: np.random.Generator, here: Path, command: str) -> str:
    if command in ENDLESS or rng.integers(3):
        return _hostile_string(rng)
    kind = str(rng.choice(["new.csv", "log.csv", *FORMATS]))
    content = (here / kind).read_bytes() if kind in ("new.csv", "log.csv") else FORMATS[kind]()
    (here / f"damaged-{kind}").write_bytes(mutated(content, rng))
    return f"damaged-{kind}"


def _hostile_string(rng: np.random.Generator) -> str:
    return WORDS[rng.integers(len(WORDS))]


def _bad_argument(rng: np.random.Generator) -> str:
    """Return a word that is neither a run nor a dataset."""
    while (word := _hostile_string(rng)) in ("run", "link"):
        continue
    return word


def _invoked(words: list[str], here: Path) -> tuple[int, str]:
    """Run a command in a folder; return its exit code, and what is wrong with how it ended."""
    os.chdir(here)
    result = CliRunner().invoke(app, words, prog_name="contig")
    shown = result.stdout + result.stderr
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        text = str(result.exception)[:150]
        return 1, f"{type(result.exception).__name__}: {text}"
    if "Traceback" in shown:
        return 1, shown[-200:]
    if "\x1b" in shown or "\u202e" in shown:
        return 1, "control characters reach the terminal"
    if result.exit_code == REFUSED and not result.stderr.strip():
        return 1, "no message"
    return result.exit_code, ""


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _used_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


# -- disks and users ----------------------------------------------------------------------------------------

WITHOUT_PASSWD = ("unshare", "-m", "sh", "-c", 'mount --bind /dev/null /etc/passwd && exec "$@"', "sh")
USES: dict[str, tuple[str, ...]] = {
    "score": ("{events}", "--out", "{out}/scores.csv"),
    "recommend": ("--out", "{out}/lists.csv"),
    "update": ("{events}",),
    "serve": ("--folder", "{out}/live", "--port", "0"),
}


def disturbed_command(rng: np.random.Generator, reference: Reference, folder: Path) -> str:
    """Use a run on a disk that refuses, or as an unknown user: the command works, or says what is wrong."""
    command = str(rng.choice(list(USES)))
    situation = SITUATIONS[int(rng.integers(len(SITUATIONS)))]
    place = _empty(folder / "disturbed")
    place.mkdir()
    return situation(rng, command, reference, place)


def _words(command: str, reference: Reference, run: Path, out: Path) -> list[str]:
    events = out / "later.csv"
    if command in ("score", "update"):
        later, known = reference.later, reference.stream.ids.labels.max()
        rows = zip(later.ids.labels[later.src], later.ids.labels[later.dst], later.t, strict=True)
        kept = [row for row in rows if command == "update" or row[0] <= known]  # scores are of known nodes
        events.write_text("src,dst,t\n" + "".join(f"{s},{d},{t}\n" for s, d, t in kept))
    return [command, str(run), *(word.format(events=events, out=out) for word in USES[command])]


def _call(
    words: Sequence[str], *, before: Sequence[str] = (), limit: int | None = None, home: str | None = None
) -> str:
    """Run a command in a new process; ``serve`` is stopped once it answers."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # Under a limit of file sizes, Python would leave half a compiled module for everyone.
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {} if home is None else {"HOME": home}

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.Popen(
        [*before, sys.executable, "-m", "contig", *words],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restrict,
    )
    assert process.stdout is not None
    if words[0] == "serve" and process.stdout.readline():
        process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    if "Traceback" in errors or process.returncode not in (FINISHED, REFUSED):
        return f"FAILED {words[0]} {process.returncode}: {errors[-200:]}"
    return "finished" if process.returncode == FINISHED else "refused"


def _copied(reference: Reference, folder: Path) -> Path:
    shutil.copytree(reference.run(0), folder / "run")
    return folder / "run"


def _read_only(rng: np.random.Generator, command: str, reference: Reference, folder: Path) -> str:
    with small_disk(folder / "disk", 65_536) as disk:
        run = _copied(reference, disk)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        end = _call(_words(command, reference, run, folder))
    expected = "refused" if command == "update" else "finished"
    return end if end == expected or end.startswith("FAILED") else f"NOT {expected.upper()} {command}"


def _full(rng: np.random.Generator, command: str, reference: Reference, folder: Path) -> str:
    with small_disk(folder / "disk", 65_536) as disk:
        run = _copied(reference, disk)
        words = _words(command, reference, run, disk)
        used = sum(-(-path.stat().st_size // 4096) * 4 for path in disk.rglob("*") if path.is_file())
        size = used + int(10 ** rng.uniform(0, 3.5))
        subprocess.run(["mount", "-o", f"remount,size={size}k", disk], check=True)
        return _call(words)


def _limited(rng: np.random.Generator, command: str, reference: Reference, folder: Path) -> str:
    words = _words(command, reference, _copied(reference, folder), folder)
    return _call(words, limit=int(10 ** rng.uniform(2, 6.5)))


def _unknown_user(rng: np.random.Generator, command: str, reference: Reference, folder: Path) -> str:
    """Neither a home nor an entry in the list of users."""
    words = _words(command, reference, _copied(reference, folder), folder)
    end = _call(words, before=WITHOUT_PASSWD, home=str(rng.choice(["/proc/none", "/"])))
    return end if end != "refused" else f"FAILED {command}: refused"


SITUATIONS: tuple[Callable[..., str], ...] = (_read_only, _full, _limited, _unknown_user)
