"""How a study measures, and where it differs from the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from contig.experiments.jobs import Job
from contig.experiments.recipes import PLAIN
from contig.experiments.training_settings import LEDGER_NOTE
from contig.models import model_class
from contig.reproduction.items.notes import known_nodes_notes
from contig.reproduction.paper import MODEL, paper, published_datasets, published_settings
from contig.reproduction.plan import Plan

PROTOCOL, DIFFERENCES = "Protocol", "Differences from the paper"


def protocol_page(plan: Plan) -> str:
    """Write the protocol and the differences as a page of Markdown."""
    parts = {PROTOCOL: protocol(plan), DIFFERENCES: differences(plan)}
    return "\n".join(
        f"# {title}\n\n" + "".join(f"- {line}\n" for line in lines) for title, lines in parts.items()
    )


def protocol(plan: Plan) -> list[str]:
    """Say how everything is measured."""
    return [
        "Events are split by time quantile 70/15/15. States and history carry over from training through "
        "validation to test; no parameter is updated there.",
        "The neighbors and states of a query come from events strictly before it; a batch is scored before "
        "it is observed.",
        "Held-out nodes follow TGN's protocol: a tenth of the nodes is hidden from training, in addition to "
        "those that appear only later. Inductive events involve at least one of these.",
        "Each event has one random negative among all destinations of the dataset, never a true destination "
        "of that source at that time; all models and seeds see the same negatives.",
        "In Tables 2 and 4 and Fig. 5 the negatives of inductive events are drawn among those events' own "
        "destinations, and batches hold inductive events alone, as in TGN's code and DyGLib.",
        "AP and AUC are averaged over batches, as in the published tables.",
        *dict.fromkeys(line for item in plan.study.items for line in item.protocol),
        "All models of a table have the same limit of epochs and the same patience. Learning rates, and the "
        "few settings of the recipes in configs/, were chosen by hand on validation events: there was no "
        "search of equal effort for every model.",
        f"{seeds_text(plan)} for weights, dropout and training negatives; the split is always the same.",
    ]


def differences(plan: Plan) -> list[str]:
    """List where our numbers and the paper's are measured differently."""
    study = plan.study
    used = {dataset.name for dataset in study.datasets}
    missing = [name for name in published_datasets() if name not in used]
    return [
        *([study.scale.warning] if study.scale.warning else []),
        *(line for dataset in study.datasets for line in dataset.differences()),
        *([f"Not run: {', '.join(missing)}."] if missing else []),
        "In the paper, transductive events are those between nodes seen in training, and only nodes absent "
        "from training are new. Here transductive covers every test event, and a tenth of the nodes is held "
        "out in addition.",
        *known_nodes_notes(study),
        "Node states of inductive events know every earlier event; TGN's code and DyGLib walk the inductive "
        "events alone, so that the memories of their models miss the other events of the test.",
        f"{seeds_text(plan)} here, {paper().runs} runs in the paper: our deviations are less reliable.",
        *model_differences(plan),
        *interval_differences(plan),
        LEDGER_NOTE,
        "The baselines are implemented from their papers; their authors' code is not used.",
        "The paper's Fig. 3 to 6 are available only as images, so their curves are not compared point by "
        "point.",
        *(line for item in study.items for line in item.caveats),
    ]


def model_differences(plan: Plan) -> list[str]:
    """Say in one line where the paper's model, as it was run, differs from the paper."""
    theirs = published_settings()
    found: dict[tuple[str, Any], set[str]] = {}
    datasets: set[str] = set()
    for dataset, job in _model_runs(plan):
        datasets.add(dataset)
        config = job.recipe.config(job.seed).as_dict()
        ours = {**config["options"], **config["train"]}
        for key, value in theirs.items():
            if ours[key] != value:
                found.setdefault((key, ours[key]), set()).add(dataset)
    changes = []
    for (key, value), affected in found.items():
        where = "" if affected == datasets else f"{', '.join(sorted(affected))}; "
        changes.append(f"{key} is {_word(value)} ({where}paper: {_word(theirs[key])})")
    fixed = "states are brought to the same time for all events of a batch"
    return [f"{MODEL} differs from the paper's model: {'; '.join([*changes, fixed])}."] if datasets else []


def interval_differences(plan: Plan) -> list[str]:
    """Name the models that count intervals in events where their papers measure time."""
    configs = [job.recipe.config(job.seed) for job in plan.jobs]
    models = {c.model for c in configs if getattr(c.model_options, "intervals", "time") == "events"}
    if not models:
        return []
    names = " and ".join(sorted(models))
    return [
        f"Intervals between a node's events are counted in events of the whole stream by {names}, where "
        "their papers measure time; `contig compare --set intervals=time` does that.",
    ]


def _model_runs(plan: Plan) -> Iterator[tuple[str, Job]]:
    """Yield the runs of the paper's model with their datasets.

    Variants next to the model itself are left out: they change an option on purpose, which their labels name.
    """
    for groups in plan.groups.values():
        for group in groups:
            runs = [job for job in group.jobs if job.recipe.model == MODEL]
            plain = [job for job in runs if job.recipe.variant == PLAIN]
            yield from ((group.dataset, job) for job in plain or runs)


def _word(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def seeds_text(plan: Plan) -> str:
    """Name the seeds of the finished runs, or those planned if nothing is finished; heuristics have none.

    If recipes have different ones, those of most recipes come first. Runs that are timed count only where
    there are no others: they repeat a training at other sizes.
    """
    by_recipe: dict[str, list[int]] = {}
    for job in plan.trainings or plan.timed:
        if job.done and model_class(job.recipe.model).learns:
            by_recipe.setdefault(job.recipe.stem, []).append(job.seed)
    found = Counter(tuple(sorted(seeds)) for seeds in by_recipe.values())
    if not found:
        return _seeds(range(plan.study.seeds))
    usual = max(found, key=lambda seeds: found[seeds])
    every = sorted({seed for seeds in found for seed in seeds})
    return _seeds(usual) + (f" (some models: {_seeds(every).lower()})" if len(every) > len(usual) else "")


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"Seed {seeds[0]} only"
    gapless = seeds[-1] - seeds[0] == len(seeds) - 1
    return f"Seeds {seeds[0]} to {seeds[-1]}" if gapless else f"Seeds {', '.join(map(str, seeds))}"
