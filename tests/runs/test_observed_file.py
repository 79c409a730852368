"""Content of ``observed.pt`` that cannot be right, under checksums that are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trained import TINY, tiny_stream

from contig.errors import RunError
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training.fit import fit

KNOWN = int(tiny_stream().ids.labels[0])
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run that has observed three events of a new source and a new destination."""
    stream = tiny_stream(edge_features=2)
    path = tmp_path_factory.mktemp("observed") / "run"
    run = fit(stream, out=path, epochs=1, show=False, **TINY)
    labels, last = stream.ids.labels, int(stream.t[-1])
    src, dst = int(labels[stream.src[0]]), int(labels[stream.dst[0]])
    table = {"src": [src, 9000, 9000], "dst": [dst, dst, 9100], "t": [last, last + 2, last + 2]}
    run.observe({**table, "f0": [0.0, 1.0, 2.0], "f1": [3.0, 4.0, 5.0]}, features=["f0", "f1"])
    return path, run.folder.load("observed.pt")


def changed(content: dict[str, Any], change: Change) -> dict[str, Any]:
    content = copy.deepcopy(content)
    change(content)
    return content


def put(*path: Any, value: Any) -> Change:
    """Set a value of nested dictionaries, lists and tensors."""

    def change(content: Any) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


def drop(*path: Any) -> Change:
    def change(content: Any) -> None:
        for key in path[:-1]:
            content = content[key]
        del content[path[-1]]

    return change


def retype(name: str, dtype: torch.dtype) -> Change:
    def change(content: dict[str, Any]) -> None:
        content["events"][name] = content["events"][name].to(dtype)

    return change


WRONG: dict[str, tuple[Change, str]] = {
    "no events": (drop("events"), "events is missing"),
    "no labels": (drop("labels"), "labels is missing"),
    "no state": (put("state", value=None), "state is missing or of another type"),
    "no serving": (put("serving", value=3), "serving is missing or of another type"),
    "no times": (drop("events", "t"), "columns are not"),
    "no features": (drop("events", "features"), "columns are not"),
    "another column": (put("events", "x", value=torch.zeros(3)), "columns are not"),
    "a list of sources": (put("events", "src", value=[1, 2, 3]), "columns are not"),
    "short sources": (put("events", "src", value=torch.zeros(2, dtype=torch.int64)), "columns are not"),
    "a single source": (put("events", "src", value=torch.tensor(1)), "columns are not"),
    "sources as int32": (retype("src", torch.int32), "columns are not"),
    "times as floats": (retype("t", torch.float64), "columns are not"),
    "narrow features": (put("events", "features", value=torch.zeros(3, 1)), "columns are not"),
    "a source beyond all nodes": (put("events", "src", 1, value=10**6), r"src is not in 0\.\."),
    "a negative destination": (put("events", "dst", 0, value=-1), r"dst is not in 0\.\."),
    "a source as destination": (put("events", "dst", 0, value=0), "mixed up"),
    "an early time": (put("events", "t", 0, value=-5), "t decreases"),
    "a time that decreases": (put("events", "t", 1, value=2**40), "t decreases"),
    "times beyond all": (put("events", "t", 2, value=2**62), "out of range"),
    "features that are not numbers": (put("events", "features", 1, value=torch.nan), "not finite"),
    "a label twice": (lambda x: x.update(labels=[9000, 9000], is_dst=[False, False]), "occurs twice"),
    "a label of the training": (put("labels", 0, value=KNOWN), "one of the training's"),
    "a label of another type": (put("labels", 0, value="ann"), "not of the type"),
    "a label beyond all integers": (put("labels", 0, value=2**70), "not of the type"),
    "a missing label": (drop("labels", 1), "is_dst does not fit"),
    "no sides": (put("is_dst", value=None), "is_dst does not fit"),
    "a side that is a number": (put("is_dst", 0, value=7), "other values"),
    "no rows": (drop("state", "rows"), "rows and position"),
    "a position beyond the events": (put("state", "position", value=10**9), "state.position"),
    "narrow states": (put("state", "rows", "h", value=torch.zeros(3, 2)), "state.rows.h"),
    "an event that no loop may see": (put("state", "rows", "last", 0, value=10**9), "state.rows.last"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_content_is_refused(name: str, observed: tuple[Path, dict[str, Any]]) -> None:
    path, content = observed
    change, message = WRONG[name]
    folder = RunFolder(path)
    folder.save("observed.pt", changed(content, change))
    try:
        with pytest.raises(RunError, match=message):
            Run.open(path)
    finally:
        folder.save("observed.pt", content)


def test_right_content_is_read(observed: tuple[Path, dict[str, Any]]) -> None:
    path, content = observed
    run = Run.open(path)
    assert run.stream.ids.labels[-2:].tolist() == content["labels"] == [9000, 9100]
    assert len(run.stream) == len(run.trained_stream) + 3
    assert torch.equal(run.state["h"], content["state"]["rows"]["h"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("tip", value=3), "tip does not hold"),
        (put("tip", "nodes", value=[1]), "tip.nodes is not a list"),
        (put("tip", "nodes", value=torch.tensor([10**6])), r"tip.nodes is not in 0\.\."),
        (put("tip", "position", value=-1), "state.position"),
        (put("tip", "rows", value={}), "state.rows"),
        (put("tip", "rows", "last", value=torch.tensor([10**9])), "state.rows.last"),
    ],
)
def test_wrong_rows_of_an_earlier_position_are_refused(
    change: Change, message: str, observed: tuple[Path, dict[str, Any]]
) -> None:
    path, content = observed
    folder, state = RunFolder(path), content["state"]
    rows = {name: value[:1] for name, value in state["rows"].items()}
    tip = {"position": 5, "nodes": torch.tensor([0]), "rows": rows}
    folder.save("observed.pt", changed({**content, "tip": tip}, change))
    try:
        with pytest.raises(RunError, match=message):
            Run.open(path)
    finally:
        folder.save("observed.pt", content)


def test_a_removed_file_is_noticed(
    observed: tuple[Path, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    path, content = observed
    trained = len(Run.open(path).trained_stream)
    assert not caplog.records
    (path / "observed.pt").unlink()
    try:
        run = Run.open(path)
        assert len(run.stream) == trained
        assert "observed.pt is missing" in caplog.text
    finally:
        RunFolder(path).save("observed.pt", content)
