"""Work in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from contig.benchmarks.processes import in_new_process, run_python


def test_another_process_returns_its_result() -> None:
    assert in_new_process(len, "seven c") == 7


def test_an_interpreter_that_fails_raises() -> None:
    run_python("-S", "-c", "pass")
    with pytest.raises(subprocess.CalledProcessError, match=sys.executable):
        run_python("-S", "-c", "raise SystemExit(3)")
