"""Atomic file writes, and clear errors where the operating system refuses one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contig.errors import ConfigError, DiskError

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block ends without an error.

    ``durable`` files survive a power cut: they are on the disk before they get their name. Where the disk is
    full or may not be written to, ``DiskError`` says so.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            part.chmod(0o644)
            if durable:
                sync(part)
            part.replace(path)
            if durable:
                sync(path.parent)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def as_path(given: Any, name: str) -> Path:
    """Return a path; raise ``ConfigError`` for what cannot be one. ``name`` is the argument's."""
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"{name}={given!r}: expected a path.")
    if given == "" or "\0" in str(given):
        raise ConfigError(f"{name}={given!r}: a path is not empty and has no null characters.")
    return Path(given)


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with the user's home in place of ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise DiskError(f"{path}: this user has no home folder; write the whole path instead of ~.") from None


def is_leftover(path: Path) -> bool:
    """Return whether a file is a temporary one of ``replacing``, left behind by a killed process."""
    stem = path.name[1:].removesuffix(path.suffix)
    original, dot, random = stem.rpartition(".")
    return path.name.startswith(".") and bool(dot) and len(random) == 8 and original.endswith(path.suffix)


def file_above(path: Path) -> Path | None:
    """Return the file that stands where ``path`` needs a folder, if there is one."""
    existing = next((parent for parent in path.parents if parent.exists()), None)
    return None if existing is None or existing.is_dir() else existing


def check_file_path(path: Path) -> None:
    """Raise ``ConfigError`` if no file can be written at ``path``; missing folders are created later."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give the name of a file.")
    if path.exists() and not path.is_file():  # a device, say, which root would replace for everyone
        raise ConfigError(f"{path} is not a regular file; give another name.")
    if blocking := file_above(path):
        raise ConfigError(f"{path} cannot be written: {blocking} is a file, not a folder.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not _accepts_files(folder):
        raise ConfigError(f"{path} cannot be created: {folder} does not allow it; choose another folder.")


def _accepts_files(folder: Path) -> bool:
    """Return whether files can be created in a folder, by trying: root may write to /proc, but cannot."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.errno in FULL  # which is reported when the file is written
    return True


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write text, atomically."""
    with replacing(path, durable=durable) as part:
        part.write_text(text, "utf-8")


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: Any, *, durable: bool = False) -> None:
    """Write ``content`` as JSON, atomically."""
    write_text(path, as_json(content), durable=durable)


def as_json(content: Any) -> str:
    """Format ``content`` as JSON for a file."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a ``DiskError`` that names the path and the cure."""
    try:
        yield
    except DiskError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: object) -> DiskError:
    """Describe what the operating system refuses."""
    cure = "check the path."
    if error.errno in FULL:
        cure = "free some space there, or choose another folder."
    elif error.errno == errno.EFBIG:
        cure = "raise the limit of file sizes (ulimit -f), or choose another disk."
    elif error.errno in FORBIDDEN:
        cure = "choose another path, or change its permissions."
    return DiskError(f"{path}: {error.strerror or error}; {cure}")


def link_or_copy(source: str, target: str) -> str:
    """Give a file a second name where the disk allows it, otherwise copy it; for ``shutil.copytree``."""
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def sync_tree(folder: Path) -> None:
    """Wait until a folder and everything in it is on the disk."""
    for path in sorted(folder.rglob("*"), reverse=True):  # files before the folders that name them
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk; not every system has folders to open."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno in (*FULL, errno.EIO):
            raise
    finally:
        os.close(handle)
