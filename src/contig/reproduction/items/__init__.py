"""The tables and figures of the paper, one module each."""

from __future__ import annotations

from collections.abc import Sequence

from contig.errors import ConfigError, unknown
from contig.reproduction.items.base import Item
from contig.reproduction.items.fig3 import Fig3
from contig.reproduction.items.fig4 import Fig4
from contig.reproduction.items.fig5 import Fig5
from contig.reproduction.items.fig6 import Fig6
from contig.reproduction.items.table2 import Table2
from contig.reproduction.items.table3 import Table3
from contig.reproduction.items.table4 import Table4

ITEMS: tuple[Item, ...] = (  # in the order they are shown
    Table2(),
    Table3(),
    Table4(),
    Fig3(),
    Fig4(),
    Fig5(),
    Fig6(),
)
NAMES = tuple(item.name for item in ITEMS)


def choose_items(names: Sequence[str], quick: bool = False) -> tuple[Item, ...]:
    """Return items by name, in the paper's order; ``all`` means every one."""
    for name in names:
        if name not in (*NAMES, "all"):
            raise ConfigError(unknown("table or figure", name, (*NAMES, "all")))
    chosen = [item for item in ITEMS if item.name in names or "all" in names]
    return tuple(item.quick() if quick else item for item in chosen)
