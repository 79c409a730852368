"""A study: which tables and figures to reproduce, on which datasets and with which models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contig.experiments.jobs import Job, runs_in
from contig.experiments.jobs import plan as plan_jobs
from contig.experiments.lineups import lineup
from contig.experiments.recipe_files import packaged_folder
from contig.experiments.recipes import PLAIN, Recipe, find_recipe, find_variants
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.paper import MODEL
from contig.reproduction.scales import FULL, Scale

if TYPE_CHECKING:
    from contig.reproduction.items.base import Item


@dataclass(frozen=True)
class Study:
    """What to reproduce."""

    items: tuple[Item, ...]
    datasets: tuple[StudyDataset, ...]
    models: tuple[str, ...]
    seeds: int
    out: Path
    scale: Scale = FULL
    configs: Path = field(default_factory=packaged_folder)
    any_numerics: bool = False
    every_dataset: bool = False  # run every item on every dataset, not only where the paper shows it

    def item(self, name: str) -> Item:
        """Return the table or figure with this name."""
        [found] = [item for item in self.items if item.name == name]
        return found

    def recipes(self, dataset: StudyDataset, models: Sequence[str]) -> list[Recipe]:
        """Return the recipes of some models on a dataset; one with variants has several."""
        return [recipe for recipe in self._recipes[dataset.name] if recipe.model in models]

    def base_recipe(self, dataset: StudyDataset) -> Recipe:
        """Return the recipe of the paper's model on a dataset, without what is not the paper's."""
        [base] = [one for one in self.recipes(dataset, [MODEL]) if one.variant == PLAIN]
        return base

    def jobs(self, recipes: Sequence[Recipe], seeds: int | None = None) -> list[Job]:
        """Return the runs of recipes: one for each seed, by default of the study."""
        return plan_jobs(recipes, seeds or self.seeds, runs_in(self.out), self.any_numerics)

    @cached_property
    def _recipes(self) -> dict[str, list[Recipe]]:
        return {dataset.name: self._lineup(dataset) for dataset in self.datasets}

    def _lineup(self, dataset: StudyDataset) -> list[Recipe]:
        """Choose every model's settings: those of its file in ``configs``, else its defaults.

        The paper's model is always among them: some items are about it alone. The variants of its file, which
        have what the paper's model has not, follow it.
        """
        models = list(dict.fromkeys([*self.models, MODEL]))
        known = {name for model in models for name in _option_names(model)}
        settings: dict[str, Any] = {key: x for key, x in self.scale.settings.items() if key in known}
        if not dataset.stream.benchmark:  # a file, such as a truncated dataset, follows the same protocol
            settings["holdout"] = "tgn"
        for model in models:
            recipe = find_recipe(self.configs, dataset.name, model)
            own = {} if recipe is None else recipe.settings
            settings |= {f"{model}.{key}": x for key, x in own.items() if key not in self.scale.settings}
        recipes = lineup(dataset.data, dataset.stream, models, settings, dataset.reading)
        return [one for recipe in recipes for one in (recipe, *self._variants(dataset, recipe))]

    def _variants(self, dataset: StudyDataset, recipe: Recipe) -> list[Recipe]:
        if recipe.model != MODEL:
            return []
        variants = []
        for one in find_variants(self.configs, dataset.name, MODEL):
            own = {key: x for key, x in one.settings.items() if key not in self.scale.settings}
            variants.append(replace(recipe, settings={**recipe.settings, **own}, variant=one.variant))
        return variants


def _option_names(model: str) -> set[str]:
    config = Recipe("", model).config(0).as_dict()
    return {*config["options"], *config["train"]}
