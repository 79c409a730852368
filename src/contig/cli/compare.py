"""The command that trains many models on the same events and tabulates them: ``compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from contig.cli import console, data, latex, outputs, results
from contig.cli.data import Json
from contig.cli.jobs import (
    AtOnce,
    Devices,
    Heuristics,
    Models,
    OnlyDone,
    PartOption,
    Seeds,
    Sweep,
    Wait,
    report_failures,
)
from contig.cli.task_options import TaskCommand, chosen_task, given_options
from contig.cli.training import SplitOption
from contig.data.read_options import ReadOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from contig.experiments.comparisons import Comparison, PlannedComparison
    from contig.experiments.evaluations import EvaluationSpec
    from contig.experiments.jobs import Failure
    from contig.tasks import ResultTable, Task

app = typer.Typer()

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...", show_default=False, help="Files of events or names of datasets, as for train."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where to write the runs and the results.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="Maximum number of epochs.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[MODEL.]KEY=VALUE",
        help="An option of one model, or of all models that have it, or of training.",
    ),
]
TaskName = Annotated[str, typer.Option("--task", metavar="TASK", help="What to measure.")]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", help="Also write all figures, those of --task too, to this CSV file."
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="PATH.png", help="Also draw it here (png, svg or pdf).")
]


@app.command(
    cls=TaskCommand,
    epilog=console.examples(
        ("contig compare collegemsg", "every model, three seeds"),
        ("contig compare mooc wikipedia --models contig,tgn", "two models, two datasets"),
        ("contig compare visits.csv --src who --time when", "a file, its columns"),
        ("contig compare mooc --task recommend --as-of batch", "rank destinations"),
        ("contig compare mooc --negatives historical", "harder negatives"),
        ("contig compare mooc --seeds 5 --latex mooc.tex", "for a paper"),
        ("contig compare mooc --set dim=64 --set tgn.lr=1e-3", "options of all, of one"),
        ("contig compare mooc --at-once 9 --device cuda", "in parallel on a GPU"),
        ("contig compare mooc --device cuda:0,cuda:1", "on two GPUs"),
        ("contig compare mooc --part 2/3", "on host 2 of 3"),
    ),
)
@data.reads_events
def compare(
    ctx: typer.Context,
    files: Files,
    models: Models = "all",
    seeds: Seeds = 3,
    out: Out = Path("runs/compare"),
    task: TaskName = "link",
    device: Devices = "auto",
    at_once: AtOnce = None,
    part: PartOption = None,
    only_done: OnlyDone = False,
    epochs: Epochs = None,
    split: SplitOption = None,
    settings: Settings = None,
    heuristics: Heuristics = True,
    csv: Csv = None,
    plot: Plot = None,
    latex_file: latex.LatexFile = None,
    wait: Wait = False,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Train models on the same events with several seeds, and compare their results and costs.

    Link prediction is always measured; --task and its options add another table. The results are written to
    FOLDER as compare.txt, .csv, .json and .png.

    Finished runs are kept and interrupted runs are resumed: after Ctrl-C, repeat the command to continue.
    """
    sweep = Sweep.of(device, at_once, part, only_done)
    exports = Exports(csv, plot, latex_file)
    exports.check([*files, reading.node_features])
    chosen = chosen_task(ctx, task)
    names = _models(models, chosen, heuristics)
    given = _settings(settings, epochs=epochs, split=split)
    planned = [_plan(file, names, given, seeds, out, reading) for file in dict.fromkeys(files)]
    sweep.use_folder(ctx, out, wait)
    compared = _train(planned, _evaluation(chosen, given_options(ctx)), sweep)
    if json:  # before anything is written, so that a full disk does not lose it
        console.print_json([one.as_dict() for one in compared.comparisons])
    else:
        compared.show()
    exports.write(compared, compared.save(out))
    report_failures(compared.failures())


def _models(names: str, task: Task[Any, Any], heuristics: bool) -> list[str]:
    from contig.experiments.lineups import choose_models

    return choose_models(names, heuristics and task.scores_heuristics())


