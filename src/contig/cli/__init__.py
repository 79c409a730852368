"""The command line.

A module of commands has a ``typer.Typer`` called ``app`` and is added here by one line. Commands import what
they need when they run, so that ``contig --help`` is fast.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from contig import __version__
from contig.cli import (
    bench,
    compare,
    console,
    datasets,
    evaluate,
    inspect,
    models,
    queries,
    reproduce,
    training,
)
from contig.errors import ContigError
from contig.files import disk_error
from contig.kernels.malloc import keep_freed_memory


class _Commands(TyperGroup):
    """Turns errors that the user can fix into one message and exit code 2, and Ctrl-C into 130."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ContigError as error:
            if os.environ.get("CONTIG_DEBUG") == "1":
                raise
            console.error(str(error))
            raise typer.Exit(2) from None
        except OSError as error:
            if error.errno in (None, errno.EPIPE) or os.environ.get("CONTIG_DEBUG") == "1":
                raise
            console.error(str(disk_error(error, error.filename or "a file")))
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            console.error("interrupted")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
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
app.add_typer(training.app)
app.add_typer(evaluate.app)
app.add_typer(queries.app)
app.add_typer(models.app)
app.add_typer(compare.app)
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
) -> None:
    """Learn on temporal interaction graphs, with node embeddings that evolve continuously in time."""
    ctx.with_resource(console.shown_log())


def main() -> None:
    """Run the command line and exit: 0 on success, 2 on an error that the user can fix."""
    # Threads that spin while they wait slow a step down several times if anything else is running.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_freed_memory()
    if not sys.flags.safe_path:  # package.module:Class may name a module of the working directory
        sys.path.append(str(Path.cwd()))
    app(prog_name="contig")
