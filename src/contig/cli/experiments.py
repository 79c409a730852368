"""Commands that make many runs: ``repeat``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console
from contig.cli.data import Json

if TYPE_CHECKING:
    from rich.table import Table

    from contig.experiments.repeats import Row

app = typer.Typer()


@app.command(
    epilog=console.examples(
        ("contig repeat configs/collegemsg.json", "three seeds, one after another"),
        ("contig repeat configs/*.json --at-once 9 --device cuda", "all side by side on a GPU"),
    )
)
def repeat(
    recipes: Annotated[list[Path], typer.Argument(metavar="RECIPE...", help="Recipe files (JSON).")],
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds, counted from 0.")] = 3,
    out: Annotated[Path, typer.Option("--out", help="Where the runs are kept.")] = Path("runs/repeats"),
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")] = "auto",
    at_once: Annotated[int, typer.Option("--at-once", help="Trainings that run side by side.")] = 1,
    json: Json = False,
) -> None:
    """Train recipes with several seeds and print what comes out on average.

    Runs that are done already are not done again; interrupted ones are gone on with.
    """
    from contig.experiments.recipes import read_recipes
    from contig.experiments.repeats import collect, plan, run_jobs

    found = [recipe for path in recipes for recipe in read_recipes(path)]
    jobs = plan(found, seeds, out)
    waiting = sum(not job.done for job in jobs)
    with console.bar("trainings", waiting) as advance:
        run_jobs(jobs, device=device, at_once=at_once, ended=lambda _: advance(1))
    rows = collect(jobs)
    if json:
        console.print_json([row.as_dict() for row in rows])
    else:
        console.out().print(_table(rows))


def _table(rows: list[Row]) -> Table:
    from rich.table import Table

    table = Table(title="per-batch AP and AUC on the test events, %, mean ± standard deviation")
    for name in ("data", "model", "variant", "seeds"):
        table.add_column(name)
    for name in ("AP", "AP inductive", "AUC", "AUC inductive", "epochs", "s/epoch"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [
            (row.transductive, "ap"),
            (row.inductive, "ap"),
            (row.transductive, "auc"),
            (row.inductive, "auc"),
        ]
        table.add_row(
            *(row.recipe.data, row.recipe.model, row.recipe.variant, str(row.seeds)),
            *(f"{100 * part[m][0]:.2f} ± {100 * part[m][1]:.2f}" for part, m in cells),
            *(f"{row.epochs:.0f}", f"{row.epoch_seconds:.2f}"),
        )
    return table
