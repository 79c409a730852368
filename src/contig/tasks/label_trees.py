"""Boosted trees: scikit-learn grows them, and plain arrays keep them.

Arrays can be saved with a run and read again without trusting the file; they predict without scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.errors import RunError
from contig.tasks.metrics import area_under_curve

Floats = NDArray[np.float64]
Columns = NDArray[np.float32]
Flags = NDArray[np.bool_]

ROUNDS = 300  # at most; the number is chosen on the validation events
PATIENCE = 60
ROWS = 4096  # predicted at once: what fits into a cache
SETTINGS: dict[str, Any] = {
    "learning_rate": 0.06,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 20,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}
FIELDS = {
    "feature": torch.int64,
    "threshold": torch.float64,
    "missing_left": torch.bool,
    "left": torch.int64,
    "right": torch.int64,
    "leaf": torch.bool,
    "value": torch.float64,
    "roots": torch.int64,
}


@dataclass(frozen=True, eq=False)
class Trees:
    """The nodes of all trees in arrays; ``roots`` are their first ones, ``base`` is added to every logit."""

    base: float
    width: int
    nodes: Mapping[str, NDArray[Any]]

    @classmethod
    def fit(cls, x: Columns, label: Flags, train: NDArray[np.int64], val: NDArray[np.int64]) -> Trees:
        """Grow trees on the training rows; the AUC of the validation rows says how many are kept."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        # scikit-learn fails on a column without any value; no tree splits a constant one
        x = np.where(np.isnan(x[train]).all(axis=0), np.float32(0), x)
        grown = HistGradientBoostingClassifier(max_iter=ROUNDS, **SETTINGS).fit(x[train], label[train])
        truth, best, kept = label[val], -np.inf, 0
        for number, logits in enumerate(grown.staged_decision_function(x[val]), 1):
            flat = logits.ravel().astype(np.float32)
            reached = area_under_curve(flat[truth], flat[~truth])
            if reached > best:
                best, kept = reached, number
            elif number - kept >= PATIENCE:
                break
        return cls._exported(grown, kept, x[val])

    @classmethod
    def _exported(cls, grown: Any, kept: int, x: Columns) -> Trees:
        trees = [predictors[0].nodes for predictors in grown._predictors[:kept]]
        sizes = np.cumsum([0, *(len(tree) for tree in trees)])
        nodes = np.concatenate(trees)
        shift = np.repeat(sizes[:-1], np.diff(sizes))
        found = cls(
            base=float(np.ravel(grown._baseline_prediction)[0]),
            width=x.shape[1],
            nodes={
                "feature": nodes["feature_idx"].astype(np.int64),
                "threshold": nodes["num_threshold"].astype(np.float64),
                "missing_left": nodes["missing_go_to_left"].astype(bool),
                "left": nodes["left"].astype(np.int64) + shift,
                "right": nodes["right"].astype(np.int64) + shift,
                "leaf": nodes["is_leaf"].astype(bool),
                "value": nodes["value"].astype(np.float64),
                "roots": sizes[:-1],
            },
        )
        for number, logits in enumerate(grown.staged_decision_function(x[:256]), 1):
            if number == kept and not np.allclose(found.logits(x[:256]), logits.ravel(), atol=1e-6):
                raise RunError(
                    "The trees of this version of scikit-learn cannot be read; use another version."
                )
        return found

    def logits(self, x: Columns) -> Floats:
        """Return the logits of rows ``[n, width]``; NaN is a missing value."""
        parts = [self._logits(x[start : start + ROWS]) for start in range(0, len(x), ROWS)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _logits(self, x: Columns) -> Floats:
        n, rows = self.nodes, np.arange(len(x))
        total = np.full(len(x), self.base)
        for root in n["roots"]:
            node = np.full(len(x), root)
            while not (leaf := n["leaf"][node]).all():
                value = x[rows, np.where(leaf, 0, n["feature"][node])]
                missing = np.isnan(value)
                left = np.where(missing, n["missing_left"][node], value <= n["threshold"][node])
                node = np.where(leaf, node, np.where(left, n["left"][node], n["right"][node]))
            total += n["value"][node]
        return total

    def content(self) -> dict[str, Any]:
        """Return the trees as tensors, to save."""
        nodes = {name: torch.from_numpy(np.array(values)) for name, values in self.nodes.items()}
        return {"base": self.base, "width": self.width, "nodes": nodes}

    @classmethod
    def from_content(cls, content: Any) -> Trees:
        """Build the trees of ``content``; raise ``ValueError`` where walking them could fail."""
        base, width, nodes = float(content["base"]), int(content["width"]), content["nodes"]
        for name, kind in FIELDS.items():
            if not isinstance(nodes[name], Tensor) or nodes[name].dtype != kind or nodes[name].ndim != 1:
                raise ValueError(f"trees.{name} is not a column of {kind}")
        size = len(nodes["leaf"])
        inner = ~nodes["leaf"]
        ranges = {"feature": (inner, width), "left": (inner, size), "right": (inner, size)}
        ranges["roots"] = (torch.ones_like(nodes["roots"], dtype=torch.bool), size)
        for name, (which, end) in ranges.items():
            values = nodes[name][which]
            if len(values) and not (int(values.min()) >= 0 and int(values.max()) < end):
                raise ValueError(f"trees.{name} is not in 0..{end}")
        own = torch.arange(size)[inner]
        if bool((nodes["left"][inner] <= own).any()) or bool((nodes["right"][inner] <= own).any()):
            raise ValueError("trees do not end")
        return cls(base, width, {name: nodes[name].numpy() for name in FIELDS})
