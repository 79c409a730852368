"""The command line.

A module of commands has a ``typer.Typer`` called ``app`` and is added here by one line. Commands import what
they need when they run, so that ``contig --help`` is fast.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from contig import __version__
from contig.cli import (
    bench,
    classify,
    compare,
    console,
    datasets,
    embed,
    evaluate,
    index,
    inspect,
    models,
    nearest,
    recipes,
    recommend,
    refit,
    repeat,
    reproduce,
    score,
    send,
    serve,
    training,
    trajectory,
    tune,
    update,
)
from contig.cli.commands import readable
from contig.errors import ContigError
from contig.files import disk_error
from contig.kernels.malloc import keep_freed_memory

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]  # Typer does not export it by name

PLAIN = {  # how Typer words the values that it rejects, and how we do
    r"Input should be a valid integer\b.*": "expected a whole number",
    r"Input should be a valid number\b.*": "expected a number",
    r"Input should be greater than or equal to (\S+)": r"must be at least \1",
    r"Input should be less than or equal to (\S+)": r"must be at most \1",
}


class _Commands(TyperGroup):
    """Turns errors that the user can fix into one message and exit code 2, and Ctrl-C into 130."""

    def get_params(self, ctx: Any) -> list[Any]:
        return readable(super().get_params(ctx))

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        with _reported_errors():
            return super().make_context(info_name, _quiet_first(args), *more, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _reported_errors():
            return super().invoke(ctx)


def _quiet_first(args: list[str]) -> list[str]:
    """Move ``--quiet`` to the front, because it may follow any command."""
    return sorted(args, key=lambda word: word != "--quiet")


@contextmanager
def _reported_errors() -> Iterator[None]:
    """Print every error that the user can fix in the same way, wherever it is raised."""
    try:
        yield
    except (ContigError, OSError, MemoryError, RuntimeError, USAGE_ERROR) as error:
        message = _message(error)
        if message is None or os.environ.get("CONTIG_DEBUG") == "1":
            raise
        console.error(message)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        console.error("interrupted")
        raise typer.Exit(130) from None


def _message(error: Any) -> str | None:
    """Return the message for an error; None if it is not for the user, or Typer shows the help instead."""
    if isinstance(error, ContigError):
        return str(error)
    if isinstance(error, OSError):
        unknown = error.errno in (None, errno.EPIPE)
        return None if unknown else str(disk_error(error, error.filename or "a file"))
    if isinstance(error, MemoryError | RuntimeError):
        return _memory_message(error) or _lost_rank_message(error)
    if "NoArgs" in type(error).__name__ or error.ctx is None:
        return None
    message = error.format_message()
    for pattern, plain in PLAIN.items():
        message = re.sub(pattern, plain, message)
    return f"{message}{'' if message[-1] in '.?!' else '.'} See: {error.ctx.command_path} --help"


def _memory_message(error: MemoryError | RuntimeError) -> str | None:
    """Return the message if there was too little memory, on the CPU or a GPU."""
    # torch has no class of its own for the former, and is not imported for the latter
    known = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
    if not known and "DefaultCPUAllocator" not in str(error):
        return None
    reason = (str(error).splitlines() or [""])[0][:200]
    return (
        f"Not enough memory{f' ({reason})' if reason else ''}. Use less data, or smaller options such as dim."
    )


def _lost_rank_message(error: MemoryError | RuntimeError) -> str | None:
    """Return the message if another process of a distributed training has ended."""
    # by their texts: torch raises a plain RuntimeError for Gloo
    lost = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
    if not any(text in str(error) for text in lost):
        return None
    return (
        "Another rank has ended; its own message says why. To continue a training that had begun, start "
        "'contig resume RUN' with torchrun."
    )


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=console.examples(
        ("contig datasets", "list the known datasets"),
        ("contig inspect collegemsg", "summarize one of them"),
        ("contig inspect events.csv --plot events.png", "or a file of your own"),
        ("contig train collegemsg --out runs/first", "train a model"),
        ("contig recommend runs/first --node 7", "query the trained run"),
    ),
)
app.add_typer(inspect.app)
app.add_typer(datasets.app)
app.add_typer(index.app)
app.add_typer(training.app)
app.add_typer(evaluate.app)
app.add_typer(classify.app)
app.add_typer(embed.app)
app.add_typer(score.app)
app.add_typer(recommend.app)
app.add_typer(nearest.app)
app.add_typer(trajectory.app)
app.add_typer(update.app)
app.add_typer(refit.app)
app.add_typer(serve.app)
app.add_typer(send.app)
app.add_typer(models.app)
app.add_typer(recipes.app)
app.add_typer(repeat.app)
app.add_typer(compare.app)
app.add_typer(tune.app)
app.add_typer(bench.app)
app.add_typer(reproduce.app)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"contig {__version__}")
        raise typer.Exit


@app.callback()
def contig(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Print results and errors only. May also follow the command."),
    ] = False,
) -> None:
    """Learn on temporal interaction graphs, with node embeddings that evolve continuously in time."""
    ctx.with_resource(console.shown_log())
    others = os.environ.get("RANK", "0").strip() not in (
        "",
        "0",
    )  # of several processes (contig.ranks) the first one prints
    if others:
        ctx.with_resource(redirect_stdout(StringIO()))
    console.silence(quiet or others, urgent=quiet)


def main() -> None:
    """Run the command line and exit: 0 on success, 2 on an error that the user can fix."""
    keep_freed_memory()
    if not sys.flags.safe_path:  # package.module:Class may name a module of the working directory
        sys.path.append(str(Path.cwd()))
    app(prog_name="contig")
