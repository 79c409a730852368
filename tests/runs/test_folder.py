"""Run folders: starting, resuming and reading them, whole or damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, renew_checksums

from contig.data.events import EventStream
from contig.errors import DiskError, RunError
from contig.files import sha256
from contig.numerics import VERSION
from contig.runs import folder as folders
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training.fit import fit, resume
from contig.training.refit import refit

CPU = torch.device("cpu")


@pytest.fixture
def copy(run: Run, tmp_path: Path) -> Path:
    """A finished run to be damaged."""
    shutil.copytree(run.path, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_new_run_holds_its_events_and_its_config(stream: EventStream, tmp_path: Path) -> None:
    config = RunConfig.of("contig", {**TINY, "seed": 3})
    folder = RunFolder(tmp_path / "a" / "run")
    folder.create(stream, config)
    assert folder.config() == config
    assert folder.stream().equals(stream)
    written = json.loads((folder.path / "config.json").read_text())
    assert written["data"]["fingerprint"] == stream.fingerprint()
    assert written["data"]["events"] == 400
    folder.create(stream, config)  # nothing is lost before the first checkpoint
    folder.save("checkpoint.pt", {})
    with pytest.raises(RunError, match="already holds a run"):
        folder.create(stream, config)


def test_the_config_of_something_else_is_not_replaced(stream: EventStream, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"theme": "dark"}')
    with pytest.raises(RunError, match="already holds a run"):
        fit(stream, "edgebank", out=tmp_path, show=False)
    assert (tmp_path / "config.json").read_text() == '{"theme": "dark"}'


def test_a_run_cannot_replace_a_file(stream: EventStream, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match="is a file"):
        RunFolder(tmp_path / "run").create(stream, RunConfig.of("contig"))
    assert (tmp_path / "run").read_text() == "mine"


def test_a_run_cannot_lie_below_a_file(stream: EventStream, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match=r"cannot hold a run: .*file is a file"):
        RunFolder(tmp_path / "file" / "below" / "run").create(stream, RunConfig.of("contig"))


def test_removing_a_run_keeps_other_files(copy: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    RunFolder(copy).remove_run()
    assert [path.name for path in copy.iterdir()] == ["notes.txt"]


def test_other_files_in_the_folder_are_kept(stream: EventStream, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    RunFolder(tmp_path).create(stream, RunConfig.of("contig"))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    folder.save("x.pt", {"a": torch.tensor([1.5])})

    def fail(content: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(DiskError, match=r"x\.pt: No space left on device; free some space"):
        folder.save("x.pt", {"a": torch.tensor([2.5])})
    assert folder.load("x.pt")["a"].item() == 1.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checksums.json", "x.pt"]


def test_resuming_keeps_the_rest_of_the_config_file(copy: Path) -> None:
    folder = RunFolder(copy)
    before = json.loads((copy / "config.json").read_text())
    folder.reopen(folder.config().with_train(epochs=9))
    after = json.loads((copy / "config.json").read_text())
    assert after == {**before, "train": {**before["train"], "epochs": 9}}


def test_resuming_with_other_numerics_warns(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, path = RunFolder(copy), copy / "config.json"
    content = json.loads(path.read_text())
    assert content["numerics"] == VERSION
    folder.reopen(folder.config())
    assert caplog.text == ""
    path.write_text(json.dumps({**content, "numerics": VERSION + 1}))
    renew_checksums(copy)
    folder.reopen(folder.config())
    assert f"started with version {VERSION + 1} of the numerics" in caplog.text
    assert json.loads(path.read_text())["numerics"] == VERSION + 1


# --- missing and damaged files -----------------------------------------------------------------------


def test_a_missing_run_suggests_others(run: Run, tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match=r"tinny: no such run\. Did you mean '.*/tiny'\? Train one with 'contig train DATA"
    ):
        Run.open(run.path.with_name("tinny"))
    with pytest.raises(RunError, match=r"is not a run: it has no config\.json\. Train one") as caught:
        Run.open(tmp_path)
    assert "Did you mean" not in str(caught.value)
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "config.json").touch()
    with pytest.raises(
        RunError, match=r"runs is not a run: .* Choose one of the runs in it: '.*/runs/one'\.$"
    ):
        Run.open(tmp_path / "runs")
    (tmp_path / "events.csv").touch()
    with pytest.raises(RunError, match=r"events\.csv is a file; expected the folder of a run"):
        Run.open(tmp_path / "events.csv")


def test_missing_results_say_how_to_get_them(copy: Path) -> None:
    (copy / "metrics.json").unlink()
    with pytest.raises(RunError, match=rf"has no metrics\.json.*Wait if it is still.*contig resume {copy}"):
        assert Run.open(copy).evaluate().result == Run.open(copy).metrics.result


NO_WEIGHTS = r"has results but no weights \(best\.pt\).* Restore .*or train again with --overwrite"


@pytest.mark.parametrize("missing", [("serving.pt", "best.pt"), ("best.pt",)])
def test_results_without_weights_cannot_be_evaluated(missing: tuple[str, ...], copy: Path) -> None:
    for name in missing:
        (copy / name).unlink()
    with pytest.raises(RunError, match=NO_WEIGHTS):
        Run.open(copy).evaluate()


def test_a_run_of_results_alone_is_refused_by_whatever_needs_weights(copy: Path) -> None:
    for name in ("best.pt", "serving.pt", "checkpoint.pt"):
        (copy / name).unlink()
    shutil.rmtree(copy / "stream")
    folder = RunFolder(copy)
    assert folder.metrics().parameters > 0
    for use in (Run.open, resume, refit, lambda path: RunFolder(path).require_finished("it can answer")):
        with pytest.raises(RunError, match=NO_WEIGHTS):
            use(copy)


def test_a_run_that_is_removed_loses_its_results_first(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a process that is killed in between leaves results to be taken for those of a later run."""
    (copy / "evaluations").mkdir()
    (copy / "evaluations" / "link.json").write_text("{}")
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.name == "config.json":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        RunFolder(copy).remove_run()
    assert (copy / "best.pt").exists()
    assert not (copy / "metrics.json").exists()
    assert not (copy / "evaluations").exists()


