"""The command ``recipes``: list the recipes of the package, show one, or print the schema of all."""

from __future__ import annotations

from typing import Annotated

import typer

from contig.cli import console
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.errors import ConfigError

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig recipes", "list the recipes of the package"),
        ("contig recipes collegemsg > mine.json", "start from one of them"),
        ("contig recipes --schema > recipe.schema.json", "for your editor"),
    ),
)
def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Print this recipe.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of recipes.")] = False,
    json: Json = False,
) -> None:
    """List the recipes that come with the package, or print one.

    Train them with contig train --config NAME, or with several seeds: contig repeat NAME.
    """
    if schema:
        if name is not None:
            raise ConfigError("Specify NAME or --schema, not both.")
        from contig.experiments.recipe_schema import recipe_schema

        console.print_json(recipe_schema())
    elif name is None:
        _list(json)
    else:
        from contig.experiments.recipe_files import find_recipe_file, read_recipe_text

        typer.echo(read_recipe_text(find_recipe_file(name)), nl=False)


def _list(json: bool) -> None:
    from contig.experiments.recipe_files import load_recipe_file, packaged_recipes
    from contig.models import DEFAULT_MODEL

    found = {name: load_recipe_file(path) for name, path in packaged_recipes().items()}
    if json:
        console.print_json(found)
        return
    table = console.new_table("recipe", "data", "model", "variants")
    for column in table.columns[1:3]:
        column.justify = "left"
    for name, recipe in found.items():
        variants = str(len(recipe.get("variants", {})) or "")
        models = ", ".join(recipe.get("models", [recipe.get("model", DEFAULT_MODEL)]))
        table.add_row(*map(console.plain, (name, recipe["data"], models, variants)))
    console.out().print(table)
