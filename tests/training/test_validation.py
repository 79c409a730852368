"""The metric that chooses the best epoch."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from support.trained import bit_identical, load_saved, train_tiny
from torch import Tensor, nn

import contig
from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.errors import RunError
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.ranking import sample_negatives
from contig.tasks.results import LinkMetrics, Selections
from contig.training import validation
from contig.training.fit import fit, resume
from contig.training.progress import read_progress


def script_metrics(patch: pytest.MonkeyPatch, rows: list[tuple[float, float, float]]) -> None:
    """Let validation report AP, AUC and inductive AP, one row after another."""
    scripted = iter(rows)

    def report(*_: Any, **__: Any) -> Selections[LinkMetrics]:
        ap, auc, inductive = next(scripted)
        every, new = LinkMetrics(ap=ap, auc=auc, events=9), LinkMetrics(ap=inductive, auc=0.5, events=4)
        return Selections(transductive=every, inductive=new, old_old=every, new_old=new, new_new=new)

    patch.setattr(validation, "link_report", report)


@pytest.mark.parametrize(
    ("monitor", "best", "trained"), [("ap", 1, 3), ("auc", 2, 4), ("inductive-ap", 3, 4)]
)
def test_the_monitored_metric_decides(
    monitor: str,
    best: int,
    trained: int,
    stream: EventStream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script_metrics(monkeypatch, [(0.9, 0.5, 0.5), (0.8, 0.7, 0.6), (0.7, 0.6, 0.8), (0.6, 0.5, 0.7)])
    run = train_tiny(stream, tmp_path / "run", epochs=4, patience=2, monitor=monitor)
    assert run.metrics.best_epoch == load_saved(tmp_path / "run", "best.pt")["epoch"] == best
    assert len(run.metrics.epochs) == trained


@dataclass(frozen=True)
class ByNumberOptions:
    pass


class ByNumber(contig.Model):
    """Prefer destinations with small numbers, whatever is learned."""

    name = "by-number"
    options = ByNumberOptions

    def __init__(self, options: ByNumberOptions, data: contig.DataShape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def embed(self, state: Any, history: Any, nodes: Tensor, times: Tensor, as_of: Tensor) -> Tensor:
        return nodes.float().unsqueeze(1)

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        return 0.0 * self.weight - dst[..., 0]


def test_mrr_is_that_of_the_sampled_candidates(stream: EventStream, tmp_path: Path) -> None:
    run = fit(stream, ByNumber, out=tmp_path / "run", show=False, epochs=1, batch_size=30, monitor="mrr")
    split = chronological_split(stream)
    sampled = sample_negatives(stream, split, split.val, 20)
    ahead = [
        sum(0 <= one < stream.dst[event] for one in row)
        for event, row in zip(split.val, sampled, strict=True)
    ]
    assert 0 < np.mean(ahead) < 5
    assert run.metrics.epochs[0].val_mrr == pytest.approx(np.mean([1 / (1 + count) for count in ahead]))


def test_the_ap_among_known_pairs_is_that_of_historical_negatives(
    stream: EventStream, tmp_path: Path
) -> None:
    run = fit(
        stream, ByNumber, out=tmp_path / "run", show=False, epochs=1, batch_size=30, monitor="historical-ap"
    )
    split = chronological_split(stream)
    negative = draw_negatives(stream, split, split.val, "historical").ours
    expected = [
        average_precision_score([1] * len(dst) + [0] * len(dst), [*-dst, *-wrong])
        for dst, wrong in (
            (stream.dst[split.val[at : at + 30]], negative.dst[at : at + 30])
            for at in range(0, len(split.val), 30)
        )
    ]
    assert (negative.src != stream.src[split.val]).any()
    assert run.metrics.epochs[0].val_ap_historical == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(("monitor", "metric"), [("mrr", "val_mrr"), ("historical-ap", "val_ap_historical")])
def test_more_metrics_do_not_disturb_the_training(
    monitor: str, metric: str, stream: EventStream, tmp_path: Path
) -> None:
    by_ap = train_tiny(stream, tmp_path / "ap", epochs=2)
    by_other = train_tiny(stream, tmp_path / "other", epochs=2, monitor=monitor)
    assert all(isnan(getattr(row, metric)) for row in by_ap.metrics.epochs)
    assert [row.val_ap for row in by_ap.metrics.epochs] == [row.val_ap for row in by_other.metrics.epochs]
    left, right = (load_saved(tmp_path / name, "checkpoint.pt") for name in ("ap", "other"))
    assert bit_identical(left["weights"], right["weights"])
    assert bit_identical(left["state"], right["state"])
    values = [getattr(row, metric) for row in by_other.metrics.epochs]
    assert by_other.metrics.best_epoch == 1 + int(np.argmax(values))


def test_inductive_ap_needs_new_nodes(tmp_path: Path) -> None:
    n = np.arange(400)
    stream = EventStream.from_arrays(n % 7, 10 + n % 5, n, origin="old nodes")
    with pytest.raises(RunError, match=r"old nodes: no validation event has a new node.*monitor=ap"):
        train_tiny(stream, tmp_path / "run", monitor="inductive-ap")
    with pytest.raises(RunError, match="ctdne cannot score new nodes; use monitor=ap"):
        fit(stream, "ctdne", out=tmp_path / "ctdne", show=False, monitor="inductive-ap", epochs=1)


def test_a_checkpoint_with_the_former_name_of_the_best_value(stream: EventStream, tmp_path: Path) -> None:
    train_tiny(stream, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.pt"
    saved = torch.load(path, weights_only=True)
    saved["progress"]["best_ap"] = saved["progress"].pop("best_value")
    progress = read_progress(saved["progress"], 10**6, path)
    assert progress.best_value == saved["progress"]["best_ap"]
    with pytest.raises(contig.ConfigError, match="monitor cannot change"):
        resume(tmp_path / "run", monitor="auc")
