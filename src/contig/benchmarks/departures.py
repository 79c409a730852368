"""What each departure from the paper costs: a training step of every variant in a recipe."""

from __future__ import annotations

from collections.abc import Iterator

from contig.benchmarks.bench import Bench, run_config
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import forget_compiled, time_steps
from contig.errors import ConfigError
from contig.experiments.recipe_files import find_recipe_file
from contig.experiments.recipes import Recipe, read_recipes
from contig.training.session import Session

WARM_UP, BLOCK = 20, 5  # steps; some variants are so slow that more would take minutes


def measure_departures(bench: Bench) -> Iterator[Measurement]:
    """Compare a step of the recipe's own settings with one of each of its variants or other models."""
    try:
        path = find_recipe_file(bench.settings.recipe)
    except ConfigError as error:  # there is no such file
        yield Measurement.missing("departures", str(error))
        return
    default, *variants = read_recipes(path)
    training = _training(bench, default)
    for variant in variants:
        yield _compare(bench, training, default, variant)


def _compare(bench: Bench, training: TrainingSteps, default: Recipe, variant: Recipe) -> Measurement:
    s = bench.settings
    first = min(WARM_UP, s.first)
    last = min(first + BLOCK * s.repeats, s.last)
    same = variant.model == default.model
    what, peer = f"training step, {default.model}", f"ours, {variant.variant if same else variant.model}"
    forget_compiled(bench.device)
    steppers = training, _training(bench, variant)
    try:
        own, theirs = time_steps(steppers, first, last, s.repeats, bench.device)
    except ConfigError as error:  # a solver needs a package that is not installed
        return Measurement("departures", what, peer_name=peer, note=str(error))
    return Measurement.compare("departures", what, own, peer, theirs)


def _training(bench: Bench, recipe: Recipe) -> TrainingSteps:
    return TrainingSteps(Session(bench.data, run_config(recipe.model, bench.settings, **recipe.settings)))
