"""What each table and figure of the paper asks for: which runs, and what is measured on them.

The runs of link prediction are shared: trained once, they serve Table 2, Table 3, Fig. 3 and Fig. 4, and
the one under a recipe's own settings is the full model of Table 4. Fig. 5 compares its many trainings with
one another alone, so they may be shorter; else that run is the middle of every curve, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contig.data.datasets import open_stream
from contig.data.splits import chronological_split
from contig.errors import ConfigError, unknown
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job, Work, runs_in
from contig.experiments.jobs import plan as plan_jobs
from contig.experiments.lineups import lineup
from contig.experiments.recipes import Recipe, find_recipe
from contig.models import model_class
from contig.reproduction.paper import paper, shown_on
from contig.reproduction.sources import Source, watched

ITEMS = ("table2", "table3", "table4", "fig3", "fig4", "fig5", "fig6")
FOCUS = "contig"  # the paper's model
OF_FOCUS = ("table4", "fig5", "fig6")  # are of it alone
RIVAL = "tgn"  # what the paper measures its gains against
FULL_MODEL = "nothing"  # is left out
LONGER, LARGER = "as many nodes", "more nodes"  # Fig. 6: what a stream with more events has

TASKS: Mapping[str, str] = {"table3": "classify", "fig3": "recommend", "fig4": "intervals"}


@dataclass(frozen=True)
class Scale:
    """How much is done: the paper's experiments, or a small likeness of them."""

    name: str
    settings: Mapping[str, Any]  # of every model that has them
    sweeps: Mapping[str, tuple[float, ...]]  # Fig. 5: values of each option
    sizes: tuple[int, ...]  # Fig. 6: events of the synthetic streams
    timing: Mapping[str, Any]  # Fig. 6: settings
    decoders: int = 5  # Table 3: of each run
    sweep_settings: Mapping[str, Any] = field(default_factory=dict)  # Fig. 5: in place of the recipe's
    sweep_events: int | None = None  # Fig. 5: a training sees about so many at most
    events: int | None = None  # of a stream at most
    sweep_streams: int | None = None
    warning: str = ""


