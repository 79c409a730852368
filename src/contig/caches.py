"""Where downloads and compiled code are kept, also for users without a home."""

from __future__ import annotations

import getpass
import logging
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

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
    folder = Path(tempfile.gettempdir()) / f"contig-{user}"
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
    try:
        getpass.getuser()
        if is_writable(Path.home()):
            return
    except (RuntimeError, KeyError, OSError):
        pass
    for name, folder in {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}.items():
        os.environ.setdefault(name, str(cache_folder() / folder))
