"""The folder of a run and the files in it.

- ``config.json``: the config, the data and the versions of the run
- ``stream/``: the events and the id map
- ``checkpoint.pt``: everything that changes while training
- ``best.pt``: weights and state of the best epoch, after validation
- ``serving.pt``: weights and state after the whole stream
- ``observed.pt``: the events observed after the training, and the state after them
- ``classifier.pt``: the decoders of labels, once the run has classified events
- ``metrics.json``, ``curve.png``: the result
- ``checksums.json``: the checksums of all these files but the figure

One process at a time writes to the folder (``locked``); any number may read.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from contig.data.encoding import FeaturePlans
from contig.data.events import EventStream
from contig.data.index_folder import is_index_folder
from contig.data.storage import load_stream, save_stream, saved_files
from contig.errors import ContigError, RunError, close_names
from contig.files import as_json, as_path, disk_error, file_above, is_leftover, replacing, sha256
from contig.locks import is_locked, locked
from contig.models import Model, NodeState
from contig.numerics import VERSION
from contig.runs.checksums import FILE as CHECKSUMS
from contig.runs.checksums import Checksums
from contig.runs.config import RunConfig
from contig.runs.exchange import restore_former
from contig.runs.manifest import RunManifest, read_manifest
from contig.runs.metrics import RunMetrics, read_metrics
from contig.runs.saved_model import SCHEMA, restore_model
from contig.runs.writer import save_tensors
from contig.schema import newer_schema
from contig.tasks import read_evaluation
from contig.tasks.results import Evaluation

T = TypeVar("T")

log = logging.getLogger("contig")

RUN_FILES = (
    "checkpoint.pt",
    "best.pt",
    "serving.pt",
    "observed.pt",
    "classifier.pt",
    "metrics.json",
    "curve.png",
)
RUN_FOLDERS = ("stream", "evaluations", "tensorboard", "wandb")


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path, "run")
        self.checksums = Checksums(self.path)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def identity(self) -> tuple[int, int] | None:
        """Return what is different once another folder has taken the place of this one."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def is_finished(self) -> bool:
        """Whether the training has ended and was tested."""
        return self.has("metrics.json")

    @property
    def lacks_weights(self) -> bool:
        """Whether only results are left of a finished run, as in an unpacked archive of results."""
        return self.is_finished and not self.has("best.pt")

    # -- starting, resuming ----------------------------------------------------------------------

    @property
    def has_results(self) -> bool:
        """Whether the run has reached a checkpoint; otherwise nothing is lost with it."""
        return any(self.has(name) for name in RUN_FILES)

    def _is_run(self) -> bool:
        """Return whether ``config.json`` is that of a run, not of something else."""
        try:
            self.manifest()
        except ContigError:
            return False
        return True

    def must_be_free(self, cure: str | None = None) -> None:
        """Raise a ``RunError`` if the folder holds a run or an index, or cannot be a folder.

        A run that has not reached a checkpoint may be replaced. ``cure`` says what to do with another run.
        """
        if self.has("config.json") and (self.has_results or not self._is_run()):
            usual = (
                f"Continue it with 'contig resume {self.path}', choose another folder, or replace the run "
                "with --overwrite (overwrite=True)."
            )
            raise RunError(f"{self.path} already holds a run. {cure or usual}")
        if blocking := file_above(self.path / "config.json"):
            raise RunError(f"{self.path} cannot hold a run: {blocking} is a file; choose a folder.")
        if is_index_folder(self.path):
            raise RunError(f"{self.path} is an index; choose another folder.")

    def remove_run(self) -> None:
        """Remove the files of a run; other files in the folder are kept.

        Results go first: a process that is killed leaves none to be taken for those of the next run.
        """
        (self.path / "metrics.json").unlink(missing_ok=True)
        shutil.rmtree(self.path / "evaluations", ignore_errors=True)
        for name in ("config.json", CHECKSUMS, *RUN_FILES):  # without the config it is a run no longer
            (self.path / name).unlink(missing_ok=True)
        for folder in RUN_FOLDERS:
            shutil.rmtree(self.path / folder, ignore_errors=True)

    @contextmanager
    def locked(self, *, wait: bool = False) -> Iterator[None]:
        """Keep other processes from writing to this folder, and remove what a killed one left behind."""
        with locked(self.path, wait=wait):
            for folder in (self.path, self.path / "stream", self.path / "evaluations"):
                for path in filter(is_leftover, folder.glob(".*")):
                    path.unlink(missing_ok=True)
            yield

    def create(self, stream: EventStream, config: RunConfig, features: FeaturePlans | None = None) -> None:
        """Start a run here; ``features`` says how those of the stream were encoded."""
        self.must_be_free()
        (self.path / CHECKSUMS).unlink(missing_ok=True)  # of a run that was killed while it was created
        save_stream(stream, self.path / "stream", durable=True)
        self.checksums.record(
            {f"stream/{path.name}": sha256(path) for path in saved_files(self.path / "stream")}
        )
        manifest = replace(RunManifest.of(stream, config), checksums=True, features=features)
        self._write_json("config.json", manifest.as_dict())

    def reopen(self, config: RunConfig) -> None:
        """Resume the run, possibly under a changed config."""
        manifest = self.manifest()
        if manifest.numerics not in (None, VERSION):
            log.warning(
                f"{self.path} was started with version {manifest.numerics} of the numerics, and this is "
                f"version {VERSION}: compare its results with neither."
            )
        self._write_json("config.json", manifest.with_config(config).as_dict())

    def remove_results(self) -> None:
        """Remove the results of a finished training that continues."""
        evaluations = [f"evaluations/{path.name}" for path in (self.path / "evaluations").glob("*.json")]
        removed = ["metrics.json", "serving.pt", "classifier.pt", *evaluations]
        for name in removed:
            (self.path / name).unlink(missing_ok=True)
        self.checksums.forget(removed)

    def _missing(self) -> str:
        """Return the message for a path that is not the folder of a run."""
        if self.path.is_file():
            return f"{self.path} is a file; expected the folder of a run, which 'contig train' creates."
        train = f"Train one with 'contig train DATA --out {self.path}'."
        if self.path.exists():
            within = [f"'{path}'" for path in _runs_in(self.path)]
            few = ", ".join(within[:5]) + (", ..." if len(within) > 5 else "")
            cure = f"Choose one of the runs in it: {few}." if within else train
            return f"{self.path} is not a run: it has no config.json. {cure}"
        near = close_names(self.path.name, [path.name for path in _runs_in(self.path.parent)])
        alike = " or ".join(f"'{self.path.parent / name}'" for name in near)
        hint = f" Did you mean {alike}?" if alike else ""
        return f"{self.path}: no such run.{hint} {train}"

    # -- the files -------------------------------------------------------------------------------

    def manifest(self) -> RunManifest:
        """Read ``config.json``."""
        if not self.has("config.json"):
            restore_former(self.path)
        if not self.has("config.json"):
            raise RunError(self._missing())
        if self.checksums.exist:
            self.checksums.verify("config.json")
            return read_manifest(self.path / "config.json")
        manifest = read_manifest(self.path / "config.json")
        if manifest.checksums:
            raise RunError(
                f"{self.path / CHECKSUMS} is missing; the run is damaged. Restore it, or train again."
            )
        return manifest

    def config(self) -> RunConfig:
        """Read the config of the run."""
        try:
            return self.manifest().config
        except RunError:
            raise
        except ContigError as error:
            raise RunError(f"{self.path}/config.json: {error}") from error

    def metrics(self) -> RunMetrics:
        """Read ``metrics.json``."""
        if not self.is_finished:
            raise self._unfinished("metrics.json")
        self._verify("metrics.json")
        return read_metrics(self.path / "metrics.json")

    def save_metrics(self, metrics: RunMetrics) -> None:
        """Write ``metrics.json``."""
        self._write_json("metrics.json", metrics.as_dict())

    def evaluation(self, name: str) -> Evaluation[Any]:
        """Read ``evaluations/NAME.json``."""
        path = self.path / "evaluations" / f"{name}.json"
        try:
            self._verify(f"evaluations/{name}.json")
        except RunError as error:
            raise RunError(f"{error} To evaluate again, delete {path.name}.") from error
        return read_evaluation(path)

    def save_evaluation(self, name: str, content: dict[str, Any], weights: str | None) -> None:
        """Write ``evaluations/NAME.json``; ``weights`` is the version of ``best.pt`` that was evaluated."""
        with self.locked(wait=True):
            if self.version("best.pt") != weights:
                raise RunError(f"{self.path} was trained further during its evaluation; evaluate it again.")
            self._write_json(f"evaluations/{name}.json", content)

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        with self._replacing(name) as part:
            part.write_text(as_json(content), "utf-8")

    @contextmanager
    def _replacing(self, name: str) -> Iterator[Path]:
        """Yield a temporary path that replaces a file; a run of an older version gets no checksums."""
        old = self.has("config.json") and not self.checksums.exist
        with replacing(self.path / name, durable=True) if old else self.checksums.replacing(name) as part:
            yield part

    def _verify(self, name: str) -> None:
        if self.checksums.exist:
            self.checksums.verify(name)

    def require_finished(self, action: str) -> None:
        """Raise ``RunError`` if the training has not ended; ``action`` is what it could do afterwards."""
        if not (self.is_finished and self.has("serving.pt")):
            if self.lacks_weights:
                raise self._without_weights()
            if not is_locked(self.path):
                raise RunError(f"{self.path} was not finished; continue it with 'contig resume {self.path}'.")
            raise RunError(
                f"{self.path} is still in training; {action} when the training is finished. "
                f"To continue it: contig resume {self.path}"
            )

    def stream(self) -> EventStream:
        """Load the events of the run."""
        if self.lacks_weights and not self.has("stream"):
            raise self._without_weights()
        verified = self.checksums.exist
        for name in self.checksums.names("stream/") if verified else ():
            self.checksums.verify(name)
        try:
            stream = load_stream(self.path / "stream")
        except ContigError as error:
            raise RunError(f"{error} The run is damaged: restore its folder, or train again.") from error
        if not verified and stream.fingerprint() != self.manifest().data.fingerprint:
            raise RunError(
                f"{self.path}/stream does not hold the events that the run was trained on (the fingerprint "
                f"in config.json differs). Restore the folder, or train again on {stream.origin}."
            )
        self._warn_if_outdated(stream)
        manifest = self.manifest()
        return replace(stream, read_as=manifest.read_as, dates=manifest.dates)

    def _warn_if_outdated(self, stream: EventStream) -> None:
        """Warn if the file that the events were read from has other content now."""
        source, copy = Path(stream.origin), self.path / "stream" / "origin.txt"
        if not source.is_file() or source.stat().st_mtime <= copy.stat().st_mtime:
            return
        modified = source.stat().st_mtime_ns
        if os.access(source, os.R_OK) and sha256(source) == self.manifest().data.source:
            with suppress(OSError):  # of a folder that cannot be written
                os.utime(copy, ns=(modified, modified))  # so that it is not compared again
            return
        log.warning(
            f"{source} has changed since {self.path} read it; the run answers from the events that it knows. "
            "Add later events with 'contig update', or train again."
        )

    def save(self, name: str, content: dict[str, Any]) -> None:
        """Write tensors and plain values, completely or not at all."""
        with self._replacing(name) as part:
            save_tensors({"schema": SCHEMA, **content}, part)

    def load(self, name: str, *, mapped: bool = False) -> dict[str, Any]:
        """Read tensors and plain values to the CPU; ``mapped`` ones are read from disk as they are used."""
        path = self.path / name
        if not path.exists():
            raise self._unfinished(name)
        self._verify(name)
        try:
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        except PermissionError as error:
            raise disk_error(error, path) from error
        except Exception as error:  # unpickling a damaged file can raise anything
            raise RunError(f"{path} is damaged and cannot be read; restore it, or train again.") from error
        if not isinstance(content, dict):
            raise RunError(
                f"{path} must hold named values, not a {type(content).__name__}; the file is damaged."
            )
        if (found := content.pop("schema", SCHEMA)) != SCHEMA:
            raise newer_schema(path, found, SCHEMA)
        return content

    def restore(
        self, name: str, model: Model | None, state: NodeState, events: int, **more: type
    ) -> dict[str, Any]:
        """Load weights (unless ``model`` is None) and state from a file, and return its content.

        ``more`` are the types of the other values in it.
        """
        content = self.load(name, mapped=state.on_disk)
        restore_model(content, model, state, events, self.path / name, **more)
        return content

    def version(self, name: str) -> str | None:
        """Return the checksum of a file as it is now, None if there is none."""
        return sha256(self.path / name) if self.has(name) else None

    def read_version(self, name: str, read: Callable[[], T]) -> tuple[str | None, T]:
        """Return what ``read`` reads of a file, and the checksum of that very version of it."""
        while True:
            before, content = self.version(name), read()
            if self.version(name) == before:  # else another process has replaced it in between
                return before, content

    def _unfinished(self, name: str) -> RunError:
        if self.lacks_weights:
            return self._without_weights()
        return RunError(
            f"{self.path} has no {name}: its training has not ended. Wait if it is still running; "
            f"otherwise continue it with 'contig resume {self.path}'."
        )

    def _without_weights(self) -> RunError:
        return RunError(
            f"{self.path} has results but no weights (best.pt), such as a run unpacked from an archive of "
            "results. Restore the folder from a copy, or train again with --overwrite (overwrite=True)."
        )


def _runs_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/config.json"))
