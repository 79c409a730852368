"""The commands ``serve`` and ``send``: their options, and what they refuse before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.commands import Answer

from contig.cli import serve as command
from contig.errors import ConfigError
from contig.runs.run import Run
from contig.serve import packages


def test_settings_go_where_they_belong() -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    serving, live = command._settings({"port": 9000, "late": "accept", "max_batch": "50", "max_k": "7"})
    assert (serving.port, serving.max_k, serving.max_batch) == (9000, 7, 50)
    assert (live.late, live.max_batch) == ("accept", 50)
    with pytest.raises(ConfigError, match="Did you mean 'max_batch'"):
        command._settings({"max_bach": "1"})
    with pytest.raises(ConfigError, match="late"):
        command._settings({"late": "perhaps"})


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"fastapi.*contig\[serve\]"):
        command.need_extra()


def test_the_level_of_the_log_is_checked() -> None:
    assert command._level("warning") == 30
    with pytest.raises(ConfigError, match="--log-level"):
        command._level("loud")


def test_a_mistyped_run_leaves_no_folder(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    assert "typo" in Answer("serve", tmp_path / "typo", "--port", 0).refusal
    assert not list(tmp_path.iterdir())


def test_a_second_service_of_one_folder_is_refused(text_id_run: Run, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from contig.live import Engine

    with Engine.open(tmp_path / "live", text_id_run.path, device="cpu") as first:
        answer = Answer("serve", text_id_run.path, "--folder", tmp_path / "live", "--port", 0)
        assert f"is in use by process {os.getpid()}" in " ".join(answer.refusal.split())
        assert first.status().live_events == 0
