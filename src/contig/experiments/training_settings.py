"""The settings that a reader of a table needs to compare its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contig.experiments.recipes import Recipe
from contig.models import model_class
from contig.wording import counted

LEDGER = "docs/results/departures.md"
LEDGER_NOTE = f"Departures of every model from its paper, and their reasons: {LEDGER}."

# layers that pass messages between nodes, where that is not an option of the model
LAYERS = {
    "contig": 1,
    "contig-pair": 1,
    "tgn": 1,
    "jodie": 0,
    "dyrep": 1,
    "gae": 2,
    "vgae": 2,
    "graphsage": 2,
    "gat": 2,
    "ctdne": 0,
}


def settings_notes(recipes: Iterable[tuple[str, Recipe]]) -> list[str]:
    """Return a note for each model that learns: its layers, neighbors and training on the named datasets.

    Datasets are named only if a model's settings differ between them.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for dataset, recipe in recipes:
        if model_class(recipe.model).learns:
            places = found.setdefault(recipe.model, {}).setdefault(describe(recipe), [])
            if dataset not in places:
                places.append(dataset)
    notes = [f"{model}: {_joined(settings)}." for model, settings in found.items()]
    return [*notes, LEDGER_NOTE] if notes else []


def describe(recipe: Recipe) -> str:
    """Describe the depth and the training of a model that learns."""
    return ", ".join(_parts(recipe))


def _parts(recipe: Recipe) -> Iterator[str]:
    config = recipe.config(0)
    options, train = config.model_options, config.train
    layers = getattr(options, "layers", LAYERS.get(recipe.model))
    if layers is not None:  # a model from outside the package may not say
        yield counted(layers, "layer") if layers else "no layers"
    neighbors = getattr(options, "neighbors", None)
    if neighbors is not None:
        yield counted(neighbors, "neighbor")
    yield f"lr {train.lr:g}"
    yield f"at most {counted(train.epochs, 'epoch')}"
    yield f"patience {train.patience}"


def _joined(settings: dict[str, list[str]]) -> str:
    if len(settings) == 1:
        return next(iter(settings))
    return "; ".join(f"on {', '.join(places)}: {text}" for text, places in settings.items())
