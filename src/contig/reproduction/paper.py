"""The numbers, settings and claims that the paper publishes, read from ``paper.json``."""

from __future__ import annotations

import json
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


class DatasetSize(NamedTuple):
    """The size of a dataset in the paper's Table 1."""

    events: int
    nodes: int
    features: int


@cache
def paper() -> dict[str, Any]:
    """Return the whole file; numbers are in % unless their section says otherwise."""
    content: dict[str, Any] = json.loads(
        files("contig.reproduction").joinpath("paper.json").read_text("utf-8")
    )
    return content


def published(*path: str) -> Spread:
    """Return the number at a path such as ``"table2", "inductive", "tgn", "mooc", "ap"``; NaN for none."""
    found: Any = paper()
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None or isinstance(found, dict):
        return MISSING
    return Spread(*found) if isinstance(found, list) else Spread(float(found), nan)


def published_datasets(item: str = "table1") -> tuple[str, ...]:
    """Return the datasets that the paper shows a table or figure on; by default all it uses."""
    return tuple(paper()[item].get("datasets", paper()["table1"]["datasets"]))


def published_size(dataset: str) -> DatasetSize | None:
    """Return the size of a dataset in the paper; None if the paper does not use it."""
    size = paper()["table1"]["datasets"].get(dataset)
    return None if size is None else DatasetSize(size["events"], size["nodes"], size["features"])


def published_settings() -> dict[str, Any]:
    """Return every option of the model and its training that the paper states."""
    stated = {**paper()["settings"], **paper()["model"]}
    return {name: value for name, value in stated.items() if name != "source"}
