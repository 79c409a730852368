"""The settings that a reader of a table needs to compare its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contig.experiments.recipes import PLAIN, Recipe
from contig.models import model_class, model_label
from contig.runs.config import RunConfig
from contig.runs.options import PROTOCOL_OPTIONS
from contig.wording import counted

LEDGER = "docs/results/departures.md"
LEDGER_NOTE = f"Departures of every model from its paper, and their reasons: {LEDGER}."
OPTIONS_NOTE = (
    "NAME=VALUE: an option that is not at its default, or that the default auto chose; `contig models MODEL` "
    "describes it."
)

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

# The options that are always named, in this order; a model from outside the package may not have them.
ALWAYS: dict[str, Callable[[Any], str]] = {
    "layers": lambda number: counted(number, "layer") if number else "no layers",
    "neighbors": lambda number: counted(number, "neighbor"),
    "dim": lambda number: counted(number, "dimension"),
    "lr": lambda rate: f"lr {rate:g}",
    "epochs": lambda number: f"at most {counted(number, 'epoch')}",
    "patience": lambda number: f"patience {number}",
}
# A table has many seeds, and describes its events with its protocol; the others are not about the model.
NEVER = {"seed", "compile", "graph_in", *PROTOCOL_OPTIONS} - {"batch_size"}


class _Settings(NamedTuple):
    """How a model was trained on a dataset."""

    texts: dict[str, str]  # of every option, by its name
    named: frozenset[str]  # the options to name: some always, the others where they depart from the default

    def text(self, leave_out: Iterable[str] = ()) -> str:
        return ", ".join(x for name, x in self.texts.items() if name in self.named - {*leave_out})


def settings_notes(recipes: Iterable[tuple[str, Recipe]]) -> list[str]:
    """Return notes on the settings of all models that learn, from recipes with the names of their datasets.

    For each model they have its layers, neighbors, width and training, and every other option that departs
    from the model's default. What all have in common comes first, and models with equal settings share a
    note. Datasets are named only where a model's settings differ from those it has on most of them.
    """
    found: dict[str, dict[str, _Settings]] = {}
    for dataset, recipe in recipes:
        if model_class(recipe.model).learns:
            found.setdefault(_label(recipe), {})[dataset] = _settings(recipe)
    if not found:
        return []
    every = [one for places in found.values() for one in places.values()]
    shared = _shared(every) if len(found) > 1 else {}
    notes = [f"All trained models: {', '.join(shared.values())}."] if shared else []
    alike: dict[str, list[str]] = {}
    models = [label.partition(",")[0] for label in found]
    for label in sorted(found, key=lambda label: models.index(label.partition(",")[0])):  # variants follow
        if text := _text(found[label], shared):
            alike.setdefault(text, []).append(label)
    notes += [f"{_joined(labels)}: {text}." for text, labels in alike.items()]
    explained = [OPTIONS_NOTE] if any(one.named - set(ALWAYS) for one in every) else []
    return [*notes, *explained, LEDGER_NOTE]


def _label(recipe: Recipe) -> str:
    label = model_label(recipe.model)
    return label if recipe.variant == PLAIN else f"{label}, {recipe.variant}"


def _joined(labels: Sequence[str]) -> str:
    """List models; the name of a variant has a comma of its own."""
    return ("; " if any("," in label for label in labels) else ", ").join(labels)


def _settings(recipe: Recipe) -> _Settings:
    own, default = _options(recipe.config(0)), _options(RunConfig.of(recipe.model))
    order = [*(name for name in ALWAYS if name in own), *(name for name in own if name not in ALWAYS)]
    texts = {name: _word(name, own[name]) for name in order}
    departing = {name for name in own if own[name] != default[name]}
    return _Settings(texts, frozenset(departing | (ALWAYS.keys() & own.keys())))


def _options(config: RunConfig) -> dict[str, Any]:
    """Return the values of all options that notes may name; those that are None are not in use."""
    content = config.as_dict()
    layers = {"layers": LAYERS[config.model]} if config.model in LAYERS else {}
    options = {**layers, **content["options"], **content["train"]}
    return {name: value for name, value in options.items() if name not in NEVER}


def _word(name: str, value: Any) -> str:
    if name in ALWAYS and value is not None:
        return ALWAYS[name](value)
    if isinstance(value, list | tuple):
        value = "+".join(map(str, value)) or "none"
    elif isinstance(value, bool) or value is None:
        value = str(value).lower()
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


def _shared(every: Sequence[_Settings]) -> dict[str, str]:
    """Return the options that all name with the same value."""
    first, *others = every
    return {
        name: text
        for name, text in first.texts.items()
        if all(name in one.named and one.texts[name] == text for one in (first, *others))
    }


def _text(places: Mapping[str, _Settings], shared: Iterable[str]) -> str:
    """Describe a model's settings on most datasets, and in brackets where others differ from these."""
    texts = {dataset: one.text(shared) for dataset, one in places.items()}
    usual = Counter(texts.values()).most_common(1)[0][0]
    base = next(one for dataset, one in places.items() if texts[dataset] == usual)
    others: dict[str, list[str]] = {}
    for dataset, one in places.items():
        differing = [text for name, text in one.texts.items() if text != base.texts[name]]
        if differing:
            others.setdefault(", ".join(differing), []).append(dataset)
    parts = "; ".join(f"on {', '.join(datasets)}: {text}" for text, datasets in others.items())
    return " ".join(filter(None, (usual, f"({parts})" if parts else "")))
