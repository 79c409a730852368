"""Commands that train models and ask trained ones: ``train``, ``evaluate``, ``embed`` and more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, data
from contig.cli.data import Json
from contig.errors import ConfigError, DataError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from contig.events import EventStream, Side
    from contig.training.run import Run, Trajectory

app = typer.Typer()

Folder = Annotated[
    Path, typer.Argument(metavar="RUN", show_default=False, help="The folder of a run, as train made it.")
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:1; auto is a GPU if any.")
]
Epochs = Annotated[
    int | None, typer.Option("--epochs", metavar="N", help="Passes over the training events at most.")
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Keep the curves for TensorBoard too.")]
Node = Annotated[str, typer.Option("--node", metavar="ID", show_default=False, help="The node, by its id.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        show_default="just after the last event",
        help="The time asked about: a number as in the events, or a date such as 2024-05-01T12:00.",
    ),
]
SideOption = Annotated[
    str | None,
    typer.Option("--side", metavar="src|dst", help="On which side the node is, where ids occur on both."),
]


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
        typer.Option("--model", metavar="NAME", show_default="contig", help="See: contig models."),
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
    src: data.Source = None,
    dst: data.Destination = None,
    time: data.Time = None,
    label: data.Label = None,
    features: data.Features = None,
    format: data.Format = None,
    bipartite: data.Bipartite = None,
    data_dir: data.DataDir = None,
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

    from contig.training.config import RunConfig
    from contig.training.folder import RunFolder

    train = RunConfig.of(model, chosen).train
    rules = _rules(compare or [])
    folder = out or Path("runs") / f"{_stem(file)}-{model}-{train.seed}"
    RunFolder(folder).must_be_free()
    stream = data.read_stream(
        file,
        data_dir=data_dir,
        src=data.column(src),
        dst=data.column(dst),
        t=data.column(time),
        label=data.column(label),
        features=data.feature_columns(features),
        format=format,
        bipartite=bipartite,
    )
    from contig.training.fit import fit

    with _resumable(folder):
        run = fit(stream, model, out=folder, device=device, tensorboard=tensorboard, **chosen)
    shared = {name: getattr(train, name) for name in ("rule", "split_seed", "batch_size")}
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
    from contig.models import MODELS, model_class

    for name in names:
        if model_class(name).learns:
            rules = ", ".join(known for known in MODELS if not model_class(known).learns)
            raise ConfigError(
                f"--compare {name}: it must be trained itself; train it apart. To compare with: {rules}."
            )
    return names


def _measured(stream: EventStream, rule: str, device: str, settings: dict[str, Any]) -> dict[str, Any]:
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


def _tell(run: Run, others: dict[str, dict[str, Any]], json: bool) -> None:
    """The result of a training."""
    metrics = run.metrics
    if json:
        console.print_json({"run": str(run.path), **metrics, **({"compare": others} if others else {})})
        return
    console.out().print(_results({metrics["model"]: metrics, **others}))
    speed = metrics["events_per_second"]
    trained = f"{speed['train']:,.0f} events/s in training, " if run.model.learns else ""
    console.out().print(f"  {trained}{speed['score']:,.0f} events/s in the test ({metrics['hardware']})")
    if run.model.learns:
        epochs = len(metrics["epochs"])
        console.out().print(f"  the best epoch was {metrics['best_epoch'] + 1} of {epochs}")
    console.out().print(f"  the run is in {run.path}", soft_wrap=True, markup=False)


SELECTIONS = ("transductive", "inductive")


def _results(of: dict[str, dict[str, Any]]) -> Table:
    """A row for each selection of events and each model."""
    names = ("AP", "AUC", "AP overall", "AUC overall", "events")
    table = data.new_table("Test, %", "model", *names)
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        for model, metrics in of.items():
            table.add_row(selection, model, *_cells(metrics[selection]))
    return table


def _cells(metrics: dict[str, float]) -> list[str]:
    keys = ("ap", "auc", "ap_overall", "auc_overall")
    return [
        *(f"{100 * metrics[key]:.2f}" if key in metrics else "-" for key in keys),
        f"{metrics['events']:,}",
    ]


# --- evaluate ----------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig evaluate runs/first", "as after training"),
        ("contig evaluate runs/first --negatives historical", "against harder negatives"),
        ("contig evaluate runs/first --json", "for programs"),
    )
)
def evaluate(
    run: Folder,
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="What is measured: link.")] = "link",
    negatives: Annotated[
        str, typer.Option("--negatives", metavar="KIND", help="random, historical or inductive.")
    ] = "random",
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", metavar="N", min=1, show_default="the training's", help="Events scored at once."
        ),
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure a trained run on its test events.

    AP and AUC are the mean over batches, as published tables have them; overall is over all events.
    """
    opened = _open(run, device)
    with console.status(f"evaluating {run}"):
        result = opened.evaluate(task, negatives=negatives, batch_size=batch_size)  # type: ignore[arg-type]
    if json:
        console.print_json(result)
        return
    console.out().print(_results({result["model"]: result}))
    rule, drawn = result["protocol"]["rule"], result["protocol"]["negatives"]
    console.out().print(f"  {drawn} negatives, batches of {result['batch_size']:,}, new nodes by rule {rule}")


