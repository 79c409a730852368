"""The numbers, settings and claims that the paper publishes, read from ``paper.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import nan
from typing import Any, NamedTuple

from contig.experiments.rows import Spread
from contig.reproduction.stats import MISSING

MODEL = "contig"  # the model the paper introduces
BASELINE = "tgn"  # the model it reports its gains over
# Which of our selections a published one compares with: inductive figures follow DyGLib's protocol.
COMPARABLE = {"transductive": "transductive", "inductive": "inductive_dyglib"}
PUBLISHED_NEGATIVES = {"negatives": "random-any"}  # of link prediction, as in TGN's code and DyGLib


class DatasetSize(NamedTuple):
    """The size of a dataset in the paper's Table 1."""

    events: int
    nodes: int
    features: int


@dataclass(frozen=True)
class PublishedItem:
    """A table or figure of the paper: where it is, and what it shows."""

    source: str
    datasets: tuple[str, ...]
    claim: str = ""
    abstract: str = ""  # what the abstract says about it, quoted
    cutoffs: tuple[int, ...] = ()  # K of recall@K, in Figure 3
    ablations: tuple[str, ...] = ()  # in Table 4


@dataclass(frozen=True)
class Paper:
    """What the paper says apart from its numbers, which ``published`` returns."""

    runs: int  # over which it takes means
    settings: dict[str, Any]  # stated options of the training and of the model's size
    model: dict[str, Any]  # options that make our model the paper's
    sizes: dict[str, DatasetSize]
    items: dict[str, PublishedItem]


@cache
def paper() -> Paper:
    """Return what the paper says."""
    content = _content()
    sizes = {
        name: DatasetSize(size["events"], size["nodes"], size["features"])
        for name, size in content["table1"]["datasets"].items()
    }
    return Paper(
        runs=content["runs"],
        settings=_without_source(content["settings"]),
        model=_without_source(content["model"]),
        sizes=sizes,
        items={name: _item(content[name], sizes) for name in content if name.startswith(("table", "fig"))},
    )


def _item(section: dict[str, Any], sizes: dict[str, DatasetSize]) -> PublishedItem:
    return PublishedItem(
        source=section["source"],
        datasets=tuple(section.get("datasets", sizes)),
        claim=section.get("claim", ""),
        abstract=section.get("abstract", ""),
        cutoffs=tuple(section.get("at", ())),
        ablations=tuple(section.get("without", ())),
    )


def _without_source(section: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name != "source"}


@cache
def _content() -> dict[str, Any]:
    """Read the whole file; numbers are in % unless their section says otherwise."""
    content: dict[str, Any] = json.loads(
        files("contig.reproduction").joinpath("paper.json").read_text("utf-8")
    )
    return content


def published(*path: str) -> Spread:
    """Return the number at a path such as ``"table2", "inductive", "tgn", "mooc", "ap"``; NaN for none."""
    found: Any = _content()
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None or isinstance(found, dict):
        return MISSING
    return Spread(*found) if isinstance(found, list) else Spread(float(found), nan)


def published_datasets(item: str = "table1") -> tuple[str, ...]:
    """Return the datasets that the paper shows a table or figure on; by default all it uses."""
    return paper().items[item].datasets


def published_models() -> tuple[str, ...]:
    """Return the models of the paper's Table 2: its own, then the baselines."""
    return tuple(dict.fromkeys([MODEL, *_content()["table2"]["transductive"]]))


def published_size(dataset: str) -> DatasetSize | None:
    """Return the size of a dataset in the paper; None if the paper does not use it."""
    return paper().sizes.get(dataset)


def published_settings() -> dict[str, Any]:
    """Return every option of the model and its training that the paper states."""
    return {**paper().settings, **paper().model}
