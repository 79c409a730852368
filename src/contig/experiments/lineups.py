"""Which models are put side by side on a stream, each under which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.splits import chronological_split
from contig.errors import ConfigError, unknown
from contig.experiments.recipes import Recipe
from contig.models import model_class, model_names
from contig.runs.config import RunConfig
from contig.runs.options import PROTOCOL_OPTIONS, TrainOptions

WINDOW = "window"  # the variant of a rule that forgets what is older than the test's span


def chosen_models(names: str, rules: bool = True) -> list[str]:
    """``all`` or names with commas between; those that learn first, then all rules unless not wanted."""
    named = [name for name in map(str.strip, names.split(",")) if name and name != "all"]
    everything = "all" in map(str.strip, names.split(","))
    if not named and not everything:
        raise ConfigError(f"--models {names!r} names none; give all, or some of: {', '.join(model_names())}.")
    learning = [name for name in model_names() if everything and model_class(name).learns]
    beside = [name for name in model_names() if rules and not model_class(name).learns]
    wanted = dict.fromkeys([*named, *learning, *beside])
    return sorted(wanted, key=lambda name: not model_class(name).learns)


def lineup(
    data: str,
    stream: EventStream,
    models: Sequence[str],
    settings: Mapping[str, Any],
    reading: ReadOptions | None = None,
) -> list[Recipe]:
    """Recipes for models on ``stream``, which ``data`` gives when read with ``reading``.

    A setting ``KEY`` holds for every model that has such an option, ``MODEL.KEY`` for that one. A rule
    that can forget is there twice: with an endless memory and with one as long as the test lasts.
    """
    _check_names(models, settings)
    base = Recipe(data, reading=reading or ReadOptions(), fingerprint=stream.fingerprint())
    span = span_of_test(stream)
    recipes = []
    for model in models:
        ours = _settings_of(model, settings)
        RunConfig.of(model, ours)  # refuses wrong values before anything is trained
        recipes.append(replace(base, model=model, settings=ours))
        if span and not model_class(model).learns and WINDOW in _options(model) - set(ours):
            recipes.append(replace(recipes[-1], settings={**ours, WINDOW: span}, variant=WINDOW))
    return recipes


def span_of_test(stream: EventStream) -> float:
    """How long the test lasts, in the stream's unit of time."""
    test = chronological_split(stream).test
    return float(stream.t[test[-1]] - stream.t[test[0]]) if len(test) else 0.0


def _options(model: str) -> set[str]:
    """Options that decide a model's numbers, its own and its training's."""
    kind = model_class(model)
    training = {f.name for f in fields(TrainOptions)} if kind.learns else set(PROTOCOL_OPTIONS)
    return training | {f.name for f in fields(kind.options)}


def _settings_of(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    shared = {key: value for key, value in settings.items() if key in _options(model)}
    own = {key.removeprefix(f"{model}."): value for key, value in settings.items() if _owner(key) == model}
    return {**shared, **own}


def _owner(key: str) -> str:
    """The model that a setting is for alone."""
    return key.rpartition(".")[0]


def _check_names(models: Sequence[str], settings: Mapping[str, Any]) -> None:
    known = set().union(*map(_options, models))
    for key in settings:
        name, owner = key.rpartition(".")[2], _owner(key)
        if name == "seed":
            raise ConfigError("--set seed: the seeds are counted from 0; say with --seeds how many.")
        if owner and owner not in models:
            raise ConfigError(f"--set {key}: {unknown('model in this comparison', owner, models)}")
        if not owner and name not in known:
            raise ConfigError(f"--set {key}: {unknown('option of any of these models', name, known)}")
