"""The folder of a run and the files in it.

- ``config.json``: the config, the data and the versions of the run
- ``stream/``: the events and the id map
- ``checkpoint.pt``: everything that changes while training
- ``best.pt``: weights and state of the best epoch, after validation
- ``serving.pt``: weights and state after the whole stream
- ``metrics.json``, ``curve.png``: the result
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from contig.data.events import EventStream
from contig.data.storage import load_stream, save_stream
from contig.errors import ContigError, RunError, unknown
from contig.files import replacing, write_json
from contig.numerics import VERSION
from contig.runs.config import RunConfig
from contig.runs.manifest import RunManifest, read_manifest
from contig.runs.metrics import RunMetrics, read_metrics

log = logging.getLogger("contig")


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    # -- starting, resuming ----------------------------------------------------------------------

    def must_be_free(self) -> None:
        """Raise a ``RunError`` if the folder holds a run: an earlier run is never overwritten."""
        if self.has("config.json"):
            raise RunError(
                f"{self.path} already holds a run. Continue it with 'contig resume {self.path}', or choose "
                "another folder."
            )
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose a folder.")

    def create(self, stream: EventStream, config: RunConfig) -> None:
        """Start a run here."""
        self.must_be_free()
        save_stream(stream, self.path / "stream")
        write_json(self.path / "config.json", RunManifest.of(stream, config).as_dict())

    def reopen(self, config: RunConfig) -> None:
        """Resume the run, possibly under a changed config."""
        for part in self.path.glob(".*.pt"):  # partly written when the run was killed
            part.unlink()
        manifest = self.manifest()
        if manifest.numerics not in (None, VERSION):
            log.warning(
                f"{self.path} was started with version {manifest.numerics} of the numerics, and this is "
                f"version {VERSION}: compare its results with neither."
            )
        write_json(self.path / "config.json", manifest.with_config(config).as_dict())

    def remove_results(self) -> None:
        """Remove the results of an earlier end, which do not fit a training that continues."""
        for name in ("metrics.json", "serving.pt"):
            (self.path / name).unlink(missing_ok=True)
        for evaluation in (self.path / "evaluations").glob("*.json"):
            evaluation.unlink()

    # -- the files -------------------------------------------------------------------------------

    def manifest(self) -> RunManifest:
        """Read ``config.json``."""
        if not self.has("config.json"):
            others = [p.name for p in self.path.parent.glob("*/") if (p / "config.json").exists()]
            hint = "" if self.path.exists() or not others else f" {unknown('run', self.path.name, others)}"
            raise RunError(
                f"{self.path} is not a run: it has no config.json.{hint} Train one with "
                f"'contig train DATA --out {self.path}'."
            )
        return read_manifest(self.path / "config.json")

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
        if not self.has("metrics.json"):
            raise self._unfinished("metrics.json")
        return read_metrics(self.path / "metrics.json")

    def save_metrics(self, metrics: RunMetrics) -> None:
        """Write ``metrics.json``."""
        write_json(self.path / "metrics.json", metrics.as_dict())

    def stream(self) -> EventStream:
        """Load the events of the run."""
        try:
            stream = load_stream(self.path / "stream")
            complete = len(stream.src) == len(stream.dst) == len(stream.t)
        except (ContigError, EOFError, TypeError) as error:
            raise RunError(f"{self.path}/stream cannot be read ({error}); the run is damaged.") from error
        if not complete:
            raise RunError(f"{self.path}/stream: its columns differ in length; the run is damaged.")
        if stream.fingerprint() != self.manifest().data.fingerprint:
            raise RunError(
                f"{self.path}/stream does not hold the events that the run was trained on (the fingerprint "
                f"in config.json differs). Restore the folder, or train again on {stream.origin}."
            )
        self._warn_if_outdated(stream)
        return stream

    def _warn_if_outdated(self, stream: EventStream) -> None:
        """Warn if the file that the events were read from has changed since."""
        source, copy = Path(stream.origin), self.path / "stream" / "origin.txt"
        if source.is_file() and source.stat().st_mtime > copy.stat().st_mtime:
            log.warning(
                f"{source} has changed since {self.path} read it; the run answers from the {len(stream):,} "
                "events it was trained on. Train again to include new events."
            )

    def save(self, name: str, content: dict[str, Any]) -> None:
        """Write tensors and plain values, completely or not at all."""
        with replacing(self.path / name) as part:
            torch.save(content, part)

    def load(self, name: str) -> dict[str, Any]:
        """Read tensors and plain values to the CPU."""
        path = self.path / name
        try:
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise self._unfinished(name) from None
        except Exception as error:  # unpickling a damaged file can raise anything
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path} cannot be read ({reason}); the file is damaged.") from error
        return content

    def _unfinished(self, name: str) -> RunError:
        return RunError(
            f"{self.path} has no {name}: the training has not got that far. Continue it with "
            f"'contig resume {self.path}'."
        )
