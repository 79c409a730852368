"""Where recipes are: files in JSON or TOML, and those that come with the package, by name."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from contig.errors import ConfigError, unknown

PACKAGE = Path(__file__).resolve().parents[1]
SUFFIXES = (".json", ".toml")
EXAMPLE = '{"data": "collegemsg", "model": "contig", "settings": {"lr": 0.0003}}'


def packaged_folder() -> Path:
    """Return the folder of the recipes that come with the package: in a wheel, or in the repository."""
    installed = PACKAGE / "recipes"
    return installed if installed.is_dir() else PACKAGE.parents[1] / "configs"


def packaged_recipes() -> dict[str, Path]:
    """Return the recipes that come with the package by name: ``collegemsg``, ``pair/collegemsg``, ...."""
    folder = packaged_folder()
    files = sorted(folder.rglob("*.json"))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in files}


def find_recipe_file(given: str | Path) -> Path:
    """Return the file of a recipe: a path, or the name of one that comes with the package."""
    path, known = Path(given).expanduser(), packaged_recipes()
    if path.exists():
        return path
    if str(given) in known:
        return known[str(given)]
    if path.suffix in SUFFIXES:
        raise ConfigError(f"{path}: no such file. List the recipes of the package with 'contig recipes'.")
    raise ConfigError(f"{unknown('recipe', str(given), known)} Or give a .json or .toml file.")


def load_recipe_file(path: Path) -> Any:
    """Return the content of a recipe's file; raise ``ConfigError`` if it is neither JSON nor TOML."""
    text = read_recipe_text(path)
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise not_a_recipe(path, error) from error


def read_recipe_text(path: Path) -> str:
    """Return the text of a recipe's file."""
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise not_a_recipe(path, error) from error


def not_a_recipe(path: Path, reason: object) -> ConfigError:
    """Return the error for a file with other content."""
    return ConfigError(
        f"{path} is not a recipe ({reason}); write JSON such as {EXAMPLE}, or the same as TOML."
    )
