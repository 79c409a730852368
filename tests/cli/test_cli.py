from __future__ import annotations

import pytest
from support.commands import Answer
from typer.main import get_command

from contig.cli import app

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_examples(command: str) -> None:
    answer = Answer(command, "--help")
    assert answer.code == 0
    assert "Examples" in answer.out
    assert answer.out.count(f"contig {command}") >= 2
