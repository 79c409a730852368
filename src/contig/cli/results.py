"""How results are printed, one table for each task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from contig.cli import console

if TYPE_CHECKING:
    from rich.table import Table

SELECTIONS = ("transductive", "inductive")
LINK = {"ap": "AP", "auc": "AUC", "ap_overall": "AP overall", "auc_overall": "AUC overall"}


def told(task: str, result: dict[str, Any]) -> Iterable[Table | str]:
    """A task's table and the line that says what it holds."""
    protocol = result["protocol"]
    batches = f"batches of {result['batch_size']:,}, new nodes by holdout {protocol['holdout']}"
    tables = {"link": _link, "recommend": _recommend, "intervals": _intervals, "classify": _classify}
    yield tables[task](result)
    if task == "recommend":
        yield "  R@K: share of the events whose true destination is among the first K"
        yield f"  candidates: {protocol['candidates']}"
        yield f"  times: {protocol['times']}"
        yield f"  ties: {protocol['ties']}; {batches}"
    elif task == "classify":
        parts = result["labels"].items()
        yield "  label 1: " + ", ".join(f"{n['positives']:,} of {n['events']:,} in {p}" for p, n in parts)
        yield f"  mean and deviation over {protocol['decoder_seeds']} decoders; {protocol['balance']}"
        yield f"  {batches}"
    else:
        if task == "intervals":
            yield "  away: time since the source last appeared, in the stream's unit; 0 for the first"
            yield "  new: inductive, events with a new node"
        yield f"  {protocol['negatives']} negatives, {batches}"


def link(of: dict[str, dict[str, Any]]) -> Table:
    """A row for each selection of events and each model."""
    table = console.new_table("Test, %", "model", *LINK.values(), "events")
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        for model, metrics in of.items():
            table.add_row(selection, model, *_cells(metrics[selection], LINK))
    return table


def _link(result: dict[str, Any]) -> Table:
    return link({result["model"]: result})


def _recommend(result: dict[str, Any]) -> Table:
    recalls = {key: f"R@{key[7:]}" for key in result["transductive"] if key.startswith("recall@")}
    columns = {"mrr": "MRR", **recalls}
    table = console.new_table("Test, %", "model", *columns.values(), "events")
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        table.add_row(selection, result["model"], *_cells(result[selection], columns))
    return table


def _intervals(result: dict[str, Any]) -> Table:
    """A row for each set, with all its events and those of new nodes."""
    columns = ("away ≤", "AP", "AUC", "events", "new AP", "new AUC", "new")
    table = console.new_table("Test, %", *columns)
    for name, span in result["intervals"].items():
        cells = [cell for s in SELECTIONS for cell in _cells(result[s][name], ("ap", "auc"))]
        table.add_row(name, "-" if span is None else _amount(span[1]), *cells)
    return table


def _classify(result: dict[str, Any]) -> Table:
    table = console.new_table("Test, %", "model", "AUC", "label 1", "events")
    table.columns[1].justify = "left"
    for selection in SELECTIONS:
        found = result[selection]
        auc = f"{100 * found['auc']:.2f} ± {100 * found['auc_std']:.2f}" if "auc" in found else "-"
        table.add_row(selection, result["model"], auc, f"{found['positives']:,}", f"{found['events']:,}")
    return table


def _cells(metrics: dict[str, float], keys: Iterable[str]) -> list[str]:
    shares = [f"{100 * metrics[key]:.2f}" if key in metrics else "-" for key in keys]
    return [*shares, f"{metrics['events']:,}"]


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
