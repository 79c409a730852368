"""The command ``models``: list the models and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from contig.options import OptionInfo

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig models", "list all models"),
        ("contig models contig", "options of one, for train --set"),
        ("contig models mypackage.mymodule:MyModel", "of a model of your own"),
        ("contig models --json", "as JSON"),
    ),
)
def models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", show_default=False, help="Show the options of this model."),
    ] = None,
    json: Json = False,
) -> None:
    """List the models, or the options of one model and of its training."""
    if name is None:
        _list_models(json)
    else:
        _show_model(name, json)


def _list_models(json: bool) -> None:
    found = _descriptions()
    if json:
        console.print_json(list(map(asdict, found)))
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for model in found:
        kind = "" if model.learns else " [dim](heuristic: nothing to train)[/dim]"
        table.add_row(f"[bold]{model.name}[/bold]", console.plain(model.description) + kind)
    console.out().print(table)


def _descriptions() -> list[ModelInfo]:
    """Describe every model; one of an installed package that cannot be loaded is reported and left out."""
    from contig.models import model_names

    found = []
    for name in model_names():
        try:
            found.append(_description(name))
        except ConfigError as error:
            console.notice(str(error))
    return found


@dataclass(frozen=True)
class ModelInfo:
    """A model, for people; ``description`` is the first line of its class's docstring."""

    name: str
    description: str
    learns: bool


def _description(name: str) -> ModelInfo:
    from contig.models import model_class

    found = model_class(name)
    first, _, _ = (found.__doc__ or "").strip().partition("\n")
    return ModelInfo(name, first, found.learns)


def _show_model(name: str, json: bool) -> None:
    from contig.options import describe
    from contig.runs.config import RunConfig
    from contig.runs.options import PROTOCOL_OPTIONS

    description, defaults = _description(name), RunConfig.of(name)
    options, training = describe(defaults.model_options), describe(defaults.train)
    if not description.learns:  # a heuristic is only tested
        training = [option for option in training if option.name in PROTOCOL_OPTIONS]
    if json:
        lists = {"options": list(map(asdict, options)), "training": list(map(asdict, training))}
        console.print_json({**asdict(description), **lists})
        return
    console.out().print(f"\n[bold]{console.plain(name)}[/bold]  {console.plain(description.description)}")
    if options:
        console.out().print(_option_table("Option", options))
    else:
        console.out().print(f"\n  {console.plain(name)} has no options")
    console.out().print(_option_table("Training" if description.learns else "Test", training))


def _option_table(title: str, options: Sequence[OptionInfo]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="cyan")
    table.add_column(title, header_style="bold", no_wrap=True)
    table.add_column("Default", no_wrap=True)
    table.add_column("Description", overflow="fold")
    for option in options:
        shown = "none" if option.default in (None, ()) else str(option.default).lower()
        kind = ", ".join(filter(None, (option.type, option.range)))
        text = f"{console.plain(option.help)} [dim]({console.plain(kind)})[/dim]"
        table.add_row(option.name, console.plain(shown), text)
    return table
