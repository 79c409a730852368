"""Commands that train: ``train`` and ``resume``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, data, results, tables
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.folders import Device, Folder, Heuristics
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError

if TYPE_CHECKING:
    from contig.runs.run import Run

app = typer.Typer()

Epochs = Annotated[
    int | None, typer.Option("--epochs", metavar="N", help="Maximum passes over the training events.")
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="A,B",
        show_default="0.7,0.15",
        help="Shares of training and validation, or the times at which validation and test begin.",
    ),
]
Track = Annotated[
    str,
    typer.Option(
        "--track", metavar="NAMES", show_default="none", help="Trackers: tensorboard, mlflow, wandb."
    ),
]

DataArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="A file of events or the name of a dataset; by default that of the recipe.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        show_default="contig-pair",
        help="A name (see: contig models), or package.module:Class for a model of your own.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        show_default="runs/DATA-MODEL-SEED, numbered if it holds a run",
        help="The folder of the run.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="S", help="The seed of the training.")]
Final = Annotated[
    bool, typer.Option("--final", help="Learn from every event, without validation; needs --epochs.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any option of the model or of its training."),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="RECIPE", help="A recipe: a .json or .toml file, or a name (contig recipes)."
    ),
]
State = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="LAYOUT",
        help="Under torchrun: replicated, or sharded, which divides the node state among the processes.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", "--force", help="Replace a run that FOLDER holds.")]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig train wikipedia", "a dataset, the default model"),
        ("contig train visits.csv --src who --time when", "a file, its columns"),
        ("contig train a.csv --split 2024-05-01,2024-06-01", "own dates"),
        ("contig train a.csv --final --epochs 12", "all events"),
        ("contig train mooc --set dim=64 --set lr=1e-3", "see: contig models contig"),
        ("contig train collegemsg --no-heuristics", "without baselines"),
        ("contig train --config recipe.json --epochs 5", "a recipe, changed"),
    ),
)
@data.reads_events
def train(
    file: DataArgument = None,
    model: ModelName = None,
    out: Out = None,
    epochs: Epochs = None,
    seed: Seed = None,
    split: SplitOption = None,
    final: Final = False,
    settings: Settings = None,
    config: Config = None,
    heuristics: Heuristics = True,
    device: Device = "auto",
    track: Track = "",
    overwrite: Overwrite = False,
    state: State = "replicated",
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Train a model on a stream of events and test it.

    Ctrl-C loses nothing: continue with contig resume. Options given here override those of the recipe.
    """
    given = {"epochs": epochs, "seed": seed, "split": split, "final": final or None}
    file, model, chosen, reading = _with_recipe(config, file, model, settings or [], reading, **given)

    from contig.models import model_class
    from contig.ranks import ranks, restarted
    from contig.runs.config import RunConfig
    from contig.runs.folder import RunFolder

    options = RunConfig.of(model, chosen).train
    usual = Path("runs") / f"{_stem(file)}-{model_class(model).name}-{options.seed}"
    shared = overwrite or not ranks().alone  # processes that train together must use one folder
    folder = out or (usual if shared else _free(usual))
    if not overwrite and ranks().first and not restarted():
        RunFolder(folder).must_be_free()
    stream = data.read_stream(file, reading)

    from contig.training.fit import fit

    with resumable(folder):
        run = fit(
            stream,
            model,
            out=folder,
            device=device,
            track=track,
            overwrite=overwrite,
            state=state,
            **chosen,
        )
    _print_result(run, heuristics, json)


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig resume runs/first", "an interrupted run"),
        ("contig resume runs/first --epochs 80", "or train for longer"),
        ("contig resume runs/first --set patience=10", "with more patience"),
    ),
)
def resume(
    run: Folder,
    epochs: Epochs = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="epochs, patience or checkpoint_seconds."),
    ] = None,
    device: Device = "auto",
    track: Track = "",
    heuristics: Heuristics = True,
    state: State = "replicated",
    json: Json = False,
) -> None:
    """Resume an interrupted run, or train a finished one for longer.

    On a CPU the result is bit-identical to that of an uninterrupted run.
    """
    from contig.options import parse_settings
    from contig.training.fit import resume

    more: dict[str, Any] = parse_settings(settings or []) | ({} if epochs is None else {"epochs": epochs})
    with resumable(run):
        finished = resume(run, device=device, track=track, state=state, **more)
    _print_result(finished, heuristics, json)


