"""What was found, beside what the paper says: the tables, from saved results and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, nan
from statistics import mean
from typing import Any, NamedTuple

from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job
from contig.experiments.recipes import PLAIN
from contig.experiments.rows import SELECTIONS, Row, Spread, collect
from contig.models import model_class
from contig.reproduction.caveats import fewer_events
from contig.reproduction.grids import DELTA, Grid, Line, Table, Value, percent, plain
from contig.reproduction.paper import MISSING, paper, published
from contig.reproduction.scaling import PowerLaw, power_law
from contig.reproduction.studies import FOCUS, FULL_MODEL, LARGER, LONGER, RIVAL, Plan, swept_value
from contig.tasks.intervals import SETS

LINK = {"AUC": "auc", "AP": "ap"}
OPTIONS = {
    "horizon": "T",
    "neighbors": "k",
    "heads": "heads",
    "dim": "d",
    "time_dim": "d_T",
}
NO_FIGURE = "The paper's curves are a picture and were not read off; the numbers of its text stand here."


class Measured(NamedTuple):
    """One model's evaluations by one task, over its seeds."""

    label: str
    model: str
    results: list[dict[str, Any]]

    @property
    def learns(self) -> bool:
        return model_class(self.model).learns

    def spread(self, *path: str) -> Spread:
        """Mean and deviation over the seeds of the number at a path of the results."""
        return Spread.of([_at(result, path) for result in self.results])

    def value(self, *path: str, paper: Spread = MISSING) -> Value:
        return Value(percent(self.spread(*path)), paper, len(self.results))


def _at(result: Mapping[str, Any], path: Sequence[str]) -> float:
    found: Any = result
    for name in path:
        found = found.get(name, {})
    return float(found) if isinstance(found, int | float) else nan