FILES = [
    "config.json",
    "metrics.json",
    "best.pt",
    "serving.pt",
    "checkpoint.pt",
    *(f"stream/{name}.npy" for name in ("src", "dst", "t", "ids", "is_dst")),
    "stream/origin.txt",
]


@pytest.mark.parametrize("name", FILES)
def test_one_changed_bit_is_noticed(name: str, copy: Path) -> None:
    data = bytearray((copy / name).read_bytes())
    data[-3] ^= 4
    (copy / name).write_bytes(data)
    with pytest.raises(RunError, match=rf"{name} is damaged: it does not match its checksum"):
        use_everything(copy)


def use_everything(path: Path) -> None:
    run = Run.open(path)
    run.evaluate()
    assert run.metrics.parameters > 0
    resume(path)


@pytest.mark.parametrize("name", ["stream/is_dst.npy", "checksums.json"])
def test_a_missing_file_is_noticed(name: str, copy: Path) -> None:
    (copy / name).unlink()
    for use in (Run.open, resume):
        with pytest.raises(RunError, match=rf"{name} is missing; the run is damaged"):
            use(copy)


def test_a_file_that_was_not_written_by_the_run_is_noticed(copy: Path) -> None:
    checksums = json.loads((copy / "checksums.json").read_text())
    del checksums["files"]["serving.pt"]
    (copy / "checksums.json").write_text(json.dumps(checksums))
    with pytest.raises(RunError, match=r"serving\.pt is not a file of this run"):
        Run.open(copy)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "files": {"config.json": 3}}']
)
def test_damaged_checksums(text: str, copy: Path) -> None:
    (copy / "checksums.json").write_text(text)
    for use in (Run.open, resume):
        with pytest.raises(RunError, match=r"checksums\.json"):
            use(copy)


