"""Commands on a run that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import Answer

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate"],
        ["embed", "--out", "x.npy"],
        ["recommend", "--node", "n1"],
        ["trajectory", "--node", "n1", "--out", "x.parquet"],
        ["resume"],
    ],
    ids=lambda words: words[0],
)
def test_a_missing_run_suggests_others(command: list[str], run: Path) -> None:
    answer = Answer(command[0], run.with_name("visit"), *command[1:])
    assert answer.code == 2
    assert f"Did you mean '{run}'" in answer.err