def measured(evaluations: Sequence[Evaluation]) -> list[Measured]:
    """The evaluations that are done, by model and variant."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in evaluations:
        if (result := one.result()) is not None:
            groups.setdefault((one.job.recipe.model, one.job.recipe.variant), []).append(result)
    return [
        Measured(model if variant == PLAIN else f"{model}, {variant}", model, results)
        for (model, variant), results in groups.items()
    ]


def tables(plan: Plan) -> list[Table]:
    """Every table of the study, in the paper's order."""
    makers: dict[str, Callable[[Plan], Table]] = {
        **{"table2": table2, "table3": table3, "table4": table4},
        **{"fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6},
    }
    return [makers[item](plan) for item in plan.study.items]


def _table(plan: Plan, name: str, title: str, grids: Iterable[Grid], notes: Sequence[str]) -> Table:
    """A table of the grids that are not empty; where none is left it says so."""
    filled = tuple(grid for grid in grids if grid.lines)
    empty = () if filled else ("Nothing of it is done: no run, or no stream it can be measured on.",)
    source = f"In the paper: {paper()[name]['source']}."
    return Table(name, title, filled, (*empty, *notes, source), plan.study.scale.warning)


def _seeds(plan: Plan) -> str:
    seeds = plan.study.seeds
    return f"Mean ± standard deviation over {seeds} seeds." if seeds > 1 else "One seed."


def _beside() -> str:
    return f"{DELTA}: here less the paper's, which are means over {paper()['runs']} runs."


# --- Table 2: link prediction ------------------------------------------------------------------------


def table2(plan: Plan) -> Table:
    """AUC and AP of every model on every stream, transductive and inductive."""
    grids = []
    for stream, jobs in plan.lineups.items():
        rows = [row for row in collect(jobs) if row.seeds]
        lines = [line for task in SELECTIONS for line in _link_lines(stream, rows, task)]
        grids.append(Grid(stream, "model", tuple(LINK), tuple(lines), rank=True))
    notes = ["AUC and AP in %, mean over batches, of the test events against random negatives."]
    notes += [_seeds(plan), _beside(), *fewer_events(plan.study)]
    return _table(plan, "table2", "Table 2: link prediction", grids, notes)


def _link_lines(stream: str, rows: Sequence[Row], task: str) -> Iterable[Line]:
    for row in rows:
        model = row.recipe.model
        if task == "inductive" and not model_class(model).inductive:
            continue
        theirs = model if row.recipe.variant == PLAIN else ""
        values = (
            Value(
                percent(getattr(row, task)[m]),
                published("table2", task, theirs, stream, m),
                row.seeds,
            )
            for m in LINK.values()
        )
        yield Line(row.label, tuple(values), task if row.learns else f"{task}, rules")


# --- Table 3: classification -------------------------------------------------------------------------


def table3(plan: Plan) -> Table:
    """AUC of the events' labels, a column for each stream."""
    found = {s: measured(some) for s, some in plan.evaluations.get("table3", {}).items()}
    found = {stream: some for stream, some in found.items() if some}
    labels = dict.fromkeys((one.label, one.model) for some in found.values() for one in some)
    lines = [
        Line(label, tuple(_class_value(some, label, model, stream) for stream, some in found.items()))
        for label, model in labels
    ]
    decoders = {
        r["protocol"]["decoder_seeds"] for some in found.values() for one in some for r in one.results
    }
    notes = ["ROC AUC of the labels of the test events, %, by a decoder on the frozen embeddings."]
    notes += [_seeds(plan), _beside(), *_labels(found)]
    if decoders:
        notes.append(f"A run's AUC is the mean of {max(decoders)} decoders; ± is over runs.")
    grid = Grid("streams with labels", "model", tuple(found), tuple(lines), rank=True)
    return _table(plan, "table3", "Table 3: dynamic node classification", [grid], notes)


def _labels(found: Mapping[str, Sequence[Measured]]) -> list[str]:
    """How many events there are to tell from the others."""
    tests = {s: some[0].results[0].get("labels", {}).get("test") for s, some in found.items()}
    counts = [f"{n['positives']:,} of {n['events']:,} on {s}" for s, n in tests.items() if n]
    return [f"Test events with label 1: {', '.join(counts)}."] if counts else []


def _class_value(some: Sequence[Measured], label: str, model: str, stream: str) -> Value:
    theirs = published("table3", "auc", model, stream)
    ours = [one for one in some if one.label == label]
    return ours[0].value("transductive", "auc", paper=theirs) if ours else Value(paper=theirs)


# --- Table 4: ablations ------------------------------------------------------------------------------


def table4(plan: Plan) -> Table:
    """AP of the model without each of its parts."""
    grids = []
    for stream, jobs in plan.ablations.items():
        lines = []
        for row in collect(jobs):
            part = FULL_MODEL if row.recipe.variant == PLAIN else row.recipe.variant.removeprefix("without ")
            label = FOCUS if part == FULL_MODEL else f"without {part}"
            values = (
                Value(
                    percent(getattr(row, task)["ap"]),
                    published("table4", "without", part, stream, task),
                    row.seeds,
                )
                for task in SELECTIONS
            )
            lines.append(Line(label, tuple(values)))
        columns = tuple(f"AP {task}" for task in SELECTIONS)
        grids.append(Grid(stream, "left out", columns, tuple(lines), rank=True))
    notes = ["AP in %, mean over batches.", _seeds(plan)]
    notes.append(
        f"{DELTA}: here less the paper's, which has no deviations, and whose full model has other figures in "
        "this table than in Table 2."
    )
    return _table(plan, "table4", "Table 4: ablations", grids, notes)


# --- Fig. 3: recommendation --------------------------------------------------------------------------


def recalls() -> dict[str, str]:
    """The recalls of the paper and the MRR, by their headings."""
    return {**{f"R@{k}": f"recall@{k}" for k in paper()["fig3"]["at"]}, "MRR": "mrr"}


def fig3(plan: Plan) -> Table:
    """Recall@K of the true destination among all, transductive."""
    grids, gains = [], []
    for stream, some in plan.evaluations.get("fig3", {}).items():
        found = measured(some)
        lines = tuple(
            Line(
                one.label,
                tuple(one.value("transductive", name) for name in recalls().values()),
                "" if one.learns else "rules",
            )
            for one in found
        )
        grids.append(Grid(stream, "model", tuple(recalls()), lines, rank=True))
        gains += _gain(stream, found)
    heading = f"gain of {FOCUS} over {RIVAL} in Recall@5, % of {RIVAL}'s"
    grids.append(Grid(heading, "stream", ("gain",), tuple(gains), signed=True))
    notes = [
        "Recall@K and MRR in %: the true destination's rank among all destinations at the event's time.",
        _seeds(plan),
        *fewer_events(plan.study),
        NO_FIGURE,
    ]
    return _table(plan, "fig3", "Fig. 3: temporal node recommendation", grids, notes)


def _gain(stream: str, found: Sequence[Measured]) -> list[Line]:
    at_5 = {one.label: one.spread("transductive", "recall@5").mean for one in found}
    ours, theirs = (at_5.get(name, nan) for name in (FOCUS, RIVAL))
    if isnan(ours) or isnan(theirs) or not theirs:
        return []
    seeds = min(len(one.results) for one in found if one.label in (FOCUS, RIVAL))
    said = published("fig3", "gain_over_tgn_at_5", stream)
    return [Line(stream, (Value(plain(100 * (ours / theirs - 1)), said, seeds),))]


# --- Fig. 4: intervals -------------------------------------------------------------------------------


def fig4(plan: Plan) -> Table:
    """AP by how long the source had been away, in five sets."""
    grids = []
    for stream, some in plan.evaluations.get("fig4", {}).items():
        found = measured(some)
        lines = [line for task in SELECTIONS for line in _interval_lines(found, task)]
        grids.append(Grid(stream, "model", SETS, tuple(lines), rank=True))
        leads = [line for task in SELECTIONS for line in _lead(found, task)]
        grids.append(Grid(f"{stream}: {FOCUS} less {RIVAL}", "AP", SETS, tuple(leads), signed=True))
    notes = ["AP in %, from the events of the shortest absences to those of the longest."]
    notes += [
        _seeds(plan),
        *fewer_events(plan.study),
        NO_FIGURE,
        f"The paper's claim: {paper()['fig4']['claim']}.",
    ]
    return _table(plan, "fig4", "Fig. 4: performance by interval", grids, notes)


def _interval_lines(found: Sequence[Measured], task: str) -> Iterable[Line]:
    for one in found:
        if task == "transductive" or model_class(one.model).inductive:
            values = tuple(one.value(task, name, "ap") for name in SETS)
            yield Line(one.label, values, task if one.learns else f"{task}, rules")


def _lead(found: Sequence[Measured], task: str) -> Iterable[Line]:
    both = {one.label: one for one in found if one.label in (FOCUS, RIVAL)}
    if len(both) == 2:
        ours, theirs = both[FOCUS], both[RIVAL]
        gaps = [ours.spread(task, n, "ap").mean - theirs.spread(task, n, "ap").mean for n in SETS]
        seeds = min(len(one.results) for one in both.values())
        yield Line(task, tuple(Value(plain(100 * gap), seeds=seeds) for gap in gaps))


# --- Fig. 5: sensitivity -----------------------------------------------------------------------------


def fig5(plan: Plan) -> Table:
    """AP by the values of five options."""
    grids = []
    for stream, options in plan.sweeps.items():
        lines = [
            Line(
                f"{OPTIONS[option]} = {swept_value(row.recipe, option):g}",
                tuple(Value(percent(getattr(row, task)["ap"]), seeds=row.seeds) for task in SELECTIONS),
                option,
            )
            for option, jobs in options.items()
            for row in collect(jobs)
        ]
        grids.append(Grid(stream, "value", tuple(f"AP {t}" for t in SELECTIONS), tuple(lines), rank=True))
    notes = ["AP in %, mean over batches.", _seeds(plan), NO_FIGURE]
    if (most := plan.study.scale.sweep_events) is not None:
        notes.append(f"A training sees about {most:,} events at most: compare its AP with the others here.")
    notes.append(f"The paper's claim: {paper()['fig5']['claim']}.")
    return _table(plan, "fig5", "Fig. 5: sensitivity to the options", grids, notes)


# --- Fig. 6: time ------------------------------------------------------------------------------------


class Timing(NamedTuple):
    """What an epoch takes on a stream."""

    events: int
    nodes: int
    trained: int  # events that are trained on
    seconds: float


def timings(jobs: Sequence[Job]) -> list[Timing]:
    """Mean seconds of an epoch in the timing runs that are done; the first epoch warms up and is left out."""
    found = []
    for job in jobs:
        if job.done:
            metrics = json.loads((job.folder / "metrics.json").read_text())
            epochs = metrics["epochs"]
            trained = round(epochs[0]["events_per_second"] * epochs[0]["train_seconds"])
            seconds = mean(epoch["train_seconds"] for epoch in epochs[1:] or epochs)
            found.append(Timing(metrics["data"]["events"], metrics["data"]["nodes"], trained, seconds))
    return found


def growth(found: Sequence[Timing]) -> PowerLaw | None:
    """How the time of an epoch grows with the training events."""
    return power_law([one.trained for one in found], [one.seconds for one in found])


def fig6(plan: Plan) -> Table:
    """The time of an epoch by the number of training events, and the exponent."""
    measured, laws = [], []
    for why, jobs in plan.timings.items():
        found = timings(jobs)
        for t in found:
            numbers = (t.trained, t.nodes, t.seconds, t.trained / t.seconds)
            measured.append(Line(f"{t.events:,}", tuple(Value(plain(x), seeds=1) for x in numbers), why))
        if (law := growth(found)) is not None:
            value = Value(Spread(law.exponent, law.error), published("fig6", "exponent"), len(found))
            laws.append(Line(why, (value,)))
    columns = ("training events", "nodes", "s per epoch", "events/s")
    grids = [Grid("one epoch of training", "events", columns, tuple(measured), (0, 0, 3, 0))]
    if laws:
        grids.append(
            Grid("time ~ training events^x", "streams with", ("x",), tuple(laws), (3,), judged=False)
        )
    notes = [
        "Mean over the epochs but the first, one training at a time; ± is the exponent's standard error.",
        f"{LONGER}: streams last longer in proportion to their events; {LARGER}: they last equally long and "
        "their nodes are in proportion. Each is drawn anew.",
        f"The paper's claim: {paper()['fig6']['claim']}; 1 stands for linear.",
        NO_FIGURE,
    ]
    return _table(plan, "fig6", "Fig. 6: time of an epoch", grids, notes)
