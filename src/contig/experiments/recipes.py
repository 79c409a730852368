"""Recipes: what to train, as files in JSON or TOML.

A recipe is ``{"data": ..., "model": ..., "settings": {...}, "reading": {...}, "variants": {NAME: {...}}}``.
``reading`` has the fields of ``ReadOptions``, such as ``{"features": true}``. ``variants`` are optional: each
has the recipe's settings, with its own replacing some of them. ``"models": {MODEL: {...}}`` compares several
models in the same way, instead of ``model`` and ``variants``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contig.data.datasets import open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, unknown
from contig.experiments.recipe_files import find_recipe_file, load_recipe_file, not_a_recipe
from contig.files import expanded
from contig.models import DEFAULT_MODEL
from contig.options import as_dict
from contig.runs.config import RunConfig
from contig.runs.options import PROTOCOL_OPTIONS
from contig.tasks.baselines import HEURISTICS

FIELDS = ("data", "model", "settings", "reading", "variants", "models", "$schema")
PLAIN = "as given"  # the variant of a recipe itself


@dataclass(frozen=True)
class Recipe:
    """A model with settings, and the data to train it on."""

    data: str
    model: str = DEFAULT_MODEL
    settings: dict[str, Any] = field(default_factory=dict)
    variant: str = PLAIN
    file: str = ""  # the file it was read from, without extension
    reading: ReadOptions = ReadOptions()
    fingerprint: str = ""  # of the events, if known

    @property
    def stem(self) -> str:
        """Data, model and variant as the beginning of a folder's name."""
        words = [Path(self.data).stem, self.model] + ([self.variant] if self.variant != PLAIN else [])
        return "-".join(_slug(word) for word in words)

    @property
    def name(self) -> str:
        """The stem, preceded by the file if it is not named after the data: recipes of two files differ."""
        return self.stem if self.file in ("", Path(self.data).stem) else f"{_slug(self.file)}-{self.stem}"

    def config(self, seed: int) -> RunConfig:
        """Return the config of its run with a seed; an error names the recipe's file and variant."""
        try:
            return RunConfig.of(self.model, {**self.settings, "seed": seed})
        except ConfigError as error:
            place = [self.file] if self.file else []
            place += [] if self.variant == PLAIN else [f"variant {self.variant!r}"]
            raise ConfigError(f"{', '.join(place)}: {error}" if place else str(error)) from error


