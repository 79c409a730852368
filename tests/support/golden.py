"""Golden numbers: one epoch of every built-in model on a small stream, and every task.

``python tests/support/golden.py`` renews ``tests/golden.json``. Raise ``contig.numerics.VERSION`` with it.
"""

from __future__ import annotations

import atexit
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
import torch

from contig.data.events import EventStream
from contig.files import replacing
from contig.models import MODELS, model_class
from contig.numerics import VERSION
from contig.runs.options import TrainOptions
from contig.runs.run import Run
from contig.tasks.link import NegativeKind
from contig.training import loop
from contig.training.fit import fit
from contig.training.session import Session

FILE = Path(__file__).parent.parent / "golden.json"
COMMAND = "python tests/support/golden.py"
STEPS = 2  # the first steps, whose losses are compared one by one

# Dropout is off because torch draws its masks with other generators on other CPUs.
SIZES: dict[str, Any] = {
    "batch_size": 20,
    "channel_dim": 4,
    "dim": 8,
    "dropout": 0.0,
    "evidence_dropout": 0.0,
    "epochs": 1,
    "heads": 2,
    "hidden": 7,
    "length": 6,
    "lr": 0.01,
    "neighbors": 4,
    "passes": 1,
    "sequence": 6,
    "sketch_dim": 7,
    "time_dim": 6,
    "tokens": 5,
    "walks": 3,
    "width": 10,
}
TRAININGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{model: (model, {}) for model in MODELS},
    "contig-all-activity": ("contig", {"scope": "all", "activity": True}),
    "contig-scope-pair": ("contig", {"scope": "pair"}),
    "tgat-one-layer": ("tgat", {"layers": 1, "identity": 5}),
    # with large steps, rounding errors of its large inputs grow into other numbers
    "tpnet": ("tpnet", {"lr": 0.0001, "decay": 0.3}),
}
NODE_FEATURES = ("contig", "tgn", "tgat", "graphsage", "vgae")  # trained on nodes with features
EVALUATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "contig-classify": ("contig", "classify", {"seeds": 2}),
    "contig-recommend-event": ("contig", "recommend", {}),
    "recency-intervals": ("recency", "intervals", {}),
    "recency-recommend-event": ("recency", "recommend", {}),
    "recency-recommend-sampled": ("recency", "recommend", {"candidates": 4}),
    **{f"recency-link-{kind}": ("recency", "link", {"negatives": kind}) for kind in get_args(NegativeKind)},
}
CASES = sorted([*TRAININGS, *(f"{model}-node-features" for model in NODE_FEATURES), *EVALUATIONS])

Numbers = dict[str, float | list[float] | None]


def golden_stream(*, node_features: bool = False) -> EventStream:
    """Return 400 events of 19 sources and 11 destinations with labels and 3 features.

    Sources have favorite destinations, and some have label 1 more often than others. Everything is drawn
    with ``random.random``, whose numbers Python promises to keep.
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
    label = [int(draw() < (0.7 if source % 3 else 0.1)) for source in src]
    stream = EventStream.from_arrays(
        src, dst, t, label=label, edge_features=columns, bipartite=True, origin="golden"
    )
    stream = replace(stream, benchmark=True)  # trained by the protocol of the datasets
    if not node_features:
        return stream
    return stream.with_node_features([[draw() - 0.5, draw()] for _ in range(stream.num_nodes)])


def measure(case: str) -> Numbers:
    """Train or evaluate a case and return the numbers to compare; None where there is none."""
    if case in EVALUATIONS:
        return evaluate(*EVALUATIONS[case])
    model, settings = TRAININGS.get(case) or (case.removesuffix("-node-features"), {})
    stream = golden_stream(node_features=case not in TRAININGS)
    with recorded_losses() as losses, trained(stream, model, settings) as run:
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
def trained(stream: EventStream, model: str, settings: dict[str, Any]) -> Iterator[Run]:
    """Train a small model in a temporary folder."""
    known = {f.name for kind in (model_class(model).options, TrainOptions) for f in fields(kind)}
    sizes = {key: value for key, value in SIZES.items() if key in known}
    with tempfile.TemporaryDirectory() as folder, patch.object(loop, "draw_curve"):
        yield fit(stream, model, out=folder, device="cpu", show=False, **(sizes | settings))


_until_exit = ExitStack()  # removes the folders of the evaluated runs
atexit.register(_until_exit.close)


@cache
def evaluated_run(model: str) -> Run:
    """Train a run that several tasks evaluate, once."""
    return _until_exit.enter_context(trained(golden_stream(), model, {}))


def evaluate(model: str, task: str, options: dict[str, Any]) -> Numbers:
    """Return all metrics of a heuristic, whose scores do not depend on the CPU.

    Of a model that learns, return those of many events: where only a few are measured, two nearly equal
    scores that change places make a large difference.
    """
    run = evaluated_run(model)
    found = flattened(run.evaluate(task, show=False, **options).result.as_dict())
    if not run.model.learns:
        return found
    return {name: found[name] for name in ("transductive.auc", "transductive.mrr") if name in found}


def flattened(content: dict[str, Any], prefix: str = "") -> Numbers:
    """Return the metrics in a result by their path, such as ``inductive.ap``."""
    found: Numbers = {}
    for key, value in content.items():
        if isinstance(value, dict):
            found |= flattened(value, f"{prefix}{key}.")
        elif isinstance(value, float):
            found[f"{prefix}{key}"] = value
    return found


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
    """Write a line for each case, in alphabetical order, so that changes of different cases can be merged."""
    torch.set_num_threads(1)
    lines = [f'"{case}": {json.dumps(measure(case), allow_nan=False)}' for case in CASES]
    head = f'"numerics": {VERSION},\n"torch": "{torch.__version__}",\n"cases": {{\n'
    with replacing(FILE) as part:
        part.write_text("{\n" + head + ",\n".join(lines) + "\n}\n}\n")


if __name__ == "__main__":
    sys.exit(main())
