"""Bad input to every command that uses a trained run: a clear error, and nothing is written."""

from __future__ import annotations

import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.commands import SET, Answer
from support.labels import quick_classifiers
from support.trained import fast_training

EVENTS = 240
HEADER = "user,item,t,label,price\n"
FILES = {
    "good": f"{HEADER}u1,i2,820,0,0.5\nu2,i3,825,1,0.25\n",
    "empty": "",
    "header": HEADER,
    "columns": "a,b,c\n1,2,3\n",
    "priceless": "user,item,t\nu1,i2,820\n",
    "old": f"{HEADER}u1,i2,820,0,1\nu1,i2,50,0,1\n",
    "when": f"{HEADER}u1,i2,820,0,1\nu1,i2,soon,0,1\n",
    "half": f"{HEADER}u1,i2,820.5,0,1\n",
    "who": f"{HEADER}u1,i2,820,0,1\n,i2,820,0,1\n",
    "stranger": f"{HEADER}u1,i2,820,0,1\ni2,i2,820,0,1\n",
    "cheap": f"{HEADER}u1,i2,820,0,1\nu2,i2,820,0,cheap\n",
    "seven": f"{HEADER}u1,i2,820,0,1\nu2,i2,820,7,1\n",
}
READERS = {
    "update": "update RUN FILE",
    "score": "score RUN FILE --out out.csv",
    "classify": "classify RUN --data FILE --out out.csv",
    "refit": "refit RUN --on FILE --out refitted",
    "evaluate": "evaluate RUN --data FILE --out out.csv",
}
QUERIES = {
    "recommend": "recommend RUN --nodes u1 --out out.csv",
    "nearest": "nearest RUN --node u1 --out out.csv",
    "embed": "embed RUN --out out.csv",
    "trajectory": "trajectory RUN --node u1 --points 9 --out out.csv",
}
LEARNERS = ("update", "classify", "refit", "evaluate")  # they need the columns of the training


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run with labels and a feature, one whose training was killed, and files."""
    base, rng = tmp_path_factory.mktemp("bad"), np.random.default_rng(0)
    columns = rng.integers(0, 9, EVENTS), rng.integers(0, 6, EVENTS), rng.random(EVENTS)
    lines = [
        f"u{u},i{i},{100 + 3 * n},{int(p < 0.3)},{p:.3f}"
        for n, (u, i, p) in enumerate(zip(*columns, strict=True))
    ]
    (base / "log.csv").write_text(HEADER + "\n".join(lines) + "\n")
    for name, text in FILES.items():
        (base / f"{name}.csv").write_text(text)
    (base / "not.parquet").write_text("this is text")
    (base / "not.parquet.gz").write_bytes(b"\x1f\x8b\x08")
    (base / "file").write_text("not a folder")
    with pytest.MonkeyPatch.context() as patch, fast_training():
        quick_classifiers(patch)
        trained = [base / "log.csv", "--features", "price", "--out", base / "run", "--epochs", 1]
        assert Answer("train", *trained, "--no-heuristics", *SET).code == 0
        assert Answer("classify", base / "run").code == 0
        shutil.copytree(base / "run", base / "unfinished")
        for name in ("metrics.json", "serving.pt", "classifier.pt"):
            (base / "unfinished" / name).unlink()
        yield base


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(folder: Path, command: str) -> str:
    """Why a command was refused; it has not changed a single file."""
    before = content(folder)
    text = " ".join(Answer(*command.split()).refusal.split())
    assert content(folder) == before
    assert "Traceback" not in text
    return text


def reading(names: tuple[str, ...], file: str, problem: str) -> list[tuple[str, str]]:
    return [(READERS[name].replace("RUN", "run").replace("FILE", file), problem) for name in names]


ALL = tuple(READERS)
NEEDING_EVENTS = ("evaluate", "refit")
BAD_FILES = [
    *reading(ALL, "empty.csv", "error: empty.csv: the file is empty"),
    *reading(NEEDING_EVENTS, "header.csv", "error: header.csv: there are no events"),
    *reading(LEARNERS, "columns.csv", "columns.csv: there is no column 'price'"),
    *reading(("score",), "columns.csv", "columns.csv: no column is recognized for the sources"),
    *reading(LEARNERS, "priceless.csv", "no column 'price' for the edge features. There are columns 'user'"),
    *reading(("update",), "old.csv", "line 3: t=50 is before the last event .* use late='accept'"),
    *reading(LEARNERS[1:], "old.csv", r"line 3: t=50 is before the last event .* time order\.( Only|$)"),
    *reading(("score",), "old.csv", "line 3: t=50 is before the first event, at 100"),
    *reading(ALL, "when.csv", "line 3, column 't': 'soon' is not a time; use a finite number or a date"),
    *reading(LEARNERS, "half.csv", r"line 2: t=820.5 is not a whole number"),
    *reading(ALL, "who.csv", "line 3, column 'user': '' is not an id"),
    *reading(
        ("score",), "stranger.csv", "line 3: node 'i2' is a destination in this stream, but a source here"
    ),
    *reading(LEARNERS, "cheap.csv", "line 3, column 'price': 'cheap' is not a number"),
    *reading(("update", "classify", "refit"), "seven.csv", "line 3: label 7 is neither 0 nor 1"),
    *reading(ALL, "not.parquet", "not.parquet: cannot be read .* it is damaged or not a Parquet file"),
    *reading(ALL, "nowhere.csv", "nowhere.csv: no such file or folder"),
]
BAD_RUNS = [
    *(
        (command.replace("RUN", run).replace("FILE", "good.csv"), problem)
        for command in (READERS | QUERIES).values()
        for run, problem in (
            ("file", "file is a file; expected the folder of a run"),
            ("rnu", "Did you mean 'run'"),
        )
    ),
    *(
        (
            READERS[name].replace("RUN", "unfinished").replace("FILE", "good.csv"),
            "unfinished was not finished; continue it",
        )
        for name in ("update", "classify", "refit")
    ),
]
WRITERS = {name: c for name, c in (READERS | QUERIES).items() if "out.csv" in c}
BAD_OUTPUTS = [
    (command.replace("RUN", "run").replace("FILE", "good.csv").replace("out.csv", out), problem)
    for command in WRITERS.values()
    for out, problem in (
        ("out.xyz", r"--out out.xyz: Unknown file format '.xyz'.* Use one of these extensions"),
        ("file/out.csv", "--out: file/out.csv cannot be written: file is a file"),
        ("run", "--out run: Unknown file format ''"),
    )
] + [
    ("refit run --on everything --out run", "run is the run itself; .*--in-place"),
    ("refit run --on everything --out unfinished", "already holds a run. Choose another folder"),
    ("refit run --on everything --out file/x", "cannot hold a run: file is a file"),
    ("refit run --on everything --out x --in-place", "not both"),
]
BAD_VALUES = [
    (
        "recommend run --node u1 --candidates i77,i78",
        "Node 'i77' is not in .* as a destination; its ids look like 'i0'",
    ),
    ("recommend run --node i1", "Node 'i1' is a destination in this stream; expected a source"),
    ("recommend run --node u1 --at soon", "--at soon: not a time"),
    ("recommend run --nodes empty.csv --out x.csv", "--nodes empty.csv: no ids found"),
    ("recommend run --nodes run --out x.csv", "--nodes run: is a folder"),
    ("recommend run --nodes nowhere.txt --out x.csv", "--nodes nowhere.txt: there is no such file"),
    ("recommend run --node u1 --candidates not.parquet", "--candidates not.parquet: the file cannot be read"),
    ("recommend run --node u1 --side left", "Unknown side 'left'"),
    ("nearest run --node u99", "Node 'u99' is not in this stream"),
    ("nearest run --node u1 --at soon", "--at soon: not a time"),
    ("embed run --nodes u1,u99 --out x.csv", "Node 'u99' is not in this stream"),
    ("embed run --nodes nowhere.csv --out x.csv", "--nodes nowhere.csv: there is no such file"),
    ("embed run --at soon --out x.csv", "--at soon: not a time"),
    ("trajectory run --node u99 --out x.csv", "Node 'u99' is not in this stream"),
    ("trajectory run --node u1 --from soon --out x.csv", "--from soon: not a time"),
    (f"trajectory run --node u1 --to {10**30} --out x.csv", "times are finite and below"),
    (f"update run good.csv --label {'9' * 5000}", "no column '9999"),
    (f"index not.parquet --out x --memory {'9' * 400}", "expected a size such as 4G"),
    ("recipes not.parquet.gz", "not.parquet.gz is not a recipe .*can't decode byte"),
    ("trajectory run --node u1 --from 300 --to 200 --out x.csv", "the span must end after it starts"),
    ("score run good.csv --as-of now --out x.csv", "--as-of: Unknown value 'now'"),
    ("update run good.csv --repeated often", "--repeated: Unknown value 'often'"),
    ("update run good.csv --raw-features", r"preprocess=False \(--raw-features\).*omit the option"),
    ("update run good.csv --unipartite", "No such option.*--unipartite"),
    ("score run good.csv --node-features nodes.csv --out x.csv", "No such option.*--node-features"),
    ("evaluate run --task clasify", "Unknown task 'clasify'. Did you mean 'classify'"),
    ("classify run --label-delay -3", "label_delay=-3.0: pass a number of at least 0"),
]


@pytest.mark.parametrize(("command", "problem"), BAD_FILES + BAD_RUNS + BAD_OUTPUTS + BAD_VALUES)
def test_bad_input_is_refused(command: str, problem: str, folder: Path) -> None:
    text = refusal(folder, command)
    assert re.search(problem, text), text


REPLACING = [
    *(READERS[name].replace("FILE", "good.csv") for name in ("score", "classify", "evaluate")),
    "recommend RUN --nodes good.csv --out out.csv",
    "recommend RUN --node u1 --candidates good.csv --out out.csv",
    "embed RUN --nodes good.csv --out out.csv",
    "compare good.csv --csv out.csv",
    "bench good.csv --out out.csv",
]


@pytest.mark.parametrize("command", REPLACING)
@pytest.mark.parametrize("out", ["good.csv", "run/../good.csv", "link.csv"])
def test_an_input_is_not_replaced_by_the_output(
    command: str, out: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if out == "link.csv":
        out = str(tmp_path / out)
        Path(out).symlink_to(folder / "good.csv")
    monkeypatch.setattr("contig.runs.run.Run.open", lambda *given: pytest.fail("it was refused too late"))
    text = refusal(folder, command.replace("RUN", "run").replace("out.csv", out))
    assert re.search(rf"--(out|csv) {re.escape(out)} is also the input; choose another file\.", text), text


def test_an_output_does_not_join_the_files_of_an_input_folder(folder: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for name in ("pairs/a.parquet", "pairs/new.parquet"):
        text = refusal(folder, f"score run {pairs} --out {tmp_path / name}")
        assert f"{name} is among the input files, in {pairs}; choose another folder" in text
    assert not list(pairs.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder where nobody can create files")
@pytest.mark.parametrize("command", WRITERS.values())
@pytest.mark.parametrize("out", ["/proc/out.csv", "/proc/none/out.csv"])
def test_a_folder_that_takes_no_files_is_refused_before_the_work(
    command: str, out: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contig.runs.run.Run.open", lambda *given: pytest.fail("it was refused too late"))
    text = refusal(folder, command.replace("RUN", "run").replace("FILE", "good.csv").replace("out.csv", out))
    assert f"--out: {out} cannot be created: /proc does not allow it; choose another folder." in text


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let the system refuse to write more into a file, as it does where a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


FULL = [command.replace("RUN", "run").replace("FILE", "good.csv") for command in (READERS | QUERIES).values()]
FULL += ["refit run --on everything --in-place", "classify run --refit", "embed run --out out.npy"]


@pytest.mark.parametrize("command", [*FULL, *(c.replace("out.csv", "out.parquet") for c in WRITERS.values())])
def test_a_full_disk_leaves_everything_as_it_was(command: str, folder: Path) -> None:
    with files_up_to(40):
        text = refusal(folder, command.replace("RUN", "run").replace("FILE", "good.csv"))
    assert "File too large; raise the limit of file sizes" in text


@pytest.mark.parametrize("command", QUERIES)
def test_there_is_a_note_where_nothing_happened_yet(command: str, folder: Path, tmp_path: Path) -> None:
    span = ["--from", "1", "--to", "5"] if command == "trajectory" else ["--at", "5"]
    words = QUERIES[command].replace("RUN", "run").replace("out.csv", str(tmp_path / "x.csv")).split()
    answer = Answer(*words, *span)
    assert answer.code == 0
    assert "no event before this time" in " ".join(answer.err.split())


def test_a_lack_of_memory_is_named(folder: Path) -> None:
    text = refusal(folder, f"trajectory run --node u1 --points {10**15} --out x.csv")
    assert re.search(r"Not enough memory \(.*\)\. Use less data", text), text
    text = refusal(folder, f"train log.csv --set dim={10**9} --out huge")
    assert re.search(r"Not enough memory \(.*\)\. Use less data", text), text


def test_the_current_folder_is_a_run_as_any_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not a run: it has no config.json" in refusal(folder, "embed . --out x.csv")
    monkeypatch.chdir(folder / "run")
    assert Answer("nearest", ".", "--node", "u1").code == 0
