"""How results are printed, one table for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isnan
from typing import TYPE_CHECKING, Any

from contig.cli import console

if TYPE_CHECKING:
    from rich.table import Table

    from contig.tasks.results import (
        ClassifyResult,
        Evaluation,
        IntervalResult,
        LinkMetrics,
        LinkResult,
        RankMetrics,
        RecommendResult,
    )

SELECTIONS = ("transductive", "inductive")
LINK = {"ap": "AP", "auc": "AUC", "ap_overall": "AP overall", "auc_overall": "AUC overall"}


def told(evaluation: Evaluation[Any]) -> Iterable[Table | str]:
    """A task's table and the line that says what it holds."""
    result, model = evaluation.result, evaluation.facts.model
    protocol = result.protocol
    task = protocol.task
    batches = f"batches of {evaluation.facts.batch_size:,}, new nodes by holdout {protocol.holdout}"
    tables: dict[str, Callable[[str, Any], Table]] = {
        "link": _link,
        "recommend": _recommend,
        "intervals": _intervals,
        "classify": _classify,
    }
    yield tables[task](model, result)
    if task == "recommend":
        yield "  R@K: share of the events whose true destination is among the first K"
        yield f"  candidates: {protocol.candidates}"
        yield f"  times: {protocol.times}"
        yield f"  ties: {protocol.ties}; {batches}"
    elif task == "classify":
        parts = vars(result.labels).items()
        yield "  label 1: " + ", ".join(f"{n.positives:,} of {n.events:,} in {p}" for p, n in parts)
        yield f"  mean and deviation over {protocol.decoder_seeds} decoders; {protocol.balance}"
        yield f"  {batches}"
    else:
        if task == "intervals":
            yield "  away: time since the source last appeared, in the stream's unit; 0 for the first"
            yield "  new: inductive, events with a new node"
        yield f"  {protocol.negatives} negatives, {batches}"


def link(of: dict[str, LinkResult]) -> Table:
    """A row for each selection of events and each model."""
    table = console.new_table("Test, %", "model", *LINK.values(), "events")
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        for model, result in of.items():
            table.add_row(selection, model, *_cells(getattr(result, selection), LINK))
    return table


def _link(model: str, result: LinkResult) -> Table:
    return link({model: result})


def _recommend(model: str, result: RecommendResult) -> Table:
    columns = {"mrr": "MRR", **{f"recall_at_{k}": f"R@{k}" for k in (5, 10, 15, 20)}}
    table = console.new_table("Test, %", "model", *columns.values(), "events")
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        table.add_row(selection, model, *_cells(getattr(result, selection), columns))
    return table


def _intervals(model: str, result: IntervalResult) -> Table:
    """A row for each set, with all its events and those of new nodes."""
    columns = ("away ≤", "AP", "AUC", "events", "new AP", "new AUC", "new")
    table = console.new_table("Test, %", *columns)
    for name, span in result.intervals.items():
        cells = [cell for s in SELECTIONS for cell in _cells(getattr(result, s)[name], ("ap", "auc"))]
        table.add_row(name, "-" if span is None else _amount(span[1]), *cells)
    return table


def _classify(model: str, result: ClassifyResult) -> Table:
    table = console.new_table("Test, %", "model", "AUC", "label 1", "events")
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        found = getattr(result, selection)
        auc = "-" if isnan(found.auc) else f"{100 * found.auc:.2f} ± {100 * found.auc_std:.2f}"
        table.add_row(selection, model, auc, f"{found.positives:,}", f"{found.events:,}")
    return table


def _cells(metrics: LinkMetrics | RankMetrics, names: Iterable[str]) -> list[str]:
    values: list[float] = [getattr(metrics, name) for name in names]
    return [*("-" if isnan(value) else f"{100 * value:.2f}" for value in values), f"{metrics.events:,}"]


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
