"""Which run is which: known by its config, its events and the code that trains it."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from contig import __version__
from contig.experiments.recipes import Recipe
from contig.runs.config import RunConfig

SHORT = 8  # hexadecimal digits in a folder's name

# Imports point one way, so what these hold decides no number of a training or an evaluation.
APART = ("plots", "experiments", "reproduction", "benchmarks", "live", "testing", "cli")


@cache
def code_version(package: Path = Path(__file__).parents[1]) -> str:
    """The package's version and a checksum of every source file that decides a run's numbers.

    A changed comment counts as a change: better a run too many than one of unknown code.
    """
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in APART:
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n"))
    return f"{__version__}-{digest.hexdigest()[:SHORT]}"


def run_key(recipe: Recipe, seed: int) -> str:
    """What a run is of, whatever the code: its events, and its settings where they are not the defaults.

    So an option that is new changes nothing for the runs that were made without it.
    """
    ours, plain = recipe.config(seed).as_dict(), RunConfig.of(recipe.model, {}).as_dict()
    chosen = {
        part: {key: value for key, value in ours[part].items() if value != plain[part][key]}
        for part in ("options", "train")
    }
    content = json.dumps([recipe.model, chosen, recipe.fingerprint], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:SHORT]


def run_folder(recipe: Recipe, seed: int, runs: Path, any_code: bool = False) -> Path:
    """Where a run is kept: changed config, events or code mean another folder.

    ``any_code`` takes a finished run of other code, the latest, where this code has none.
    """
    stem = f"{recipe.stem}-{seed}-{run_key(recipe, seed)}"
    ours = runs / f"{stem}-{code_version().rpartition('-')[2]}"
    if not any_code or (ours / "metrics.json").exists():
        return ours
    others = finished_by_any_code(ours)
    return max(others, key=lambda folder: (folder / "metrics.json").stat().st_mtime, default=ours)


def code_of(folder: Path) -> str:
    """The checksum of the code that a run was made by."""
    return folder.name.rpartition("-")[2]


def finished_by_any_code(folder: Path) -> list[Path]:
    """The finished runs that differ from a run's in nothing but their code."""
    stem = folder.name.rpartition("-")[0]
    return [other for other in folder.parent.glob(f"{stem}-*/") if (other / "metrics.json").exists()]
