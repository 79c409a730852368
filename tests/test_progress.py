"""Progress: bars on a terminal, log lines elsewhere, nothing on request."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from support.trained import TINY, tiny_stream

from contig.progress import Display
from contig.training.fit import fit

LINE = "epoch   5  loss 0.5124  validation AP 87.65"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_lines_are_logged_without_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "contig")
    with Display() as display:
        task = display.task("epoch 5/9", 100)
        task.advance(30, "loss 0.5")
        display.line(LINE)
        task.end()
    assert logged(caplog) == [LINE]


def test_lines_are_printed_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a task runs, but not at every step."""
    clock = iter([0.0, 4.0, 4.0, 8.0, 12.0, 12.0, 16.0, 20.0])
    monkeypatch.setattr("contig.progress.time.perf_counter", lambda: next(clock))
    with Display(True) as display:
        task = display.task("epoch 5/9", 100, done=10)
        task.advance(30, "loss 0.5")  # after 4 seconds
        task.advance(30, "loss 0.25")  # after 12
        display.line(LINE)
        task.end()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["epoch 5/9: 70 of 100 events  loss 0.25  8 events/s", LINE]


class ZMQInteractiveShell:
    """What rich takes for a notebook, by its name."""


@pytest.mark.parametrize("show", [None, True])
def test_a_notebook_without_ipywidgets_gets_lines(
    show: bool | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise rich would warn that they are missing, at every bar."""
    monkeypatch.setattr("builtins.get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setattr("contig.progress.find_spec", lambda name: None)
    with Display(show) as display:
        display.task("epoch 5/9", 100).advance(30)
        display.line(LINE)
    assert capsys.readouterr() == (f"{LINE}\n", "")
    monkeypatch.setattr("contig.progress.find_spec", lambda name: name)
    assert Display(show).bars


def test_nothing_is_shown_on_request(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "contig")
    with Display(False) as display:
        display.task("epoch 5/9", 100).advance(30)
        display.line(LINE)
    assert logged(caplog) == []
    assert capsys.readouterr() == ("", "")


def test_bars_on_a_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    fit(tiny_stream(), out=tmp_path / "run", epochs=2, **TINY)
    out, err = capsys.readouterr()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err)
    assert out == ""
    assert "epoch 1/2" in plain
    assert re.search(r"epoch +2  loss \d\.\d{4}  validation AP \d\d\.\d\d", plain)


def test_speed_counts_events_since_the_bar_was_started() -> None:
    """Those that were done before do not count."""
    display = Display(False)
    task = display.task("epoch", 100, done=50)
    assert task.speed() == 0
    task.advance(20)
    assert task.events == 20
    assert task.bar.tasks[0].completed == 70
