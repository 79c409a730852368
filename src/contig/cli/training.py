"""Commands that train: ``train`` and ``resume``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, data, results
from contig.cli.data import Json
from contig.cli.folders import Device, Folder
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError

if TYPE_CHECKING:
    from contig.data.events import EventStream
    from contig.runs.metrics import RunMetrics
    from contig.runs.run import Run

app = typer.Typer()

Epochs = Annotated[
    int | None, typer.Option("--epochs", metavar="N", help="Passes over the training events at most.")
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Keep the curves for TensorBoard too.")]


# --- train and resume --------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig train wikipedia", "into runs/wikipedia-contig-0"),
        ("contig train visits.csv --src who --time when", "a file, its columns"),
        ("contig train mooc --set dim=64 --set lr=1e-3", "see: contig models contig"),
        ("contig train collegemsg --compare edgebank", "beside a simple rule"),
        ("contig train --config recipe.json --epochs 5", "a recipe, changed"),
    )
)
@data.reads_events
def train(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="A file of events or the name of a dataset, as for inspect; else the recipe's.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            show_default="contig",
            help="A name (see: contig models), or package.module:Class for a model of your own.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", show_default="runs/DATA-MODEL-SEED", help="Where the run is kept."
        ),
    ] = None,
    epochs: Epochs = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", help="The seed of the training.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any option of the model or of its training."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE.json", help='A recipe: {"data": ..., "model": ..., "settings": {...}}.'
        ),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", metavar="RULE", help="A rule to measure beside it, such as edgebank."),
    ] = None,
    device: Device = "auto",
    tensorboard: TensorBoard = False,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Train a model on a stream and test it.

    Ctrl-C loses nothing: resume goes on from there. Options given here win over the recipe's.
    """
    from contig.experiments.recipes import read_recipes
    from contig.options import parse_settings

    recipe = None if config is None else read_recipes(config)[0]
    given = recipe.settings if recipe else {}
    file = file or (recipe.data if recipe else None)
    model = model or (recipe.model if recipe else "contig")
    if file is None:
        raise ConfigError("Nothing to train on: name a file or a dataset, or a recipe with --config.")
    chosen = {**given, **parse_settings(settings or [])}
    chosen |= {name: value for name, value in (("epochs", epochs), ("seed", seed)) if value is not None}

    from contig.models import model_class
    from contig.runs.config import RunConfig
    from contig.runs.folder import RunFolder
    from contig.runs.options import PROTOCOL_OPTIONS

    train = RunConfig.of(model, chosen).train
    rules = _rules(compare or [])
    folder = out or Path("runs") / f"{_stem(file)}-{model_class(model).name}-{train.seed}"
    RunFolder(folder).must_be_free()
    stream = data.read_stream(file, reading)
    from contig.training.fit import fit

    with _resumable(folder):
        run = fit(stream, model, out=folder, device=device, tensorboard=tensorboard, **chosen)
    shared = {name: getattr(train, name) for name in PROTOCOL_OPTIONS}
    _tell(run, {rule: _measured(stream, rule, device, shared) for rule in rules}, json)


@app.command(
    epilog=console.examples(
        ("contig resume runs/wikipedia-contig-0", "what was interrupted"),
        ("contig resume runs/wikipedia-contig-0 --epochs 80", "or train for longer"),
    )
)
def resume(
    run: Folder,
    epochs: Epochs = None,
    device: Device = "auto",
    tensorboard: TensorBoard = False,
    json: Json = False,
) -> None:
    """Go on with an interrupted run, or train a finished one for longer.

    On a CPU it ends with the very numbers of a run that nobody interrupted.
    """
    from contig.training.fit import resume

    more: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    with _resumable(run):
        _tell(resume(run, device=device, tensorboard=tensorboard, **more), {}, json)


def _rules(names: Sequence[str]) -> Sequence[str]:
    """The names of models to compare with, refused where one would have to be trained."""
    from contig.errors import unknown
    from contig.models import model_class, model_names

    known_names = model_names()
    rules = [name for name in known_names if not model_class(name).learns]
    for name in names:
        if name not in known_names:
            raise ConfigError(f"--compare {name}: {unknown('rule', name, rules)}")
        if name not in rules:
            known = ", ".join(rules)
            raise ConfigError(
                f"--compare {name}: it must be trained itself; train it apart. To compare with: {known}."
            )
    return names


def _measured(stream: EventStream, rule: str, device: str, settings: dict[str, Any]) -> RunMetrics:
    """What a rule reaches on the same events."""
    import tempfile

    from contig.training.fit import fit

    with tempfile.TemporaryDirectory() as folder, console.status(f"measuring {rule}"):
        return fit(stream, rule, out=folder, device=device, show=False, **settings).metrics


def _stem(file: str) -> str:
    """A data file's name as part of a folder's: ``streams/visits.csv.gz`` is ``visits``."""
    name = Path(file).name.partition(".")[0] or "data"
    return re.sub(r"[^\w-]+", "-", name)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Say how to go on when the user stops a training."""
    try:
        yield
    except KeyboardInterrupt:
        if not (folder / "config.json").exists():
            raise
        console.error(f"interrupted; nothing is lost. Go on with: contig resume {folder}")
        raise typer.Exit(130) from None


def _tell(run: Run, others: dict[str, RunMetrics], json: bool) -> None:
    """The result of a training."""
    from contig.tasks.link import LinkTask

    metrics = run.metrics
    if json:
        compared = {name: other.as_dict() for name, other in others.items()}
        found = {"run": str(run.path), **metrics.as_dict()}
        console.print_json(found | {"compare": compared} if compared else found)
        return
    table = LinkTask.table({one.facts.model: one.result for one in (metrics, *others.values())})
    console.out().print(results.rich_table(table))
    speed = metrics.events_per_second
    trained = f"{speed.train:,.0f} events/s in training, " if run.model.learns else ""
    console.out().print(f"  {trained}{speed.score:,.0f} events/s in the test ({metrics.facts.hardware})")
    if run.model.learns:
        console.out().print(f"  the best epoch was {metrics.best_epoch} of {len(metrics.epochs)}")
    console.out().print(f"  the run is in {run.path}", soft_wrap=True, markup=False)
