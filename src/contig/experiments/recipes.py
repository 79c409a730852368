"""Recipes: what to train, as data.

A recipe is a JSON file ``{"data": ..., "model": ..., "settings": {...}, "variants": {name: {...}}}``.
``variants`` is optional; each names settings that are changed from the recipe's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.runs.config import RunConfig

PLAIN = "as given"


@dataclass(frozen=True)
class Recipe:
    """One thing to train."""

    data: str
    model: str = "contig"
    settings: dict[str, Any] = field(default_factory=dict)
    variant: str = PLAIN
    file: str = ""  # the name of the file it comes from
    reading: ReadOptions = ReadOptions()
    fingerprint: str = ""  # of the events, where they are known

    @property
    def stem(self) -> str:
        """Data, model and variant, for the names of folders."""
        words = [Path(self.data).stem, self.model] + ([self.variant] if self.variant != PLAIN else [])
        return "-".join(_slug(word) for word in words)

    @property
    def name(self) -> str:
        """What tells it from the others: its stem, after the file's name where that says something else."""
        return self.stem if self.file in ("", Path(self.data).stem) else f"{_slug(self.file)}-{self.stem}"

    def config(self, seed: int) -> RunConfig:
        """Everything that decides the numbers of a training of it, but the events."""
        return RunConfig.of(self.model, {**self.settings, "seed": seed})


def _slug(word: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in word)


def read_recipes(path: str | Path) -> list[Recipe]:
    """The recipe of a file and its variants, the plain one first."""
    path = Path(path)
    try:
        content = json.loads(path.read_text())
        variants: dict[str, dict[str, Any]] = content.get("variants", {})
        settings = dict(content.get("settings", {}))
        base = Recipe(content["data"], content.get("model", "contig"), settings, file=path.stem)
        return [base] + [
            replace(base, settings={**settings, **changes}, variant=name)
            for name, changes in variants.items()
        ]
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such recipe.") from None
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f'{path} is not a recipe ({error}); it is JSON like {{"data": "collegemsg", "model": "contig", '
            '"settings": {"lr": 0.0003}}.'
        ) from error


def find_recipe(folder: Path, data: str, model: str) -> Recipe | None:
    """The recipe of a model on a stream: ``DATA-MODEL.json``, or ``DATA.json`` where it is of that model."""
    for name in (f"{data}-{model}", data):
        path = folder / f"{name}.json"
        if path.exists() and (recipe := read_recipes(path)[0]).model == model:
            return recipe
    return None