def _open(run: Path, device: str) -> Run:
    from contig.training.run import Run

    with console.status(f"opening {run}"):
        return Run.open(run, device)


# --- embed -------------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig embed runs/first --out now.parquet", "all nodes, now"),
        ("contig embed runs/first --at 2024-05-01 --out may.npy", "earlier"),
        ("contig embed runs/first --nodes ann,bob --out two.npy", "two nodes"),
        ("contig embed runs/first --nodes ids.txt --out x.parquet", "an id a line"),
    )
)
def embed(
    run: Folder,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            show_default=False,
            help="A .parquet file; or a .npy file, with the ids in a .ids.json beside it.",
        ),
    ],
    at: At = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="FILE|IDS", help="Ids with commas between, or a file of them."),
    ] = None,
    side: SideOption = None,
    device: Device = "auto",
) -> None:
    """Write the embeddings of nodes at any time, from the events strictly before it."""
    _check_kind(out, ".parquet", ".npy")
    on = _side(side)
    opened = _open(run, device)
    stream = opened.stream
    asked, when = _asked(stream, nodes, on), _when("--at", at, stream)
    with console.status("embedding"):
        vectors = opened.embed(asked, when, on)
    with _writing(out):
        _write_embeddings(out, _id_columns(stream, asked, on), vectors)
    console.notice(f"{len(vectors):,} embeddings of width {vectors.shape[1]} are in {out}")


def _asked(stream: EventStream, nodes: str | None, side: Side | None) -> list[int | str] | None:
    """The ids the user means; None is every node."""
    labels, is_dst = stream.ids.labels, stream.ids.is_dst
    if nodes is None:
        if side is None or is_dst is None:
            return None
        chosen: list[int | str] = labels[is_dst == (side == "dst")].tolist()
        return chosen
    try:
        text = Path(nodes).read_text("utf-8").splitlines() if Path(nodes).is_file() else nodes.split(",")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--nodes {nodes}: the file cannot be read ({error}).") from None
    asked: list[int | str] = [name for line in text if (name := line.strip())]
    if not asked:
        raise ConfigError(f"--nodes {nodes}: there is no id in it; give ids with commas between, or a file.")
    return asked


def _id_columns(
    stream: EventStream, asked: list[int | str] | None, side: Side | None
) -> dict[str, NDArray[Any]]:
    """Who the rows are: the user's ids and, in a bipartite stream, the sides."""
    import numpy as np

    ids = stream.ids
    rows = np.arange(len(ids)) if asked is None else np.array([ids.find(node, side) for node in asked])
    columns = {"node": ids.labels[rows]}
    if ids.is_dst is not None:
        columns["side"] = np.where(ids.is_dst[rows], "dst", "src")
    return columns


def _write_embeddings(path: Path, ids: dict[str, NDArray[Any]], vectors: NDArray[np.float32]) -> None:
    import numpy as np

    from contig.files import replacing, write_json

    if path.suffix == ".parquet":
        _write_parquet(path, ids, vectors)
        return
    write_json(path.with_suffix(".ids.json"), {name: column.tolist() for name, column in ids.items()})
    with replacing(path) as part:
        np.save(part, vectors)


def _write_parquet(path: Path, columns: dict[str, NDArray[Any]], vectors: NDArray[np.float32]) -> None:
    """The columns, and the vectors as a column of lists of one length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from contig.files import replacing

    arrays = {name: pa.array(column) for name, column in columns.items()}
    arrays["embedding"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    with replacing(path) as part:
        pq.write_table(pa.table(arrays), part)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error}); name another place.") from error


def _check_kind(path: Path, *kinds: str) -> None:
    """Refuse a file to be written now rather than after the work is done."""
    if path.suffix not in kinds:
        raise ConfigError(f"{path}: {unknown('kind of file', path.suffix, kinds)} Let the name end so.")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file.")


def _side(given: str | None) -> Side | None:
    match given:
        case None | "src" | "dst":
            return given
    raise ConfigError(f"--side: {unknown('side', given, ('src', 'dst'))}")


def _when(option: str, given: str | None, stream: EventStream) -> float | None:
    """A time as the stream counts it, from a number or a date."""
    if given is None:
        return None
    for kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            continue
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise ConfigError(
            f"{option} {given}: not a time; give a number as in the events, or a date such as "
            "2024-05-01T12:00 (UTC unless it says otherwise)."
        ) from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return _in_ticks(option, given, seconds, stream)


def _in_ticks(option: str, given: str, seconds: float, stream: EventStream) -> float:
    """Seconds since 1970 in the stream's unit, refused where its times are no dates."""
    from contig.summary import summarise

    time = summarise(stream).time
    ticks = seconds * time.per_second
    if time.unix is None and not time.first - time.span <= ticks <= time.last + time.span:
        raise DataError(
            f"{option} {given}: the times of this stream run from {time.first:,} to {time.last:,} and do "
            "not look like dates; give a number."
        )
    return int(ticks) if ticks == int(ticks) else ticks


