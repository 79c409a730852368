"""What must be known to read a reproduction: how it was measured, and what stands beside what."""

from __future__ import annotations

from typing import Any

from contig.experiments.paper import paper
from contig.experiments.studies import FOCUS, Plan, Study


def protocol(study: Study) -> list[str]:
    """How everything is measured."""
    return [
        "Split by time quantile 70/15/15; state and history run on from training through validation into "
        "test, and nothing is learned there.",
        "Neighbours and states of a query come from events strictly before it; a batch is scored, then "
        "observed.",
        "New nodes by rule tgn: besides those absent from training, a tenth of the nodes is hidden from it. "
        "Inductive events have at least one new node.",
        "One random negative for each event among all destinations of the stream, never a true one of that "
        "source and time; the same for every model and seed.",
        "AP and AUC are means over batches, the convention of the published tables.",
        "Recommendation ranks among all destinations at the event's own time but the other true ones; ties "
        "count as the mean of the best and the worst rank.",
        "Classification: a decoder of three layers on the frozen embedding of the source, as many positives "
        "as others in each step, stopped by validation.",
        f"{_seeds(study)}: of weights, dropout and training negatives; the split is the same for all.",
    ]


def not_comparable(plan: Plan) -> list[str]:
    """Where the numbers here and the paper's answer different questions."""
    study = plan.study
    named = {source.name for source in study.sources}
    missing = [name for name in paper()["table1"]["datasets"] if name not in named]
    lines = [study.scale.warning] if study.scale.warning else []
    lines += [line for source in study.sources for line in source.differences()]
    lines += [f"Not run here: {', '.join(missing)}."] if missing else []
    lines += [
        "The paper counts as transductive the events between nodes seen in training, and as new only nodes "
        "absent from it; here transductive is every test event, and a tenth of the nodes is hidden besides.",
        "Published inductive figures draw negatives among the destinations of the inductive events; here "
        "they are drawn among all destinations.",
        f"{_seeds(study)} here, {paper()['runs']} runs in the paper: the deviations are not equally certain.",
        *_departures(plan),
        "The other models are written anew after their papers, not taken from their authors' code.",
        "The paper's Fig. 3 to 6 exist as images only; their curves are not compared number by number.",
    ]
    if "fig6" in study.items:
        lines.append(
            "Fig. 6 uses synthetic streams of growing size, the paper parts of wikipedia; seconds depend on "
            "the machine, the exponent hardly."
        )
    return lines


def _departures(plan: Plan) -> list[str]:
    """Settings of the paper's model that are not the paper's."""
    theirs = {key: value for key, value in paper()["settings"].items() if key != "source"}
    found: dict[str, set[Any]] = {}
    runs = [job for jobs in [*plan.lineups.values(), *plan.ablations.values()] for job in jobs]
    for job in runs:
        if job.recipe.model == FOCUS:
            config = job.recipe.config(job.seed).as_dict()
            ours = {**config["options"], **config["train"]}
            for key, value in theirs.items():
                if ours[key] != value:
                    found.setdefault(key, set()).add(ours[key])
    told = [f"{key} {' or '.join(map(str, sorted(v)))} (paper: {theirs[key]})" for key, v in found.items()]
    fixed = "a LayerNorm on the states, Phi(0) in place of Phi(t) for the query"
    return [f"{FOCUS} departs from the paper: {', '.join([*told, fixed])}."]


def _seeds(study: Study) -> str:
    return f"Seeds 0 to {study.seeds - 1}" if study.seeds > 1 else "Seed 0 alone"
