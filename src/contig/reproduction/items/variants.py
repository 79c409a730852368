"""What Table 4, Fig. 5 and Fig. 6 share: variants of the paper's model, and of no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from contig.experiments.recipes import Recipe
from contig.reproduction.items.base import Item
from contig.reproduction.paper import MODEL
from contig.reproduction.study import Study


class VariantItem(Item):
    """An item about the paper's model alone."""

    def notices(self, study: Study) -> Iterator[str]:
        if MODEL not in study.models:
            yield f"{self.name} is about {MODEL} alone; --models does not apply to it"


def changed(base: Recipe, variant: str, **changes: Any) -> Recipe:
    """Return a recipe with some settings changed; if nothing changes, the base itself, to share its run."""
    recipe = replace(base, settings={**base.settings, **changes}, variant=variant)
    return base if recipe.config(0) == base.config(0) else recipe