# --- recommend ---------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig recommend runs/first --node ann", "whom ann meets next"),
        ("contig recommend runs/first --node ann --at 2024-05-01", "as of then"),
        ("contig recommend runs/first --node ann --json", "for programs"),
    )
)
def recommend(
    run: Folder,
    node: Node,
    at: At = None,
    k: Annotated[int, typer.Option("-k", metavar="K", min=1, help="How many.")] = 10,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Say which destinations a source is most likely to meet at a time, best first."""
    opened = _open(run, device)
    when = _when("--at", at, opened.stream)
    with console.status("scoring every destination"):
        found = opened.recommend(node, when, k)
    if json:
        rows = [{"node": one.node, "score": one.score} for one in found]
        console.print_json({"node": node, "at": when, "recommendations": rows})
        return
    table = data.new_table("rank", "node", "score")
    for rank, one in enumerate(found, 1):
        table.add_row(str(rank), _plain(one.node), f"{one.score:.3f}")
    console.out().print(table)


def _plain(text: object) -> str:
    """Text that rich must not read as markup."""
    from rich.markup import escape

    return escape(str(text))


# --- trajectory --------------------------------------------------------------------------------------


@app.command(
    epilog=console.examples(
        ("contig trajectory runs/first --node ann --plot ann.png", "all the time"),
        ("contig trajectory runs/first --node ann --out ann.parquet", "as numbers"),
        ("contig trajectory runs/first --node 7 --side dst --plot x.png", "an item"),
    )
)
def trajectory(
    run: Folder,
    node: Node,
    side: SideOption = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", show_default="the first event", help="Where it begins."),
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", metavar="TIME", show_default="the last event", help="Where it ends.")
    ] = None,
    points: Annotated[int, typer.Option("--points", metavar="N", min=2, help="Times in between.")] = 200,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PATH.png", help="Draw the path (png, svg or pdf).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write the path as numbers.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Follow one node's embedding through time, between its events too."""
    if plot is None and out is None:
        raise ConfigError("Nothing to make: give --plot PATH.png for a figure or --out FILE.parquet.")
    if out is not None:
        _check_kind(out, ".parquet")
    if plot is not None:
        from contig import plots

        plots.check_target(plot)
    on = _side(side)
    opened = _open(run, device)
    times = _moments(opened.stream, start, stop, points)
    with console.status(f"following {node}"):
        path = opened.trajectory(node, times, on)
    if out is not None:
        with _writing(out):
            _write_parquet(out, {"t": path.times}, path.embeddings)
        console.notice(f"the path is in {out}")
    if plot is not None:
        _draw(opened, node, on, path, plot)
        console.notice(f"the figure is in {plot}")


def _moments(stream: EventStream, start: str | None, stop: str | None, points: int) -> NDArray[np.float64]:
    import numpy as np

    first, last = _when("--from", start, stream), _when("--to", stop, stream)
    first = float(stream.t[0]) if first is None else first
    last = float(stream.t[-1]) if last is None else last
    if not first < last:
        raise ConfigError(f"--from {first:,} --to {last:,}: the path must end after it begins.")
    return np.linspace(first, last, points)


def _draw(run: Run, node: str, side: Side | None, path: Trajectory, target: Path) -> None:
    from contig import plots
    from contig.summary import summarise

    with console.status(f"drawing {target}"):
        stream = run.stream
        number = stream.ids.find(node, side)
        title = f"{node} in {Path(stream.origin).name}"
        figure = plots.trajectory(stream, summarise(stream), number, path.times, path.embeddings, title)
        plots.save(figure, target)


# --- models ------------------------------------------------------------------------------------------


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
    from contig.models import MODELS

    if name is None:
        known = [_model(one) for one in MODELS]
        if json:
            console.print_json(known)
        else:
            console.out().print(_model_list(known))
        return
    told = _model(name) | _options(name)
    if json:
        console.print_json(told)
        return
    console.out().print(f"\n[bold]{name}[/bold]  {_plain(told['description'])}")
    for title, options in (("Option", told["options"]), ("Training", told["training"])):
        console.out().print(_option_list(title, options))


def _model(name: str) -> dict[str, Any]:
    import sys

    from contig.models import model_class

    found = model_class(name)
    text = sys.modules[found.__module__].__doc__ or ""
    return {"name": name, "description": text.partition("\n")[0], "learns": found.learns}


def _options(name: str) -> dict[str, Any]:
    from contig.models import model_class
    from contig.options import describe
    from contig.training.options import TrainOptions

    return {"options": describe(model_class(name).options()), "training": describe(TrainOptions())}


def _model_list(known: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for model in known:
        kind = "" if model["learns"] else " [dim](a rule: nothing to train)[/dim]"
        table.add_row(f"[bold]{model['name']}[/bold]", _plain(model["description"]) + kind)
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
        told = f"{_plain(option['help'])} [dim]({_plain(option['type'])})[/dim]"
        table.add_row(option["name"], _plain(shown), told)
    return table
