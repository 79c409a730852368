"""At which time candidates must stand to be ranked: what each choice costs, and what is left of the MRR.

    python bench/ranking.py [RUN ...] [--events 600] [--device auto] [--json]

The first test events of a run are ranked among all destinations with every embedding at the event's own
time (``event``), at that of the batch's first event (``batch``), and with the sources at the former and the
candidates at the latter (``mixed``, which no task offers). Without a run a small one is trained.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.kernels.devices import hardware
from contig.models import EventBatch, NodeState
from contig.runs.run import Run
from contig.tasks.metrics import rank_metrics
from contig.tasks.recommend import Ranker
from contig.training.fit import fit


class Mixed(Ranker):
    """Sources at their events' times, candidates at that of the batch's first."""

    def _logits(self, batch: EventBatch, candidates: Tensor) -> Tensor:
        nodes, first = torch.cat([batch.src, candidates]), batch.t[0]
        times = torch.cat([batch.t, first.expand(len(candidates))])
        embedded = self.model.embed(self.state, self.history, nodes, times, first)
        return self.model.score_all(embedded[: len(batch.src)], embedded[len(batch.src) :])


def measure(run: Run, count: int) -> dict[str, dict[str, float]]:
    """MRR and seconds per 1,000 events, by choice."""
    train, device = run.config.train, run.history.device
    split = chronological_split(run.stream, holdout=train.holdout, seed=train.split_seed)
    events = split.test[:count]
    negatives = Negatives(run.stream, events=events, device=device)
    found = {}
    for name, kind in (("event", Ranker), ("batch", Ranker), ("mixed", Mixed)):
        if name == "mixed" and not run.model.learns:
            continue
        state = NodeState(run.model.blank(), run.stream.num_nodes, device)
        state.restore(run.folder.load("best.pt")["state"])
        how: Any = "event" if name == "mixed" else name
        ranker = kind(run.model, state, run.history, train.batch_size, negatives, how)
        begun = time.perf_counter()
        metrics = rank_metrics(ranker(np.asarray(events)))
        spent = time.perf_counter() - begun
        found[name] = {"mrr": metrics.mrr, "seconds_per_1000": 1000 * spent / len(events)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--events", type=int, default=600)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    small: dict[str, Any] = {"epochs": 1, "dim": 32, "time_dim": 32}
    runs = [Run.open(path, given.device) for path in given.runs]
    runs = runs or [fit("collegemsg", device=given.device, show=False, **small)]
    found = {str(run.path): measure(run, given.events) for run in runs}
    if given.json:
        print(json.dumps(found, indent=2))
        return
    table = Table(
        "run", "model", "times", "MRR, %", "s per 1,000 events", title=hardware(runs[0].history.device)
    )
    for run in runs:
        for name, row in found[str(run.path)].items():
            cells = (f"{100 * row['mrr']:.2f}", f"{row['seconds_per_1000']:.2f}")
            table.add_row(run.path.name, run.config.model, name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