def without_checksums(copy: Path) -> None:
    """Turn a run into one of a version without checksums."""
    (copy / "checksums.json").unlink()
    content = json.loads((copy / "config.json").read_text())
    del content["checksums"]
    (copy / "config.json").write_text(json.dumps(content))


def test_runs_without_checksums_are_opened_and_resumed(run: Run, copy: Path) -> None:
    without_checksums(copy)
    assert Run.open(copy).evaluate().result == run.evaluate().result
    assert resume(copy, epochs=2).metrics.best_epoch > 0
    assert not (copy / "checksums.json").exists()


def test_a_missing_serving_state_is_computed_again(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = Run.open(copy).embed()
    (copy / "serving.pt").unlink()
    found = Run.open(copy)
    np.testing.assert_allclose(found.embed(), expected, rtol=1e-4, atol=1e-6)
    assert "has no serving.pt; the state is computed again from best.pt" in caplog.text
    assert "not finished" not in caplog.text


@pytest.mark.parametrize("column", ["src", "dst", "t"])
def test_changed_events_of_runs_without_checksums_are_noticed(column: str, copy: Path) -> None:
    without_checksums(copy)
    values = np.load(copy / "stream" / f"{column}.npy")
    values[-1] = values[-1] + 1 if column == "t" else values[values != values[-1]][0]
    np.save(copy / "stream" / f"{column}.npy", values)
    for use in (Run.open, resume):
        with pytest.raises(
            RunError, match=r"stream does not hold the events that the run was trained on.*on tiny\."
        ):
            use(copy)


def test_a_changed_source_file_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t\n" + "".join(f"{i % 7},{10 + i % 5},{i}\n" for i in range(90)))
    run = fit(path, "edgebank", out=tmp_path / "run", show=False)
    assert "has changed" not in caplog.text
    with path.open("a") as file:
        file.write("1,10,99\n")
    read = (run.path / "stream" / "origin.txt").stat().st_mtime
    os.utime(path, (read + 5, read + 5))
    assert len(Run.open(run.path).stream) == 90
    assert f"{path} has changed since {run.path} read it; the run answers from the events" in caplog.text


def test_a_source_file_that_was_written_again_unchanged_has_not_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t\n" + "".join(f"{i % 7},{10 + i % 5},{i}\n" for i in range(90)))
    run = fit(path, "edgebank", out=tmp_path / "run", show=False)
    read = (run.path / "stream" / "origin.txt").stat().st_mtime
    os.utime(path, (read + 5, read + 5))
    compared = []
    monkeypatch.setattr(folders, "sha256", lambda source: compared.append(source) or sha256(source))
    for _ in range(2):
        Run.open(run.path)
    assert "has changed" not in caplog.text
    assert compared.count(path) == 1  # large files are not read at every command


@pytest.mark.parametrize("name", ["serving.pt", "best.pt", "checkpoint.pt"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_damaged_tensors(name: str, damage: str, copy: Path) -> None:
    whole = (copy / name).read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "garbage": b"garbage" * 99, "empty": b""}
    (copy / name).write_bytes(damaged[damage])
    renew_checksums(copy)
    use = resume if name == "checkpoint.pt" else lambda path: Run.open(path).evaluate()
    with pytest.raises(RunError, match=rf"{name} is damaged and cannot be read; restore it"):
        use(copy)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "{}", '{"model": "contig"}', '{"model": "gone", "options": {}, "train": {}}'],
)
def test_damaged_configs(text: str, copy: Path) -> None:
    (copy / "config.json").write_text(text)
    renew_checksums(copy)
    with pytest.raises(RunError, match=r"config\.json"):
        Run.open(copy)


def test_a_config_with_an_unknown_option(copy: Path) -> None:
    content = json.loads((copy / "config.json").read_text())
    content["options"]["dimm"] = 3
    (copy / "config.json").write_text(json.dumps(content))
    renew_checksums(copy)
    with pytest.raises(RunError, match=r"config\.json.*dimm.*Did you mean 'dim'"):
        Run.open(copy)


