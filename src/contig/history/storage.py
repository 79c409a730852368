"""Save named arrays to a folder, and load or map them again.

``history.json`` names the files that count and is replaced last, so the folder holds the old arrays
until the new ones are complete.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contig.data.columns import Array
from contig.errors import DataError
from contig.files import disk_errors, sha256, write_json

HEAD = "history.json"
_FILE = re.compile(r"[a-z_.]+\.[0-9a-f]{8}\.npy")  # array name, edition: a plain name that only we give


def save_arrays(folder: Path, arrays: Mapping[str, Tensor]) -> None:
    """Write arrays to a folder and remove those that it held before."""
    with disk_errors(folder):
        _save(folder, arrays)


def _save(folder: Path, arrays: Mapping[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    outdated = _files_to_replace(folder)
    edition = secrets.token_hex(4)
    files = {name: f"{name}.{edition}.npy" for name in arrays}
    try:
        for name, file in files.items():
            np.save(folder / file, arrays[name].cpu().numpy())
        checksums = {name: sha256(folder / file) for name, file in files.items()}
        write_json(folder / HEAD, {"files": files, "checksums": checksums})
    except BaseException:
        _remove(folder, files.values())
        raise
    _remove(folder, outdated)


def load_arrays(folder: Path, *, mapped: bool) -> dict[str, Tensor]:
    """Read the arrays of a folder, or map them into memory copy-on-write."""
    try:
        content = json.loads((folder / HEAD).read_text("utf-8"))
        files = _listed_files(folder, content)
        if "checksums" in content:  # older histories have none
            _verify(folder, files, content["checksums"])
        return {name: _load_array(folder / file, mapped) for name, file in files.items()}
    except DataError:
        raise
    except Exception as error:  # numpy raises whatever its parser of a damaged header raises
        raise DataError(
            f"{folder} does not contain a complete saved history ({error}); save it again."
        ) from error


def _verify(folder: Path, files: Mapping[str, str], checksums: Mapping[str, str]) -> None:
    for name, file in files.items():
        if sha256(folder / file) != checksums[name]:
            raise DataError(f"{folder / file} is damaged: its checksum differs; save the history again.")


def _load_array(path: Path, mapped: bool) -> Tensor:
    # not np.load, which opens zip archives and pickles as well
    if mapped:
        array: Array = np.lib.format.open_memmap(path, mode="c")
    else:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    return torch.from_numpy(array)


def _files_to_replace(folder: Path) -> list[str]:
    """Return the files of what is saved in a folder; none if no list of them is readable."""
    try:
        content = json.loads((folder / HEAD).read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return list(_listed_files(folder, content).values())


def _listed_files(folder: Path, content: Any) -> dict[str, str]:
    """Return the files that ``history.json`` names; raise ``DataError`` unless all are of this folder."""
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict):
        raise DataError(
            f"{folder / HEAD} lists no files, so it does not belong to a saved history; remove it."
        )
    for file in files.values():
        if not isinstance(file, str) or not _FILE.fullmatch(file):
            raise DataError(
                f"{folder / HEAD} names {file!r}, which is not a file of a saved history; remove it."
            )
    return files


def _remove(folder: Path, files: Iterable[str]) -> None:
    for file in files:
        (folder / file).unlink(missing_ok=True)
