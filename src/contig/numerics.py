"""The version of the numbers that training and evaluation produce.

Runs are comparable if their config, their events and this version are equal: experiments reuse finished runs
of the same version, and runs record it in ``config.json``. Raise it with every change that alters numbers by
more than rounding. ``tests/test_numerics.py`` notices such changes.
"""

from __future__ import annotations

CHANGES = {
    1: "The first version that is recorded.",
    2: "ConTIG couples a node with all its links (scope near) instead of its latest partner alone. Intervals "
    "are encoded by their logarithm, in units of the median interval of the training events. Historical and "
    "inductive negatives are drawn as DyGLib does. TGAT has two layers.",
}
VERSION = max(CHANGES)
