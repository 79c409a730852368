"""Golden numbers: one epoch of every built-in model on a small stream.

``python tests/support/golden.py`` renews ``tests/golden.json``. Raise ``contig.numerics.VERSION`` with it.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from math import isnan
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from contig.data.events import EventStream
from contig.files import write_json
from contig.models import MODELS, model_class
from contig.numerics import VERSION
from contig.runs.options import TrainOptions
from contig.training import loop
from contig.training.fit import fit
from contig.training.session import Session

FILE = Path(__file__).parent.parent / "golden.json"
COMMAND = "python tests/support/golden.py"
STEPS = 2  # the first steps, whose losses are compared one by one

# Dropout is off because torch draws its masks with other generators on other CPUs.
SIZES: dict[str, Any] = {
    "batch_size": 20,
    "dim": 8,
    "dropout": 0.0,
    "epochs": 1,
    "heads": 2,
    "hidden": 7,
    "length": 6,
    "lr": 0.01,
    "neighbors": 4,
    "passes": 1,
    "time_dim": 6,
    "walks": 3,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{model: (model, {}) for model in MODELS},
    "contig-all-activity": ("contig", {"scope": "all", "activity": True}),
    "tgat-two-layers": ("tgat", {"layers": 2, "identity": 5}),
}

Numbers = dict[str, float | list[float] | None]


def golden_stream() -> EventStream:
    """Return 400 events of 19 sources and 11 destinations with 3 features; sources have favorites.

    Drawn with ``random.random``, whose numbers Python promises to keep.
    """
    draw = random.Random(5).random
    src, dst, features = [], [], []
    for _ in range(400):
        source = int(19 * draw() ** 2)
        favorite = (3 * source) % 11
        target = favorite if draw() < 0.6 else int(11 * draw())
        src.append(source)
        dst.append(target)
        features.append([draw() + (target == favorite), draw(), draw() - 0.5])
    t = np.cumsum([int(4 * draw()) for _ in src])  # with ties
    columns = np.array(features, dtype=np.float32)
    return EventStream.from_arrays(src, dst, t, edge_features=columns, bipartite=True, origin="golden")


def measure(case: str) -> Numbers:
    """Train a case and return the numbers to compare; None where there is none."""
    model, settings = CASES[case]
    known = {f.name for kind in (model_class(model).options, TrainOptions) for f in fields(kind)}
    sizes = {key: value for key, value in SIZES.items() if key in known}
    with (
        tempfile.TemporaryDirectory() as folder,
        recorded_losses() as losses,
        patch.object(loop, "draw_curve"),
    ):
        run = fit(golden_stream(), model, out=folder, device="cpu", show=False, **sizes, **settings)
        metrics = run.metrics
        ranks = run.evaluate("recommend", as_of="batch", show=False).result
    [epoch] = metrics.epochs
    scores = {
        "loss": epoch.loss,
        "validation_ap": epoch.val_ap,
        "test_ap": metrics.transductive.ap,
        "test_ap_inductive": metrics.inductive.ap,
        "mrr": ranks.transductive.mrr,
    }
    return {"first_losses": losses[:STEPS], **{k: None if isnan(x) else x for k, x in scores.items()}}


@contextmanager
def recorded_losses() -> Iterator[list[float]]:
    """Collect the loss of every training step."""
    losses: list[float] = []
    step = Session.train_step

    def recorded(session: Session) -> torch.Tensor:
        loss = step(session)
        losses.append(float(loss))
        return loss

    with patch.object(Session, "train_step", recorded):
        yield losses


def main() -> None:
    torch.set_num_threads(1)
    numbers = {case: measure(case) for case in CASES}
    write_json(FILE, {"numerics": VERSION, "torch": torch.__version__, "cases": numbers})


if __name__ == "__main__":
    sys.exit(main())