def test_weights_that_do_not_fit_the_config(copy: Path) -> None:
    content = json.loads((copy / "config.json").read_text())
    content["options"]["dim"] = 12
    (copy / "config.json").write_text(json.dumps(content))
    renew_checksums(copy)
    message = r"serving\.pt does not fit config.*from_src\.weight is \[8, 8\] torch.float32, not \[12, 12\]"
    with pytest.raises(RunError, match=message):
        Run.open(copy)


@pytest.mark.parametrize("column", ["src", "dst", "t", "ids"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_damaged_streams(column: str, damage: str, copy: Path) -> None:
    path = copy / "stream" / f"{column}.npy"
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(b"" if damage == "empty" else whole[:-9])
    renew_checksums(copy)
    with pytest.raises(RunError, match=r"stream.*damaged"):
        Run.open(copy)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("src", lambda x: x + 400),
        ("dst", lambda x: -x),
        ("src", lambda x: x.astype(np.int32)),
        ("t", lambda x: x[::-1]),
        ("t", lambda x: np.where(x == x[-1], np.nan, x.astype(float))),
        ("is_dst", lambda x: x[:-1]),
        ("is_dst", lambda x: x.astype(np.int8)),
        ("ids", lambda x: x.astype(float)),
    ],
)
def test_columns_of_another_type_or_range(column: str, change: Any, copy: Path) -> None:
    path = copy / "stream" / f"{column}.npy"
    np.save(path, change(np.load(path)))
    renew_checksums(copy)
    for use in (Run.open, resume):
        with pytest.raises(RunError, match=rf"stream does not hold a complete saved stream: .*{column}"):
            use(copy)


CHANGES: list[tuple[str, list[Any], Any]] = [
    ("serving.pt", ["schema"], 99),
    ("serving.pt", ["weights"], None),
    ("serving.pt", ["weights", "extra"], torch.zeros(2)),
    ("serving.pt", ["state", "position"], 401),
    ("serving.pt", ["state", "position"], "7"),
    ("serving.pt", ["state", "rows", "last"], torch.full((32,), 400)),
    ("serving.pt", ["state", "rows", "last"], torch.full((32,), -2)),
    ("serving.pt", ["state", "rows", "last"], torch.zeros(32)),
    ("serving.pt", ["state", "rows", "h"], torch.zeros(31, 8)),
    ("checkpoint.pt", ["optimizer"], None),
    ("checkpoint.pt", ["optimizer", "mean"], torch.zeros(3)),
    ("checkpoint.pt", ["generators", "torch"], torch.zeros(3, dtype=torch.uint8)),
    ("checkpoint.pt", ["generators", "negatives"], None),
    ("checkpoint.pt", ["progress", "epoch"], -1),
    ("checkpoint.pt", ["progress", "epoch"], 7),
    ("checkpoint.pt", ["progress", "step"], 10**6),
    ("checkpoint.pt", ["progress", "best_value"], float("nan")),
    ("checkpoint.pt", ["progress", "log"], [{"epoch": "1"}]),
    ("checkpoint.pt", ["progress", "more"], 1),
    ("checkpoint.pt", ["state", "rows"], []),
]


@pytest.mark.parametrize(("name", "keys", "value"), CHANGES)
def test_values_of_another_type_shape_or_range(name: str, keys: list[Any], value: Any, copy: Path) -> None:
    content = torch.load(copy / name, weights_only=True)
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    torch.save(content, copy / name)
    renew_checksums(copy)
    use = resume if name == "checkpoint.pt" else Run.open
    with pytest.raises(RunError, match=name):
        use(copy)


def test_columns_of_unequal_length(copy: Path) -> None:
    shutil.copy(copy / "stream" / "ids.npy", copy / "stream" / "dst.npy")
    renew_checksums(copy)
    with pytest.raises(RunError, match="differ in length"):
        Run.open(copy)
