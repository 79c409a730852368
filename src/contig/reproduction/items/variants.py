"""What Table 4, Fig. 5 and Fig. 6 share: variants of the paper's model, and of no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from contig.experiments.recipes import PLAIN, Recipe
from contig.reproduction.items.base import Group, Item
from contig.reproduction.paper import MODEL
from contig.reproduction.study import Study


class VariantItem(Item):
    """An item about the paper's model alone."""

    def notices(self, study: Study) -> Iterator[str]:
        if MODEL not in study.models:
            yield f"{self.name} is about {MODEL} alone; --models does not apply to it"

    def own_recipes(self, groups: Sequence[Group]) -> Iterator[tuple[str, Recipe]]:
        """Yield the recipes of the model itself: the table's rows say what the variants change."""
        found = super().own_recipes(groups)
        return ((dataset, recipe) for dataset, recipe in found if recipe.variant == PLAIN)


def changed(base: Recipe, variant: str, **changes: Any) -> Recipe:
    """Return a recipe with some settings changed; if nothing changes, the base itself, to share its run."""
    recipe = replace(base, settings={**base.settings, **changes}, variant=variant)
    return base if recipe.config(0) == base.config(0) else recipe
