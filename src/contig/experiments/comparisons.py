"""Comparisons: models trained on the same events, with what they reach and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from contig import markup
from contig.data.clock import duration
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.splits import DEFAULT_DESCRIPTION
from contig.experiments.averages import flat_spreads, mean_table
from contig.experiments.evaluations import EvaluationSpec
from contig.experiments.jobs import Failure, Job, plan
from contig.experiments.lineups import WINDOW, lineup
from contig.experiments.rows import SELECTIONS, Row, Spread, collect, write_csv
from contig.experiments.training_settings import settings_notes
from contig.files import write_json, write_text
from contig.tasks.link import LinkTask
from contig.tasks.results import TaskResult
from contig.tasks.tables import FEW_NOTE, ResultTable, few_mark
from contig.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PlannedComparison:
    """The jobs of a comparison on one stream."""

    data: str
    stream: EventStream
    seeds: int
    jobs: Sequence[Job]

    def collect(
        self, failures: Sequence[Failure[Job]], at_once: int, spec: EvaluationSpec | None = None
    ) -> Comparison:
        """Gather the results, after ``at_once`` jobs have run at a time; ``spec`` was evaluated as well."""
        rows = collect(self.jobs, failures)
        evaluations = None
        if spec is not None:
            found = {row.label: spec.results(row, self.jobs) for row in rows}
            evaluations = TaskComparison(spec, {name: seeds for name, seeds in found.items() if seeds})
        return Comparison(self.data, self.stream, self.seeds, at_once, rows, evaluations)


def plan_comparison(
    data: str,
    stream: EventStream,
    models: Sequence[str],
    settings: Mapping[str, Any],
    seeds: int,
    runs: Path,
    reading: ReadOptions | None = None,
) -> PlannedComparison:
    """Plan the runs of models on a stream; ``settings`` are as for ``lineup``."""
    recipes = lineup(data, stream, models, settings, reading)
    return PlannedComparison(data, stream, seeds, plan(recipes, seeds, runs))


class TaskComparison(NamedTuple):
    """The results of a task by model, one for each seed."""

    spec: EvaluationSpec
    results: Mapping[str, Sequence[TaskResult]]

    def table(self) -> ResultTable | None:
        """Return the means over seeds as a table; None if nothing was evaluated."""
        return mean_table(type(self.spec.of_task()), self.results) if self.results else None

    def as_flat_dict(self, label: str) -> dict[str, Any]:
        """Return the columns of a model in a CSV file; their names begin with that of the task."""
        seeds, task = self.results.get(label, ()), self.spec.of_task().name
        numbers = flat_spreads(seeds) if seeds else ()
        return {"task": str(self.spec), f"{task}_seeds": len(seeds)} | {
            f"{task}_{name}": value for name, value in numbers
        }

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        found = {name: [one.as_dict() for one in seeds] for name, seeds in self.results.items()}
        return {"task": str(self.spec), "results": found}


@dataclass(frozen=True)
class Comparison:
    """The results of models on one stream."""

    data: str
    stream: EventStream
    seeds: int
    at_once: int  # runs that shared the machine
    rows: list[Row]
    evaluations: TaskComparison | None = None

    def link_table(self) -> ResultTable | None:
        """Return the link prediction of every model as a table; None if no run is finished."""
        results = {row.label: [one.result for one in row.results] for row in self.finished}
        return mean_table(LinkTask, results) if results else None

    def task_table(self) -> ResultTable | None:
        """Return the table of the task that was evaluated in addition; None if there is none."""
        return None if self.evaluations is None else self.evaluations.table()

    @property
    def name(self) -> str:
        return Path(self.data).name

    @property
    def title(self) -> str:
        return f"{self.name}: {counted(len(self.stream), 'event')}, {counted(self.stream.num_nodes, 'node')}"

    @property
    def finished(self) -> list[Row]:
        """The rows with at least one finished run."""
        return [row for row in self.rows if row.results]

    def notes(self) -> list[str]:
        """Say how the numbers were measured."""
        if not self.finished:
            return []
        notes = [
            f"Test events, {protocol(self.finished)}.",
            f"AP and AUC in %, mean over batches; {self._statistic()}.",
            "Inductive negatives: among all destinations (ours) or inductive events (dyglib, as published).",
        ]
        if any(row.recipe.variant == WINDOW for row in self.finished):
            notes.append(f"{WINDOW}: only the last {self._window()} count, the duration of the test period.")
        notes += few_events_notes(self.finished)
        settings = settings_notes((self.name, row.recipe) for row in self.finished)
        return [*notes, *settings, f"Speed and memory: {self._machine()}."]

    def _statistic(self) -> str:
        if self.seeds == 1:
            return "one seed"
        single = "" if all(row.learns for row in self.rows) else " (heuristics: one run)"
        return f"mean ± standard deviation over {self.seeds} seeds{single}"

    def _window(self) -> str:
        window = next(row.recipe.settings[WINDOW] for row in self.finished if row.recipe.variant == WINDOW)
        return duration(window / self.stream.time_span.per_second)

    def _machine(self) -> str:
        results = [one for row in self.finished for one in row.results]
        hardware = " and ".join(dict.fromkeys(one.facts.hardware for one in results))
        shared = f", {self.at_once} runs at a time" if self.at_once > 1 else ""
        trained = [one for row in self.finished if row.learns for one in row.results]
        over = " or ".join(dict.fromkeys(one.events_per_second.train_over for one in trained))
        speed = f"; training speed: {over}" if over else ""
        peak = " and ".join(dict.fromkeys(one.peak_memory.of for one in results))
        return f"{hardware}{shared}{speed}; peak memory of {peak}"

    def _repr_html_(self) -> str:
        """Show the quality of every model in a notebook, in %."""
        headings = ("model", "AP trans.", "AP ind. ours", "AP ind. dyglib", "AUC trans.")
        rows = [
            (
                row.label,
                *(
                    _in_percent(one.ap, one.events)
                    for one in (row.transductive, row.inductive, row.inductive_dyglib)
                ),
                _in_percent(row.transductive.auc, row.transductive.events),
            )
            for row in self.finished
        ]
        return markup.table(self.title, headings, rows, self.notes())

    def csv_lines(self) -> list[dict[str, Any]]:
        """Return the columns of each row of a CSV file; those of the task follow those of link prediction."""
        if self.evaluations is None:
            return [row.as_flat_dict() for row in self.rows]
        return [row.as_flat_dict() | self.evaluations.as_flat_dict(row.label) for row in self.rows]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        size = {"data": self.data, "events": len(self.stream), "nodes": self.stream.num_nodes}
        content = {**size, "seeds": self.seeds, "rows": [row.as_dict() for row in self.rows]}
        return content | ({} if self.evaluations is None else {"evaluation": self.evaluations.as_dict()})


def _in_percent(spread: Spread, events: int) -> str:
    mean, deviation = spread
    if isnan(mean):
        return "-"
    return f"{100 * mean:.2f}" + ("" if isnan(deviation) else f" ± {100 * deviation:.2f}") + few_mark(events)


def few_events_notes(rows: Sequence[Row]) -> list[str]:
    """Explain the mark of figures that rest on few events, if there are any."""
    selections = [row.selection(name) for row in rows for name in SELECTIONS]
    few = sorted({one.events for one in selections if few_mark(one.events) and not isnan(one.ap.mean)})
    return [f"{FEW_NOTE} (here {', '.join(map(str, few))})."] if few else []


def protocol(rows: Sequence[Row]) -> str:
    """Describe the protocol of finished rows, which differ at most in their batch size."""
    sizes = sorted({row.results[0].facts.batch_size for row in rows})
    shared = rows[0].results[0].result.protocol
    batches = " or ".join(f"{size:,}" for size in sizes)
    cut = "" if shared.split == DEFAULT_DESCRIPTION else f", {shared.split}"
    return f"{shared.negatives} negatives, batches of {batches}, new nodes by holdout {shared.holdout}{cut}"


def save(comparisons: Sequence[Comparison], out: Path, text: str) -> Figure | None:
    """Write ``compare.txt``, ``.csv``, ``.json`` and ``.png`` to ``out``; return the figure, if there is one.

    ``text`` is the content of the first. There is no figure if nothing is finished on one of the streams.
    """
    from contig import plots

    write_text(out / "compare.txt", text)
    write_csv([line for one in comparisons for line in one.csv_lines()], out / "compare.csv")
    write_json(out / "compare.json", [one.as_dict() for one in comparisons])
    figure, path = draw(comparisons), out / "compare.png"
    if figure is None:
        path.unlink(missing_ok=True)  # that of an earlier comparison
    else:
        plots.save(figure, path)
    return figure


def draw(comparisons: Sequence[Comparison]) -> Figure | None:
    """Draw AP and speed of every model, or nothing if no run is finished on one of the streams."""
    from contig import plots

    if not all(one.finished for one in comparisons):
        return None
    fields = {
        one.name: [
            plots.ComparedModel(
                row.label, row.learns, row.transductive.ap, row.inductive_dyglib.ap, row.cost.train_speed
            )
            for row in one.finished
        ]
        for one in comparisons
    }
    finished, seeds = [row for one in comparisons for row in one.finished], comparisons[0].seeds
    facts = (
        f"{seeds} seeds, bars are ± one standard deviation" if seeds > 1 else "one seed",
        f"{protocol(finished)}; inductive AP by DyGLib's protocol",
        finished[0].results[0].facts.hardware,
    )
    return plots.comparison(fields, facts)
