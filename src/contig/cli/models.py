"""The command that tells which models there are: ``models``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console
from contig.cli.data import Json

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()


@app.command(
    epilog=console.examples(
        ("contig models", "which there are"),
        ("contig models contig", "its options, for train --set"),
        ("contig models --json", "for programs"),
    )
)
def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Show this one's options.")
    ] = None,
    json: Json = False,
) -> None:
    """List the models, or the options of one and of its training."""
    from contig.models import model_names

    if name is None:
        known = [_model(one) for one in model_names()]
        if json:
            console.print_json(known)
        else:
            console.out().print(_model_list(known))
        return
    told = _model(name) | _options(name)
    if json:
        console.print_json(told)
        return
    console.out().print(f"\n[bold]{name}[/bold]  {console.plain(told['description'])}")
    if told["options"]:
        console.out().print(_option_list("Option", told["options"]))
    else:
        console.out().print(f"\n  {name} has no options")
    console.out().print(_option_list("Training", told["training"]))


def _model(name: str) -> dict[str, Any]:
    import sys

    from contig.models import model_class

    found = model_class(name)
    text = sys.modules[found.__module__].__doc__ or ""
    return {"name": name, "description": text.partition("\n")[0], "learns": found.learns}


def _options(name: str) -> dict[str, Any]:
    from contig.options import describe
    from contig.runs.config import RunConfig

    defaults = RunConfig.of(name)
    return {"options": describe(defaults.model_options), "training": describe(defaults.train)}


def _model_list(known: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for model in known:
        kind = "" if model["learns"] else " [dim](a rule: nothing to train)[/dim]"
        table.add_row(f"[bold]{model['name']}[/bold]", console.plain(model["description"]) + kind)
    return table


def _option_list(title: str, options: list[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="cyan")
    table.add_column(title, header_style="bold", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for option in options:
        default = option["default"]
        shown = "none" if default in (None, ()) else str(default).lower()
        told = f"{console.plain(option['help'])} [dim]({console.plain(option['type'])})[/dim]"
        table.add_row(option["name"], console.plain(shown), told)
    return table