def _settings(pairs: list[str] | None, **given: int | str | None) -> dict[str, str]:
    from contig.options import parse_settings

    chosen = {name: str(value) for name, value in given.items() if value is not None}
    return parse_settings(pairs or []) | chosen


def _plan(
    file: str, models: Sequence[str], settings: Mapping[str, str], seeds: int, out: Path, reading: ReadOptions
) -> PlannedComparison:
    from contig.experiments.comparisons import plan_comparison
    from contig.experiments.jobs import runs_in

    return plan_comparison(
        file, data.read_stream(file, reading), models, settings, seeds, runs_in(out), reading
    )


def _evaluation(task: Task[Any, Any], options: Mapping[str, str]) -> EvaluationSpec | None:
    """Return what to measure in addition; nothing for link prediction as after training."""
    from contig.experiments.evaluations import EvaluationSpec

    if task.name == "link" and not options:
        return None
    return EvaluationSpec(task.name, tuple(options.items()))


def _train(planned: Sequence[PlannedComparison], spec: EvaluationSpec | None, sweep: Sweep) -> Compared:
    """Train and evaluate what is missing, and gather the results of each stream."""
    from contig.experiments.evaluations import with_evaluations

    jobs = [job for one in planned for job in one.jobs]
    known = not (sweep.only_done or all(job.done for job in jobs))  # how earlier runs were trained is not
    failed = sweep.run("runs", with_evaluations(jobs, [spec] if spec else []))
    sweep.end_part(failed)
    comparisons = [one.collect(failed, sweep.at_once if known else 1, spec) for one in planned]
    return Compared(comparisons, failed)


class Compared(NamedTuple):
    """Finished comparisons, and what failed."""

    comparisons: list[Comparison]
    failed: list[Failure[Any]]

    def show(self) -> None:
        """Print the tables."""
        from contig.cli import tables

        for one in self.comparisons:
            tables.show_comparison(one)
            if (table := one.task_table()) is not None:
                tables.show(tables.rich_table(table))
                results.print_notes(table.notes)

    def save(self, out: Path) -> Figure | None:
        """Write the files of the folder; return the figure, if there is one."""
        from contig.cli import tables
        from contig.experiments.comparisons import save

        figure = save(self.comparisons, out, "\n".join(map(tables.comparison_text, self.comparisons)))
        ending = "" if figure is None else " and .png"
        console.notice(f"wrote {out / 'compare.txt'}, .csv, .json{ending}")
        return figure

    def latex_tables(self) -> dict[str, ResultTable]:
        """Return the table of each stream by its title: that of the task, or of link prediction."""
        found = {one.name: one.task_table() or one.link_table() for one in self.comparisons}
        return {name: table for name, table in found.items() if table is not None}

    def failures(self) -> list[str]:
        """Return a line for everything that failed."""
        from contig.cli import tables

        rows = [row for one in self.comparisons for row in one.rows]
        return tables.failures(rows) + tables.evaluation_failures(self.failed)


class Exports(NamedTuple):
    """Files that the user names for the results."""

    csv: Path | None
    plot: Path | None
    latex: Path | None

    def check(self, inputs: Sequence[str | PathLike[str] | None]) -> None:
        """Reject files that cannot be written, before anything is trained."""
        outputs.check_file("--csv", self.csv, inputs=inputs)
        latex.check_file(self.latex)
        outputs.check_figure("--plot", self.plot)

    def write(self, compared: Compared, figure: Figure | None) -> None:
        """Write the files that were named."""
        from contig.experiments.rows import write_csv

        if self.csv is not None:
            with outputs.writing(self.csv):
                write_csv([line for one in compared.comparisons for line in one.csv_lines()], self.csv)
        if self.latex is not None:
            latex.write(self.latex, compared.latex_tables())
        if self.plot is not None:
            _write_figure(figure, self.plot)


def _write_figure(figure: Figure | None, path: Path) -> None:
    from contig import plots

    if figure is None:
        console.notice(f"{path} was not drawn: no run is finished on one of the streams")
        return
    with outputs.writing(path):
        plots.save(figure, path)