FULL = Scale(
    "full",
    settings={},
    sweeps={
        "horizon": (0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
        "neighbors": (5, 10, 15, 20, 25),
        "heads": (1, 2, 4),
        "dim": (16, 64, 128, 172, 256),
        "time_dim": (16, 64, 128, 172, 256),
    },
    sizes=(40_000, 100_000, 200_000, 400_000, 800_000),  # half of them, 20,000 to 400,000, are trained on
    timing={"epochs": 4},
    sweep_settings={"compile": "on"},  # side by side on one GPU that pays sooner than auto expects
    sweep_events=800_000,
)
QUICK_SETTINGS = {"epochs": 8, "dim": 32, "time_dim": 32, "neighbors": 5}
QUICK = Scale(
    "quick",
    settings=QUICK_SETTINGS,
    sweeps={
        "horizon": (0.6, 1.0, 1.6),
        "neighbors": (2, 5, 10),
        "heads": (1, 2, 4),
        "dim": (8, 32, 64),
        "time_dim": (8, 32, 64),
    },
    sizes=(2000, 4000, 8000, 16_000),
    timing=QUICK_SETTINGS,
    decoders=2,
    events=6000,
    sweep_streams=1,
    warning="QUICK: the first 6,000 events of each stream, 8 epochs, width 32. It shows that everything "
    "runs; its numbers are not the paper's experiment.",
)


@dataclass(frozen=True)
class Study:
    """What is wanted."""

    items: tuple[str, ...]
    sources: tuple[Source, ...]
    models: tuple[str, ...]
    seeds: int
    out: Path
    scale: Scale = FULL
    configs: Path = Path("configs")
    any_code: bool = False
    as_paper: bool = True  # each item on the paper's streams for it, where the user names none


@dataclass(frozen=True)
class Plan:
    """All there is to do, by what it is for; one run may stand in several places."""

    study: Study
    lineups: dict[str, list[Job]] = field(default_factory=dict)  # by stream
    ablations: dict[str, list[Job]] = field(default_factory=dict)
    sweeps: dict[str, dict[str, list[Job]]] = field(default_factory=dict)  # by stream and option
    timings: dict[str, list[Job]] = field(default_factory=dict)  # by how their streams grow
    evaluations: dict[str, dict[str, list[Evaluation]]] = field(default_factory=dict)  # by item and stream

    @property
    def trainings(self) -> list[Job]:
        """Every run once, without the timings."""
        swept = [jobs for options in self.sweeps.values() for jobs in options.values()]
        groups: Iterable[list[Job]] = [*self.lineups.values(), *self.ablations.values(), *swept]
        return list({job.folder: job for jobs in groups for job in jobs}.values())

    @property
    def timed(self) -> list[Job]:
        """Every timing once; each is to be alone on the machine."""
        return list({job.folder: job for jobs in self.timings.values() for job in jobs}.values())

    @property
    def longest_first(self) -> list[Job]:
        """The trainings by the events they see at most, so that none is left to go on alone at the end.

        Of equally long ones each recipe comes once before its other seeds, which find compiled what it did.
        """
        events = {source.file: len(source.stream) for source in self.study.sources}

        def order(job: Job) -> tuple[int, int]:
            return -events[job.recipe.data] * job.recipe.config(job.seed).train.epochs, job.seed

        return sorted(self.trainings, key=order)

    def chain(self, job: Job) -> list[Work]:
        """A run, and what is measured on it once it is trained."""
        groups = [some for streams in self.evaluations.values() for some in streams.values()]
        return [job, *(one for some in groups for one in some if one.job.folder == job.folder)]


def chosen_items(names: Sequence[str]) -> tuple[str, ...]:
    """Items in the paper's order; ``all`` is every one."""
    for name in names:
        if name not in (*ITEMS, "all"):
            raise ConfigError(unknown("table or figure", name, (*ITEMS, "all")))
    return tuple(item for item in ITEMS if item in names or "all" in names)


def make_plan(study: Study) -> Plan:
    """The runs and evaluations that the study asks for."""
    plan = Plan(study)
    for source in study.sources:
        wanted = [item for item in study.items if _applies(item, source, study)]
        if models := _models_for(wanted, study):
            plan.lineups[source.name] = _jobs(study, _recipes(study, source, models))
        for item in wanted:
            if item in TASKS:
                jobs = plan.lineups[source.name]
                plan.evaluations.setdefault(item, {})[source.name] = _evaluations(item, jobs, study.scale)
        if {"table4", "fig5"} & set(wanted):
            [base] = _recipes(study, source, [FOCUS])
            if "table4" in wanted:
                plan.ablations[source.name] = _jobs(study, _ablations(base))
            if "fig5" in wanted and len(plan.sweeps) != study.scale.sweep_streams:
                base = _shorter(base, source, study.scale)
                plan.sweeps[source.name] = {
                    option: _jobs(study, _sweep(base, option, values))
                    for option, values in study.scale.sweeps.items()
                }
    if "fig6" in study.items:
        plan.timings.update(_timings(study))
    return plan


def _applies(item: str, source: Source, study: Study) -> bool:
    if item == "fig6" or (item == "table3" and not source.labelled):
        return False
    return not study.as_paper or source.name in shown_on(item) or source.name not in shown_on("table2")


def _models_for(items: Sequence[str], study: Study) -> list[str]:
    """Table 3 is of embeddings, which rules have none of; the rest is of every model."""
    if {"table2", "fig3", "fig4"} & set(items):
        return list(study.models)
    return [name for name in study.models if model_class(name).learns and "table3" in items]


def _recipes(study: Study, source: Source, models: Sequence[str]) -> list[Recipe]:
    """Each model under the recipe there is for it on this stream, else under its defaults."""
    shared = dict(study.scale.settings)
    known = {name for model in models for name in _option_names(model)}
    settings: dict[str, Any] = {name: value for name, value in shared.items() if name in known}
    for model in models:
        recipe = find_recipe(study.configs, source.name, model)
        own = {} if recipe is None else recipe.settings
        settings |= {f"{model}.{key}": value for key, value in own.items() if key not in shared}
    return lineup(source.file, source.stream, models, settings, source.reading)


def _option_names(model: str) -> set[str]:
    config = Recipe("", model).config(0).as_dict()
    return {*config["options"], *config["train"]}


def _jobs(study: Study, recipes: Sequence[Recipe], seeds: int | None = None) -> list[Job]:
    return plan_jobs(recipes, seeds or study.seeds, runs_in(study.out), study.any_code)


def _changed(base: Recipe, variant: str, **changes: Any) -> Recipe:
    """A recipe with some settings changed; where that changes nothing, the base itself, to share its run."""
    recipe = replace(base, settings={**base.settings, **changes}, variant=variant)
    return base if recipe.config(0) == base.config(0) else recipe


def _ablations(base: Recipe) -> list[Recipe]:
    parts = [part for part in paper()["table4"]["without"] if part != FULL_MODEL]
    return [*(_changed(base, f"without {part}", without=(part,)) for part in parts), base]


def _shorter(base: Recipe, source: Source, scale: Scale) -> Recipe:
    """The recipe for the curves of Fig. 5."""
    settings = {**base.settings, **scale.sweep_settings}
    if scale.sweep_events is not None:
        trained = max(1, len(chronological_split(source.stream).train))
        epochs = max(1, round(scale.sweep_events / trained))
        settings["epochs"] = min(epochs, base.config(0).train.epochs)
    return replace(base, settings=settings)


def _sweep(base: Recipe, option: str, values: Sequence[float]) -> list[Recipe]:
    own = getattr(base.config(0).model_options, option)
    return [_changed(base, f"{option} {value:g}", **{option: value}) for value in sorted({*values, own})]


def _evaluations(item: str, jobs: Sequence[Job], scale: Scale) -> list[Evaluation]:
    if item != "table3":
        return [Evaluation(job, TASKS[item]) for job in jobs]
    options = (("seeds", str(scale.decoders)),)
    return [Evaluation(job, TASKS[item], options) for job in jobs if model_class(job.recipe.model).learns]


def _timings(study: Study) -> dict[str, list[Job]]:
    """Streams that last longer the more events they have, and streams of one time with more nodes.

    Both have the stream of the middle size. With more nodes at a time fewer are common to the events of a
    batch, up to a bound; where each is computed once, an event of a larger stream costs more until then.
    """
    sizes = study.scale.sizes
    larger = [Source(name, open_stream(name), name) for name in (f"synthetic:{size}" for size in sizes)]
    longer = [watched(size, sizes[len(sizes) // 2], study.out / "data") for size in sizes]
    return {LONGER: _timed(study, longer), LARGER: _timed(study, larger)}


def _timed(study: Study, sources: Sequence[Source]) -> list[Job]:
    settings = study.scale.timing
    recipes = [r for s in sources for r in lineup(s.file, s.stream, [FOCUS], settings, s.reading)]
    return _jobs(study, [replace(recipe, variant="timing") for recipe in recipes], seeds=1)


def swept_value(recipe: Recipe, option: str) -> float:
    """Where a run stands on a curve of Fig. 5."""
    return float(getattr(recipe.config(0).model_options, option))
