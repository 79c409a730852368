"""The tutorial of docs/live.md: from a CSV to a running service, each command as it is written there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.commands import Answer
from support.trained import fast_training

from contig.live import Engine

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "live.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8000"
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(language: str, heading: str) -> list[str]:
    """The blocks of a language in a section of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [textwrap.dedent(text).strip() for found, text in FENCE.findall(section) if found == language]


@contextmanager
def served(command: str) -> Iterator[str]:
    """Run ``contig serve`` at a free port in a process of its own, until it is killed; yield its address."""
    words = [sys.executable, "-m", *shlex.split(command), "--port", "0", "--log-level", "error"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.kill()


def fetched(command: str) -> Any:
    """What ``curl`` gets; without it, what Python gets from the same address."""
    if shutil.which("curl"):
        done = subprocess.run(["bash", "-c", f"{command} --silent --fail"], capture_output=True, check=True)
        return json.loads(done.stdout)
    with urllib.request.urlopen(shlex.split(command)[1]) as answer:
        return json.load(answer)


def test_from_a_csv_to_a_running_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    data, install, train, serve, send, ask = blocks(
        "bash", "From a CSV to a running service in five commands"
    )
    subprocess.run(["bash", "-euc", data], check=True)

    (package,) = re.findall(r"'contig\[(\w+)\]'", install)
    assert package in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with fast_training():
        trained = Answer(*shlex.split(train)[1:])
    assert trained.code == 0, trained.err
    with served(serve) as url:
        for expected in ("400 events accepted, 0 known", "0 events accepted, 400 known"):
            sent = Answer(*shlex.split(send.replace(ADDRESS, url))[1:])
            assert expected in sent.words
        found = fetched(ask.replace(ADDRESS, url))
        (shown,) = blocks("json", "From a CSV to a running service in five commands")
        assert found.keys() == json.loads(shown).keys()
        assert [one.keys() for one in found["recommendations"]] == [
            one.keys() for one in json.loads(shown)["recommendations"]
        ]
        (program,) = blocks("python", "Clients")
        names: dict[str, Any] = {}
        exec(program.replace(ADDRESS, url), names)
        assert names["client"]
    with Engine.open("runs/shop-live", device="cpu") as engine:  # killed, and nothing is lost
        assert engine.status().live_events == 401
    (update, _) = blocks("bash", "The run and its service")[0].splitlines()
    assert "observed 400 events" in Answer(*shlex.split(update)[1:]).words