def heuristics_for(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return recipes of the heuristic baselines on the data and with the protocol of other recipes."""
    found: dict[tuple[Any, ...], Recipe] = {}
    for recipe in recipes:
        settings = {key: recipe.settings[key] for key in PROTOCOL_OPTIONS if key in recipe.settings}
        for name in HEURISTICS:
            key = (recipe.data, recipe.reading, name, *settings.items())
            found.setdefault(key, replace(recipe, model=name, settings=settings, variant=PLAIN))
    return list(found.values())


def _slug(word: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in word)


def read_recipes(path: str | Path) -> list[Recipe]:
    """Read the recipe of a file, followed by its variants.

    ``path`` may also be the name of a recipe that comes with the package, such as ``pair/collegemsg``.
    """
    path = find_recipe_file(path)
    content = load_recipe_file(path)
    try:
        recipes = _parse(content, path.stem)
    except ValueError as error:
        raise not_a_recipe(path, error) from error
    return [replace(recipe, data=_found_data(recipe.data, path.parent)) for recipe in recipes]


def _found_data(data: str, folder: Path) -> str:
    """Return the data of a recipe; a file that is only in the recipe's own folder is taken from there."""
    path = folder / data
    return str(path) if Path(data).suffix and not expanded(data).exists() and path.is_file() else data


def _parse(content: Any, file: str) -> list[Recipe]:
    """Make the recipes of a file's content; raise ``ValueError`` for any other content."""
    _check_object(content, "a recipe")
    for name in content:
        if name not in FIELDS:
            raise ValueError(unknown("field", name, FIELDS[:-1]).rstrip("."))
    if "data" not in content:
        raise ValueError("the field data is missing")
    for name in ("data", "model"):
        if not isinstance(content.get(name, DEFAULT_MODEL if name == "model" else None), str):
            raise ValueError(f"the field {name} must be text")
    settings = _check_object(content.get("settings", {}), "the field settings")
    reading = ReadOptions.from_dict(_check_object(content.get("reading", {}), "the field reading"))
    model = content.get("model", DEFAULT_MODEL)
    base = Recipe(content["data"], model, dict(settings), file=file, reading=reading)
    if "models" in content:
        return _models(base, content)
    variants = _check_object(content.get("variants", {}), "the field variants")
    return [base, *(_variant(base, name, own) for name, own in variants.items())]


def _models(base: Recipe, content: dict[str, Any]) -> list[Recipe]:
    """Make a recipe for each of several models, whose own settings replace the shared ones."""
    if others := [name for name in ("model", "variants") if name in content]:
        raise ValueError(f"the field models excludes the field {others[0]}")
    models = _check_object(content["models"], "the field models")
    if not models:
        raise ValueError("the field models names no model")
    own = {name: _check_object(found, f"the model {name}") for name, found in models.items()}
    return [replace(base, model=name, settings={**base.settings, **own[name]}) for name in models]


def _variant(base: Recipe, name: str, own: Any) -> Recipe:
    changes = _check_object(own, f"the variant {name}")
    return replace(base, settings={**base.settings, **changes}, variant=name)


def _check_object(content: Any, what: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{what} must be an object")
    return content


def identified(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Complete recipes by what depends on their events, and give them different names.

    One that is listed twice is returned once.
    """
    recipes = list(recipes)
    sources = dict.fromkeys((one.data, one.reading) for one in recipes)
    streams = {source: open_stream(*source) for source in sources}
    completed = [
        replace(
            one,
            fingerprint=stream.fingerprint(),
            settings=settings_on(stream, one.model, one.settings),
        )
        for one in recipes
        for stream in [streams[one.data, one.reading]]
    ]
    return _with_different_names(list({_content(one): one for one in completed}.values()))


def _content(recipe: Recipe) -> tuple[Any, ...]:
    """Return what tells recipes apart."""
    config = json.dumps(recipe.config(seed=0).as_dict(), sort_keys=True)
    return recipe.model, config, recipe.fingerprint, recipe.variant


def _with_different_names(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Add to the variants of recipes with equal names what is different about them."""
    found: dict[str, Recipe] = {}
    for recipe in recipes:
        others = [one for one in recipes if one.name == recipe.name]
        named = recipe if len(others) == 1 else _with_differences(recipe, others)
        number = 1
        while named.name in found:
            number += 1
            named = replace(named, variant=f"{recipe.variant} {number}")
        found[named.name] = named
    return list(found.values())


def _with_differences(recipe: Recipe, others: Sequence[Recipe]) -> Recipe:
    """Add the settings and the data that others do not share to the variant of a recipe."""
    words = [] if recipe.variant == PLAIN else [recipe.variant]
    if len({one.data for one in others}) > 1:
        words.append(recipe.data)
    words += [
        f"{key}={value}"
        for key, value in recipe.settings.items()
        if any(one.settings.get(key) != value for one in others)
    ]
    return replace(recipe, variant=", ".join(words) or PLAIN)


def settings_on(stream: EventStream, model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add the choices that depend on the stream to the settings of a model.

    They are part of the identity of a run then, which leaves out defaults. The holdout of a benchmark is its
    default.
    """
    named = dict(settings)
    if not stream.benchmark and named.get("holdout", "auto") == "auto":
        named["holdout"] = "none"
    config = RunConfig.of(model, named)
    given, chosen = (as_dict(one.model_options) for one in (config, config.for_stream(stream)))
    return named | {key: value for key, value in chosen.items() if value != given[key]}


def find_recipe(folder: Path, data: str, model: str) -> Recipe | None:
    """Find the recipe of a model on a dataset: ``DATA-MODEL.json``, or ``DATA.json`` if it has that model."""
    return next(iter(_find(folder, data, model)), None)


def find_variants(folder: Path, data: str, model: str) -> list[Recipe]:
    """Return the variants in the file of ``find_recipe``."""
    return _find(folder, data, model)[1:]


def _find(folder: Path, data: str, model: str) -> list[Recipe]:
    for name in (f"{data}-{model}", data):
        path = folder / f"{name}.json"
        if path.exists() and (found := read_recipes(path))[0].model == model:
            return found
    return []
