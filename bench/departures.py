"""What each choice in ConTIG costs: one training step of every variant, against the default's.

    python bench/departures.py [--data collegemsg] [--rounds 12] [--device auto] [--json]

Variants are those of ``configs/departures.json``. Rounds are interleaved, so that whatever else the
machine does falls on all variants alike; the figure is the fastest round of each.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from contig.data.datasets import open_stream
from contig.experiments.recipes import read_recipes
from contig.kernels.devices import hardware, pick_device
from contig.runs.config import RunConfig
from contig.training.preparation import prepare
from contig.training.session import Session

RECIPES = Path(__file__).parent.parent / "configs" / "departures.json"
WARM_UP, STEPS = 20, 5


def measure(data: str, device: torch.device, rounds: int) -> dict[str, float]:
    """Seconds per training step by variant."""
    stream = open_stream(data)
    sessions = {}
    for recipe in read_recipes(RECIPES):
        config = RunConfig.of(recipe.model, recipe.settings)
        session = Session(prepare(stream, config, device), config)
        _advance(session, WARM_UP)
        sessions[recipe.variant] = session
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(rounds):
        for name, session in sessions.items():
            best[name] = min(best[name], _time(session, device))
    return best


def _time(session: Session, device: torch.device) -> float:
    begun = time.perf_counter()
    _advance(session, STEPS)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begun) / STEPS


def _advance(session: Session, steps: int) -> None:
    for _ in range(steps):
        if session.progress.step in (0, len(session.steps)):
            session.begin_epoch()
        session.train_step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    device = pick_device(given.device)
    seconds = measure(given.data, device, given.rounds)
    default = next(iter(seconds.values()))
    if given.json:
        print(json.dumps({name: {"ratio": s / default} for name, s in seconds.items()}, indent=2))
        return
    table = Table("variant", "step, times the default's", title=f"{given.data}, {hardware(device)}")
    for name, spent in seconds.items():
        table.add_row(name, f"{spent / default:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
