"""The option ``--repeated`` of commands that predict or train on new events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    from contig.runs.repeated_events import KnownPolicy

Repeated = Annotated[
    str,
    typer.Option(
        "--repeated",
        metavar="reject|skip",
        help="Events of the file that the run already knows: refuse the file, or skip them.",
    ),
]


def parse_known_policy(given: str) -> KnownPolicy:
    match given:
        case "reject" | "skip":
            return given
    raise ConfigError(f"--repeated: {unknown('value', given, ('reject', 'skip'))}")
