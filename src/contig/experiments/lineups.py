"""Lineups: which models are compared on a stream, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from contig.data.cuts import DEFAULT_SPLIT, SplitLike
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.splits import chronological_split
from contig.errors import ConfigError, unknown
from contig.experiments.recipes import Recipe, settings_on
from contig.models import model_class, model_names
from contig.runs.config import RunConfig
from contig.runs.options import PROTOCOL_OPTIONS, TrainOptions

WINDOW = "window"  # the variant of a heuristic that forgets events older than the test period is long


def choose_models(names: str, heuristics: bool = True) -> list[str]:
    """Parse comma-separated names or ``all``; models that learn come first.

    All heuristics are added, unless ``heuristics`` is False.
    """
    given = [name for name in map(str.strip, names.split(",")) if name]
    if not given:
        raise ConfigError(
            f"--models {names!r} is empty; use all, or some of these: {', '.join(model_names())}."
        )
    named = [name for name in given if name != "all"]
    learning = [name for name in model_names() if "all" in given and model_class(name).learns]
    added = [name for name in model_names() if heuristics and not model_class(name).learns]
    chosen = dict.fromkeys([*named, *learning, *added])
    return sorted(chosen, key=lambda name: not model_class(name).learns)


def lineup(
    data: str,
    stream: EventStream,
    models: Sequence[str],
    settings: Mapping[str, Any],
    reading: ReadOptions | None = None,
) -> list[Recipe]:
    """Return the recipes of models on ``stream``, which is ``data`` read with ``reading``.

    A setting ``KEY`` applies to every model that has such an option, ``MODEL.KEY`` to that model. A heuristic
    that can forget has two recipes: one that remembers everything, and one with a window as long as the test
    period.
    """
    _check_names(models, settings)
    base = Recipe(data, reading=reading or ReadOptions(), fingerprint=stream.fingerprint())
    window = span_of_test(stream, settings.get("split", DEFAULT_SPLIT))
    recipes = []
    for model in models:
        chosen = settings_on(stream, model, _settings_of(model, settings))
        if RunConfig.of(model, chosen).train.final:  # rejects wrong values before anything is trained
            raise ConfigError(f"{model}: final=true leaves no events on which models could be compared.")
        recipes.append(replace(base, model=model, settings=chosen))
        if window and not model_class(model).learns and WINDOW in _options(model) - set(chosen):
            recipes.append(replace(recipes[-1], settings={**chosen, WINDOW: window}, variant=WINDOW))
    return recipes


def span_of_test(stream: EventStream, split: SplitLike = DEFAULT_SPLIT) -> float:
    """Return the time from the first to the last test event, in the stream's unit."""
    test = chronological_split(stream, split).test
    return float(stream.t[test[-1]] - stream.t[test[0]]) if len(test) else 0.0


def _options(model: str) -> set[str]:
    """Return the options that decide a model's numbers: its own and those of its training."""
    kind = model_class(model)
    training = {f.name for f in fields(TrainOptions)} if kind.learns else set(PROTOCOL_OPTIONS)
    return training | {f.name for f in fields(kind.options)}


def _settings_of(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    shared = {key: value for key, value in settings.items() if key in _options(model)}
    own = {key.removeprefix(f"{model}."): value for key, value in settings.items() if _owner(key) == model}
    return {**shared, **own}


def _owner(key: str) -> str:
    """Return the model in ``MODEL.KEY``; nothing for ``KEY``."""
    return key.rpartition(".")[0]


def _check_names(models: Sequence[str], settings: Mapping[str, Any]) -> None:
    known = set().union(*map(_options, models))
    for key in settings:
        name, owner = key.rpartition(".")[2], _owner(key)
        if name == "seed":
            raise ConfigError("--set seed: seeds are numbered from 0; choose how many with --seeds.")
        if owner and owner not in models:
            raise ConfigError(f"--set {key}: {unknown('model', owner, models, 'in this comparison')}")
        if not owner and name not in known:
            raise ConfigError(f"--set {key}: {unknown('option', name, known, 'of these models')}")
