"""Replacing a run by another one: a process that is killed leaves the old run or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contig.files import disk_errors, is_leftover, link_or_copy
from contig.locks import LOCK
from contig.runs.checksums import FILE as CHECKSUMS
from contig.runs.exchange import exchange, former_folder
from contig.runs.folder import RUN_FILES, RUN_FOLDERS, RunFolder


def draft_folder(run: Path) -> Path:
    """Return the folder in which the successor of a run is trained, next to it."""
    run = run.absolute()  # "." has no name
    return run.parent / f".{run.name}.refit"


@contextmanager
def replaced(run: RunFolder) -> Iterator[RunFolder]:
    """Yield a folder, locked, whose run takes the place of this one if the block ends without an error.

    Other files in the folder are kept. Nobody else can write to the run meanwhile; anybody can read it.
    """
    path = run.path.resolve()
    with run.locked(), disk_errors(path):
        draft = RunFolder(draft_folder(path))
        for left in (draft.path, former_folder(path)):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            with draft.locked():
                yield draft
                _link_other_files(path, draft.path)
                exchange(path, draft.path)
                (path / LOCK).unlink()  # the draft's, which is held until here
        finally:
            shutil.rmtree(draft.path, ignore_errors=True)


def _link_other_files(source: Path, target: Path) -> None:
    """Add what does not belong to the run itself."""
    own = {"config.json", CHECKSUMS, LOCK, *RUN_FILES, *RUN_FOLDERS}
    for path in source.iterdir():
        if path.name in own or is_leftover(path):
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name, copy_function=link_or_copy, symlinks=True)
        else:
            link_or_copy(str(path), str(target / path.name))
