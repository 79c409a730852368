"""What a run is, in a few lines: for ``print`` and for notebooks."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from contig import markup
from contig.tasks.results import LinkMetrics
from contig.wording import counted

if TYPE_CHECKING:
    from contig.runs.run import Run


def run_facts_in_words(run: Run) -> dict[str, str]:
    """Return the facts about a run and its test result, by name."""
    stream = run.stream
    facts = {
        "folder": str(run.path),
        "model": run.config.model,
        "data": f"{stream.origin}: {counted(len(stream), 'event')}, {counted(stream.num_nodes, 'node')}",
    }
    if not run.folder.is_finished:
        return {**facts, "training": f"not finished; continue with contig resume {run.path}"}
    metrics = run.metrics
    if run.model.learns:
        epochs = f"{counted(len(metrics.epochs), 'epoch')}, best: {metrics.best_epoch}"
        facts["training"] = f"{epochs}; {metrics.events_per_second.train:,.0f} events/s"
    parts = {"transductive": metrics.transductive, "inductive": metrics.inductive}
    facts |= {f"test, {name}": _in_words(part) for name, part in parts.items()}
    facts["parameters"] = f"{metrics.parameters:,}"
    return {**facts, "hardware": metrics.facts.hardware}


def _in_words(metrics: LinkMetrics) -> str:
    if isnan(metrics.ap):
        return "no events"
    return f"AP {100 * metrics.ap:.2f}, AUC {100 * metrics.auc:.2f} ({counted(metrics.events, 'event')})"


def run_text(run: Run) -> str:
    """Return the facts and notices as lines of text."""
    found = run_facts_in_words(run)
    width = max(map(len, found))
    lines = [f"{name:<{width}}  {value}" for name, value in found.items()]
    return "\n".join([*lines, *(f"note: {notice}" for notice in run.notices)])


def run_html(run: Run) -> str:
    """Return the facts and notices for a notebook."""
    return markup.facts("contig run", run_facts_in_words(run), run.notices)
