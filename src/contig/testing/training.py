"""A run of the model can be trained, resumed, reopened and evaluated."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from contig.data.events import EventStream
from contig.data.synthetic import synthetic
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.testing.cases import ModelCase, require
from contig.training.fit import fit, resume

# Split seed 1 holds out nodes such that validation keeps events between known ones, which some models need.
SETTINGS: dict[str, Any] = {"batch_size": 30, "lr": 0.01, "split_seed": 1, "show": False, "device": "cpu"}


def check_training_resumes(case: ModelCase) -> None:
    """Check that resuming is bit-identical to not stopping, and that a reopened run keeps its test result."""
    with tempfile.TemporaryDirectory() as temporary:
        whole, part = Path(temporary) / "whole", Path(temporary) / "part"
        settings = {**SETTINGS, **case.settings}
        run = fit(_stream(), case.model, out=whole, epochs=2, **settings)
        fit(_stream(), case.model, out=part, epochs=1, **settings)
        resumed = resume(part, epochs=2, show=False, device="cpu")
        expected, found = run.model.state_dict(), resumed.model.state_dict()
        for name, value in expected.items():
            require(torch.equal(found[name], value), f"A resumed run ends with other weights: {name}.")
        for name, rows in run.state.rows.items():
            require(torch.equal(resumed.state[name], rows), f"A resumed run ends in another state: {name}.")
        _check_last_weights(whole, part)
        reopened = Run.open(whole, "cpu").evaluate("link", show=False)
        same = reopened.result == run.metrics.result
        require(same, "A reopened run evaluates to other test metrics than the training reported.")


def _check_last_weights(whole: Path, part: Path) -> None:
    """Compare the weights after the last epoch; a run answers by those of the best, which may be earlier."""
    if not RunFolder(whole).has("checkpoint.pt"):
        return
    expected, found = (RunFolder(path).load("checkpoint.pt")["weights"] for path in (whole, part))
    for name, value in expected.items():
        require(
            torch.equal(found[name], value), f"A resumed run's last epoch ends with other weights: {name}."
        )


def _stream() -> EventStream:
    """Return 400 events of which many share a time, so that batches end within ties."""
    drawn = synthetic(400, sources=23, destinations=9, seed=3, edge_features=2)
    return EventStream.from_arrays(
        drawn.src, drawn.dst, drawn.t // 20_000, edge_features=drawn.edge_features, bipartite=True
    )
