"""The results of a study in one small file, without weights and events: to keep, to share, to continue from.

Unpacked into a study's folder, its runs count as finished there; a run that lacks an evaluation is trained
again by a call that needs it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from contig.errors import ConfigError
from contig.experiments.jobs import runs_in
from contig.files import check_file_path, replacing
from contig.reproduction.earlier import FILE
from contig.runs.folder import RunFolder

ENDING = ".tar.xz"
RESULTS = ("config.json", "metrics.json", "checksums.json", "evaluations/*.json")  # of a run


def check_archive(path: Path) -> None:
    """Raise ``ConfigError`` if an archive cannot be written to this path."""
    if not path.name.endswith(ENDING):
        raise ConfigError(f"--archive {path}: the name of an archive ends in {ENDING}.")
    check_file_path(path)


def write_archive(out: Path, path: Path) -> int:
    """Write the results of every finished run in the folder of a study, with the evaluations it has.

    Returns the number of runs.
    """
    finished = [folder for folder in sorted(runs_in(out).glob("*")) if RunFolder(folder).is_finished]
    with replacing(path) as part, tarfile.open(part, "w:xz", preset=9) as archive:
        for file in _files(out, finished):
            archive.add(file, str(file.relative_to(out)), filter=_anonymous)
    return len(finished)


def _files(out: Path, folders: list[Path]) -> Iterator[Path]:
    if (out / FILE).exists():
        yield out / FILE
    for folder in folders:
        for pattern in RESULTS:
            yield from sorted(folder.glob(pattern))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who wrote a file and when: equal results make equal archives."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
