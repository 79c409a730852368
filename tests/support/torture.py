"""Run the hostile suite at a chosen scale and print its figures: ``make torture``."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import torch

from support import hostile, hostile_commands, hostile_live
from support.hostile import GOOD, Reference, count
from support.hostile_commands import Workplace
from support.hostile_live import LiveReference

# Attacks of the full scale.
FULL = {
    "damaged_input": 20_000,
    "damaged_run": 2_000,
    "damaged_history": 500,
    "killed": 200,
    "killed_update": 200,
    "two_at_once": 50,
    "two_resumes": 20,
    "small_files": 50,
    "full_disk": 30,
    "read_only": 3,
    "homeless": 2,
    "read_only_image": 2,
    "hostile_command": 1_000,
    "disturbed_command": 60,
    "live_killed": 200,
    "live_damaged": 500,
    "live_full_disk": 30,
    "live_small_files": 30,
    "live_two_engines": 5,
}
PROGRESS_SECONDS = 10
MOUNTED = ("full_disk", "read_only", "live_full_disk", "disturbed_command")


def main() -> None:
    """Print how every attack ended; exit with 1 if any ended badly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of attacks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="comma-separated attacks")
    parser.add_argument("--out", type=Path, help="also write the figures to this JSON file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("contig").setLevel(logging.ERROR)
    names = given.only.split(",") if given.only else list(FULL)
    figures = {}
    with tempfile.TemporaryDirectory(prefix="contig-torture-") as folder:
        reference, attacked = Reference(Path(folder) / "reference"), Path(folder) / "attacked"
        attacked.mkdir()
        seconds = _duration(reference)
        for name in names:
            if name in MOUNTED and not hostile.can_mount():
                print(f"{name:<16} skipped: this user may not mount disks", flush=True)
                continue
            if name == "read_only_image" and not hostile.can_make_image():
                print(f"{name:<16} skipped: this user may not create namespaces", flush=True)
                continue
            figures[name] = _run(name, reference, attacked, seconds, given.scale, given.seed)
    if given.out is not None:
        given.out.write_text(json.dumps(figures, indent=2) + "\n")
    if any(end not in GOOD for ends in figures.values() for end in ends):
        sys.exit(1)


def _duration(reference: Reference) -> float:
    """Return the seconds that a training takes, once everything is compiled."""
    with hostile.fast_training():
        reference.run(0)
        begun = time.perf_counter()
        reference.run(1)
    return time.perf_counter() - begun


@cache
def _workplace(folder: Path) -> Workplace:
    return Workplace(folder / "workplace")


@cache
def _live_reference(folder: Path) -> LiveReference:
    return LiveReference(folder / "live-reference")


def _run(
    name: str, reference: Reference, folder: Path, seconds: float, scale: float, seed: int
) -> dict[str, int]:
    arguments: dict[str, list[Any]] = {
        name: [folder] for name in ("damaged_input", "homeless", "read_only_image")
    }
    arguments["hostile_command"] = [_workplace(folder.parent), folder]
    live = name.startswith("live_")
    given = arguments.get(name, [_live_reference(folder.parent) if live else reference, folder])
    if name in ("killed", "two_resumes"):
        given = [*given, seconds]
    if name == "killed_update":
        given = [*given, hostile.UPDATE_SECONDS]
    attacks, begun = max(1, round(FULL[name] * scale)), time.perf_counter()
    progress = Progress(name, attacks)
    module = next(one for one in (hostile, hostile_live, hostile_commands) if hasattr(one, name))
    ends = count(getattr(module, name), attacks, seed, *given, show=progress.show)
    took = time.perf_counter() - begun
    print(
        f"{name:<17} {attacks:>7,} in {took:,.0f} s ({1000 * took / attacks:,.0f} ms each): {_shown(ends)}",
        flush=True,
    )
    return dict(ends)


class Progress:
    """Prints how far a kind of attack is, at most once in ten seconds, and every new bad end at once."""

    def __init__(self, name: str, attacks: int) -> None:
        self.name, self.attacks = name, attacks
        self.last, self.bad = time.perf_counter(), set[str]()

    def show(self, done: int, ends: Counter[str]) -> None:
        for end in set(ends) - GOOD - self.bad:
            print(f"  {self.name} attack {done:,}: {end}", flush=True)
            self.bad.add(end)
        if time.perf_counter() - self.last > PROGRESS_SECONDS and done < self.attacks:
            print(f"  {self.name} {done:,} of {self.attacks:,}, {len(self.bad):,} bad", flush=True)
            self.last = time.perf_counter()


def _shown(ends: Counter[str]) -> str:
    bad = sum(number for end, number in ends.items() if end not in GOOD)
    good = ", ".join(f"{number:,} {end}" for end, number in ends.most_common() if end in GOOD)
    return f"{good}; {bad:,} bad"


if __name__ == "__main__":
    main()
