"""The identity of a run: its config, its events and the version of the numerics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from glob import escape
from pathlib import Path

from contig import numerics
from contig.experiments.recipes import Recipe
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder

KEY_DIGITS = 8  # hexadecimal digits of the key in a folder's name


def run_key(recipe: Recipe, seed: int) -> str:
    """Return a checksum of the events and of all settings that differ from the defaults.

    Defaults do not count, so that a new option does not change the key of earlier runs.
    """
    chosen, defaults = recipe.config(seed).as_dict(), RunConfig.of(recipe.model, {}).as_dict()
    for config in (chosen, defaults):
        if config["train"]["holdout"] == "auto":  # recipes of a user's own data name another one
            config["train"]["holdout"] = "tgn"
    changed = {
        part: {key: value for key, value in chosen[part].items() if value != defaults[part][key]}
        for part in ("options", "train")
    }
    content = json.dumps([recipe.model, changed, recipe.fingerprint], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:KEY_DIGITS]


def run_folder(recipe: Recipe, seed: int, runs: Path, any_numerics: bool = False) -> Path:
    """Return the folder of a run in ``runs``; other settings, events or numerics mean another folder.

    With ``any_numerics``, a run that is not finished in this version of the numerics is replaced by the
    latest finished one of another version.
    """
    folder = runs / f"{recipe.stem}-{seed}-{run_key(recipe, seed)}-v{numerics.VERSION}"
    if not any_numerics or RunFolder(folder).is_finished:
        return folder
    others = finished_with_any_numerics(folder)
    return max(others, key=lambda other: (other / "metrics.json").stat().st_mtime, default=folder)


def numerics_of(folder: Path) -> str:
    """Return the version of the numerics from the name of a run's folder, such as ``v1``."""
    return folder.name.rpartition("-")[2]


def finished_otherwise(folder: Path, wanted: Collection[Path] = ()) -> list[Path]:
    """Return the finished runs of a recipe and seed with other events or settings, except ``wanted``."""
    *stem, key, _ = folder.name.split("-")
    others = folder.parent.glob(f"{escape('-'.join(stem))}-*-*/")
    keys = ((other, other.name.split("-")) for other in others)
    same = (other for other, parts in keys if parts[:-2] == stem and parts[-2] != key)
    return [other for other in same if other not in wanted and RunFolder(other).is_finished]


def finished_with_any_numerics(folder: Path) -> list[Path]:
    """Return the finished runs that differ from a run in nothing but the version of the numerics."""
    stem = folder.name.rpartition("-")[0]
    return [other for other in folder.parent.glob(f"{stem}-*/") if RunFolder(other).is_finished]
