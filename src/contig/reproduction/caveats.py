"""What must be known to read a reproduction: how it was measured, and what stands beside what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contig.experiments.jobs import Job
from contig.models import model_class
from contig.reproduction.paper import paper
from contig.reproduction.studies import FOCUS, Plan, Study


def reading(plan: Plan) -> str:
    """All of it as a page of Markdown."""
    parts = {
        "How it was measured": protocol(plan.study),
        "What is not comparable, and why": not_comparable(plan),
    }
    return "\n".join(
        f"# {title}\n\n" + "".join(f"- {line}\n" for line in lines) for title, lines in parts.items()
    )


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
        *fewer_events(study),
        "Published inductive figures draw negatives among the destinations of the inductive events; here "
        "they are drawn among all destinations.",
        f"{_seeds(study)} here, {paper()['runs']} runs in the paper: the deviations are not equally certain.",
        *departures(plan),
        "The other models are written anew after their papers, not taken from their authors' code.",
        "The paper's Fig. 3 to 6 exist as images only; their curves are not compared number by number.",
    ]
    if "fig6" in study.items:
        lines.append(
            "Fig. 6 uses synthetic streams of growing size, the paper parts of wikipedia; seconds depend on "
            "the machine, and how many nodes a step computes on how many there are."
        )
    return lines


def fewer_events(study: Study) -> list[str]:
    """Models that know no new node are not measured everywhere."""
    names = [name for name in study.models if not model_class(name).inductive]
    if not names:
        return []
    return [
        f"{', '.join(names)}: only the nodes of training are known, so the figures are of the test events "
        "between those, fewer than the others'."
    ]


def departures(plan: Plan) -> list[str]:
    """Where the paper's model, as it ran, is not the paper's."""
    theirs = {**paper()["settings"], **paper()["model"]}
    del theirs["source"]
    found: dict[tuple[str, Any], set[str]] = {}
    streams: set[str] = set()
    for stream, job, swept in _runs_of_focus(plan):
        streams.add(stream)
        config = job.recipe.config(job.seed).as_dict()
        ours = {**config["options"], **config["train"]}
        for key, value in theirs.items():
            if ours[key] != value and key != swept:
                found.setdefault((key, ours[key]), set()).add(stream)
    told = []
    for (key, value), on in found.items():
        where = "" if on == streams else f"{' and '.join(sorted(on))}; "
        told.append(f"{key} {_word(value)} ({where}paper: {_word(theirs[key])})")
    fixed = "states move to one time for all events of a batch"
    return [f"{FOCUS} departs from the paper: {', '.join([*told, fixed])}."] if streams else []


def _runs_of_focus(plan: Plan) -> Iterator[tuple[str, Job, str]]:
    """Its runs with their streams, and with the option that a run changes to see what that does."""
    for stream, jobs in (*plan.lineups.items(), *plan.ablations.items()):
        yield from ((stream, job, "") for job in jobs if job.recipe.model == FOCUS)
    for stream, options in plan.sweeps.items():
        yield from ((stream, job, option) for option, jobs in options.items() for job in jobs)
    yield from (("synthetic", job, "") for job in plan.timed)


def _word(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _seeds(study: Study) -> str:
    return f"Seeds 0 to {study.seeds - 1}" if study.seeds > 1 else "Seed 0 alone"
