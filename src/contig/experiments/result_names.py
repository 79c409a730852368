"""The names of stored evaluations: the task and its options, with files named by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from contig.files import expanded, sha256
from contig.options import names_file
from contig.tasks.registry import task_class

DIGITS = 16  # hexadecimal digits of a checksum in a name
MOST_BYTES = 235  # of a name: file systems allow 255, and a temporary file has two dots and endings more


def result_name(task: str, options: Mapping[str, Any], folder: Path) -> str:
    """Return the name of a task's result in ``folder``, without its extension.

    A file among the options counts by its content, so a changed file means another result. Older results are
    named by the paths of their files; such a result is used while the files have not changed since. A name
    that is too long for a file ends with its checksum instead.
    """
    by_path = _name(task, options)
    files = _files(task, options)
    if not files or _is_current(folder / f"{by_path}.json", files):
        return by_path
    return _name(task, {**options, **{name: _content_key(path) for name, path in files.items()}})


def _name(task: str, options: Mapping[str, Any]) -> str:
    # A value may be a path, the name of a file may not.
    given = (f"{name}={quote(str(value), safe=' ')}" for name, value in sorted(options.items()))
    name = "-".join([task, *given])
    if len(encoded := name.encode()) <= MOST_BYTES:
        return name
    start = encoded[: MOST_BYTES - DIGITS - 1].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(encoded).hexdigest()[:DIGITS]}"


def _files(task: str, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files that exist among the options; the evaluation itself reports a missing one."""
    paths = {
        name: expanded(value)
        for name, value in options.items()
        if isinstance(value, str | Path) and names_file(task_class(task).options, name)
    }
    return {name: path for name, path in paths.items() if path.is_file()}


def _is_current(result: Path, files: Mapping[str, Path]) -> bool:
    """Return whether a result was stored after the last change of the files."""
    if not result.exists():
        return False
    stored = result.stat().st_mtime_ns
    # The time of the last status change as well: replacing a file may keep its time of modification.
    found = [path.stat() for path in files.values()]
    return all(max(one.st_mtime_ns, one.st_ctime_ns) < stored for one in found)


def _content_key(path: Path) -> str:
    found = path.stat()
    return f"{path.name}-{_checksum(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)}"


@lru_cache(maxsize=64)
def _checksum(path: Path, *_version: int) -> str:
    """Return a checksum, computed once for each version of a file: such files can be large."""
    return sha256(path)[:DIGITS]
