"""How large a study is: the paper's experiments, or a smoke test of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scale:
    """What holds for every table and figure of a study; each adds limits of its own."""

    seeds: int  # by default
    settings: Mapping[str, Any] = field(default_factory=dict)  # of every model that has these options
    events: int | None = None  # at most, of each dataset
    warning: str = ""  # shown with every result

    @property
    def quick(self) -> bool:
        return bool(self.warning)


# every model of a table may train for as long, and waits as long for a better epoch
FULL = Scale(seeds=3, settings={"epochs": 50, "patience": 5})
QUICK = Scale(
    seeds=1,
    settings={"epochs": 4, "patience": 10, "dim": 32, "time_dim": 32, "neighbors": 5},
    events=6000,  # fewer of wikipedia would have too few positive labels for Table 3
    warning="QUICK: a smoke test on the first 6,000 events of each dataset, with 4 epochs and dimension 32. "
    "Its numbers do not reproduce the paper.",
)