def _with_recipe(
    config: str | None,
    file: str | None,
    model: str | None,
    settings: list[str],
    reading: ReadOptions,
    **given: int | str | None,
) -> tuple[str, str, dict[str, Any], ReadOptions]:
    """Return data, model, settings and reading: the recipe's, unless the command line sets them."""
    from contig.experiments.recipes import read_recipes
    from contig.models import DEFAULT_MODEL
    from contig.options import parse_settings

    recipe = None if config is None else read_recipes(config)[0]
    if recipe is not None and file is None:  # the columns of a recipe are those of its data
        reading = recipe.reading.updated(**reading.as_dict())
    file = file or (recipe.data if recipe else None)
    if file is None:
        raise ConfigError("Nothing to train on: name a file or a dataset, or a recipe with --config.")
    chosen = {**(recipe.settings if recipe else {}), **parse_settings(settings)}
    chosen |= {name: value for name, value in given.items() if value is not None}
    return file, model or (recipe.model if recipe else DEFAULT_MODEL), chosen, reading


def _free(usual: Path) -> Path:
    """Return the folder, or the first with a number that holds no run: ``mooc-contig-0-2``."""
    from contig.runs.folder import RunFolder

    numbered = (usual.with_name(f"{usual.name}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([usual], numbered) if not RunFolder(one).has("config.json"))


def _stem(file: str) -> str:
    """Return a data file's name without extensions: ``streams/visits.csv.gz`` gives ``visits``."""
    name = Path(file).name.partition(".")[0] or "data"
    return re.sub(r"[^\w-]+", "-", name)


@contextmanager
def resumable(folder: Path | None) -> Iterator[None]:
    """Say how to resume a training that the user interrupts."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is None or not (folder / "config.json").exists():
            raise
        console.error(f"interrupted; nothing is lost. To continue: contig resume {folder}")
        raise typer.Exit(130) from None


# --- the result --------------------------------------------------------------------------------------


def _print_result(run: Run, heuristics: bool, json: bool) -> None:
    from contig.models import model_label
    from contig.tasks.link import LinkTask

    metrics = run.metrics
    if run.config.train.final:
        print_final(run, json)
        return
    others = results.measure_heuristics(run, LinkTask(), heuristics)
    lost = results.losses(run, LinkTask, metrics, others)
    if json:
        console.print_json(
            {"run": str(run.path), **metrics.as_dict(), **results.heuristics_json(others, lost)}
        )
        return

    tested = (metrics, *others.values())
    table = LinkTask.table({model_label(one.facts.model): one.result for one in tested})
    tables.show(tables.rich_table(table))
    results.print_notes(table.notes)
    results.print_losses(model_label(metrics.facts.model), lost)
    speed = metrics.events_per_second
    training = f"{speed.train:,.0f} events/s in training ({speed.train_over}), " if run.model.learns else ""
    console.print_note(f"{training}{speed.score:,.0f} events/s in the test ({metrics.facts.hardware})")
    if run.model.learns:
        console.print_note(f"best epoch: {metrics.best_epoch} of {len(metrics.epochs)}")
    console.out().print(f"  run: {console.visible(run.path)}", soft_wrap=True, markup=False)


def print_final(run: Run, json: bool) -> None:
    """Report a training on every event, which leaves nothing to test on."""
    if json:
        console.print_json({"run": str(run.path), **run.metrics.as_dict()})
        return
    console.out().print(f"  learned from all {len(run.stream):,} events; none is left to test on")
    console.out().print(f"  run: {console.visible(run.path)}", soft_wrap=True, markup=False)
