"""The trained run of a live folder: a copy, so that later trainings and updates do not change it."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from pathlib import Path

from contig.errors import DiskError
from contig.files import disk_errors, link_or_copy, sha256, sync, sync_tree
from contig.runs.folder import RunFolder

FOLDER = "run"
LEFT_OUT = ("checkpoint.pt", "best.pt", "evaluations", "tensorboard", "curve.png", ".lock")


def fingerprint(run: Path) -> str:
    """Return a checksum of what a run answers from."""
    names = ("config.json", "serving.pt", "observed.pt")
    return "-".join(sha256(run / name)[:16] if (run / name).exists() else "none" for name in names)


def copy_run(run: Path, folder: Path) -> None:
    """Copy a finished run into a live folder; files are shared with the original where the disk allows it.

    A run's files are replaced, never written to, so a shared one keeps its content.
    """
    source = RunFolder(run)
    source.manifest()  # says so if this is not a run
    source.require_finished("serve it")
    draft = folder / f".{FOLDER}"
    shutil.rmtree(draft, ignore_errors=True)
    # Nobody changes a run on a read-only disk, and nobody can lock it.
    with source.locked() if os.access(run, os.W_OK) else nullcontext():
        _copy(run, draft)
    with disk_errors(folder):
        sync_tree(draft)
        draft.replace(folder / FOLDER)
        sync(folder)


def _copy(run: Path, draft: Path) -> None:
    try:
        shutil.copytree(run, draft, ignore=shutil.ignore_patterns(*LEFT_OUT), copy_function=link_or_copy)
    except shutil.Error as error:  # everything that failed; the first of it says enough
        source, target, reason = error.args[0][0]
        raise DiskError(f"{source} could not be copied to {target}: {reason}") from None
