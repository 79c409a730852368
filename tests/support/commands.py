"""Running commands in this process, and what they are given to train tiny models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
import typer
from typer import testing

from contig.cli import app
from support.trained import TINY

SET = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
COLUMNS = ["--src", "who", "--dst", "page", "--time", "when"]
START = 1_714_521_600  # 1 May 2024, when the visits begin


def date(t: float) -> str:
    """A Unix time as commands write it."""
    return datetime.fromtimestamp(t, UTC).isoformat().replace("+00:00", "Z")


def seconds(dates: Iterable[Any]) -> list[float]:
    """Dates as tables write them, text or timestamps, as Unix times."""
    found = [datetime.fromisoformat(one) if isinstance(one, str) else one for one in dates]
    return [one.replace(tzinfo=UTC).timestamp() for one in found]


@cache
def _built(app: typer.Typer) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Build all commands, which takes longer than to run most of them, and copy what is in each of them."""

    def every(command: Any) -> Iterator[Any]:
        yield command
        for inner in getattr(command, "commands", {}).values():
            yield from every(inner)

    built = typer.main.get_command(app)
    return built, [(command, dict(vars(command))) for command in every(built)]


def commands(app: typer.Typer) -> Any:
    """Return all commands as if newly built: what an earlier command line left in them is forgotten."""
    built, contents = _built(app)
    for command, content in contents:
        command.__dict__ = dict(content)
    return built


class Answer:
    """What a command printed, and how it ended."""

    def __init__(self, *arguments: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(testing, "_get_command", commands)
            result = testing.CliRunner().invoke(
                app, [str(argument) for argument in arguments], prog_name="contig"
            )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[list[str]]:
        """What was printed, the words of each line."""
        return [line.split() for line in self.out.splitlines() if line.strip()]

    @property
    def words(self) -> str:
        """All of it on one line."""
        return " ".join((self.out + self.err).split())

    @property
    def refusal(self) -> str:
        """Why it was refused, without colors."""
        assert self.code == 2, self.out
        return re.sub(r"\x1b\[[0-9;]*m", "", self.err)
