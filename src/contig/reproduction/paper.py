"""The paper's own numbers, as ``paper.json`` keeps them: in %, each part with its source named."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from math import nan
from typing import Any

from contig.experiments.rows import Spread

MISSING = Spread(nan, nan)


@cache
def paper() -> dict[str, Any]:
    """All of it."""
    content: dict[str, Any] = json.loads(
        files("contig.reproduction").joinpath("paper.json").read_text("utf-8")
    )
    return content


def published(*path: str) -> Spread:
    """The number at a path, ``("table2", "inductive", "tgn", "mooc", "ap")`` say; NaN where there is none."""
    found: Any = paper()
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None or isinstance(found, dict):
        return MISSING
    return Spread(*found) if isinstance(found, list) else Spread(float(found), nan)


def shown_on(item: str) -> tuple[str, ...]:
    """The streams that the paper shows an item on."""
    part = paper()[item]
    if item == "table3":
        return tuple(part["auc"]["contig"])
    return tuple(part.get("datasets", paper()["table1"]["datasets"]))
