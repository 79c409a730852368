"""The command ``serve``: answer over HTTP while events keep coming."""

from __future__ import annotations

import logging
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.folders import Device, Folder
from contig.errors import ConfigError, unknown
from contig.options import parse_settings, set_options
from contig.serve.packages import missing_packages

if TYPE_CHECKING:
    from contig.live import Settings
    from contig.serve.settings import ServeSettings

app = typer.Typer()

LEVELS = ("debug", "info", "warning", "error")

TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        show_default="$CONTIG_TOKEN",
        help="A file with the token that requests need.",
    ),
]

LiveFolder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        show_default="RUN-live",
        help="Where events and state are kept; created on the first start.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Address to listen on; any but a loopback address needs a token.",
    ),
]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, help="0 picks a free one.")]
LateEvents = Annotated[
    str,
    typer.Option(
        "--late",
        metavar="reject|accept",
        help="What to do with events older than the last one of a node.",
    ),
]
OtherSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting; see docs/live.md."),
]
LogLevel = Annotated[str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig serve runs/first", "on this machine"),
        ("contig serve runs/first --port 9000", "another port"),
        ("contig serve runs/first --host 0.0.0.0 --token-file token", "for others"),
        ("contig serve runs/first --set retention=snapshot", "a short log"),
    ),
)
def serve(
    run: Folder,
    folder: LiveFolder = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: TokenFile = None,
    late: LateEvents = "reject",
    settings: OtherSettings = None,
    log_level: LogLevel = "info",
    device: Device = "auto",
) -> None:
    """Answer over HTTP for any node and time while events keep coming.

    Accepted events are on disk before they are acknowledged; after a crash the service continues
    from the same state. Stops on Ctrl-C or SIGTERM, after it finished what it accepted. Needs the
    extra serve: pip install 'contig\\[serve]'.
    """
    need_extra()
    from contig.live import Engine
    from contig.serve.logs import log_json
    from contig.serve.server import serve as run_service
    from contig.serve.settings import check_address, read_token

    chosen, live = _settings({"host": host, "port": port, "late": late, **parse_settings(settings or [])})
    token = read_token(token_file)
    check_address(chosen.host, token)
    level = _level(log_level)
    place = folder or run.with_name(f"{run.name}-live")
    with console.status(f"opening {place}"):
        engine = Engine.open(place, run, live, device)
    log_json(level)
    try:
        run_service(engine, chosen, token, lambda url: typer.echo(f"Serving {run} at {url}"))
    finally:
        engine.close()


def _settings(given: dict[str, Any]) -> tuple[ServeSettings, Settings]:
    """Divide settings by name between the service and the engine; a name of both sets both."""
    from contig.live import Settings
    from contig.serve.settings import ServeSettings

    serving, live = ServeSettings(), Settings()
    names = [{field.name for field in fields(one)} for one in (serving, live)]
    for name in given:
        if name not in names[0] | names[1]:
            raise ConfigError(unknown("setting", name, names[0] | names[1]))
    parts = [{name: value for name, value in given.items() if name in known} for known in names]
    return set_options(serving, parts[0]), set_options(live, parts[1])


def _level(given: str) -> int:
    if given not in LEVELS:
        raise ConfigError(f"--log-level: {unknown('level', given, LEVELS)}")
    return logging.getLevelNamesMapping()[given.upper()]


def need_extra() -> None:
    """Raise ``ConfigError`` unless the packages of the extra are installed."""
    if (missing := missing_packages()) is not None:
        raise ConfigError(f"This command {missing}")
