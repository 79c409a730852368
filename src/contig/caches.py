"""Where downloads and compiled code are kept, also for users without a home."""

from __future__ import annotations

import getpass
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from contig.errors import DiskError
from contig.files import expanded

log = logging.getLogger("contig")


def cache_folder() -> Path:
    """Return the folder for downloads and compiled code.

    That is ``$CONTIG_CACHE``, or ``contig`` in the cache folder of the platform. Where that cannot be written
    to, as in a container without a home, it is a temporary folder, with a notice.
    """
    own = os.environ.get("CONTIG_CACHE")
    if own:
        return expanded(own)
    platform = _platform_folder()
    return platform if platform is not None and is_writable(platform) else _temporary_folder()


def writable_cache_folder(name: str) -> Path:
    """Create a folder in the cache folder; refuse one that cannot be written to."""
    folder = cache_folder() / name
    if not is_writable(folder):
        raise DiskError(
            f"{folder}: this user cannot write to it; set CONTIG_CACHE to a folder that can be written to."
        )
    return folder


def _platform_folder() -> Path | None:
    """Return the cache folder by the convention of the platform; None for a user without a home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "contig"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base) / "contig" / "cache" if base else None
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "contig"


def is_writable(folder: Path) -> bool:
    """Create a folder if need be, and return whether files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell
            return True
    except OSError:
        return False


@cache
def _temporary_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        folder = Path(tempfile.gettempdir()) / f"contig-{user}"
    except FileNotFoundError:
        raise DiskError(
            "This user can write neither to a cache folder nor to a temporary folder; set CONTIG_CACHE to a "
            "folder that can be written to, and TMPDIR to another."
        ) from None
    if not _is_private(folder):
        folder = Path(tempfile.mkdtemp(prefix="contig-"))
    log.warning(
        f"This user can write to no cache folder, so {folder} is used; set CONTIG_CACHE to choose another."
    )
    return folder


def _is_private(folder: Path) -> bool:
    """Create a folder for this user alone; compiled code of others must not be run from it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    owner = os.getuid() if hasattr(os, "getuid") else found.st_uid
    return found.st_uid == owner and not found.st_mode & 0o022 and folder.is_dir() and not folder.is_symlink()


def redirect_compiler_caches() -> None:
    """Let torch and Triton keep compiled code in the cache folder, where the user has no home or no name."""
    if not _has_home():
        _set_folders({"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"})


def redirect_plot_cache() -> None:
    """Let Matplotlib keep its list of fonts in the cache folder, where the user has no home or no name."""
    if not _has_home():
        _set_folders({"MPLCONFIGDIR": "matplotlib"})


def _has_home() -> bool:
    """Return whether the user has a name and a home that can be written to."""
    try:
        getpass.getuser()
        return is_writable(Path.home())
    except (RuntimeError, KeyError, OSError):
        return False


def _set_folders(variables: Mapping[str, str]) -> None:
    """Set environment variables that are not set to folders in the cache folder."""
    for name, folder in variables.items():
        os.environ.setdefault(name, str(cache_folder() / folder))
