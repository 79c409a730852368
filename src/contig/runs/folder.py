"""The folder of a run: what lies in it, and how it is written and read.

``config.json`` what was asked for, ``stream/`` the events and the id map, ``checkpoint.pt`` all that
moves in training, ``best.pt`` weights and state of the best epoch after validation, ``serving.pt``
weights and state after the whole stream, ``metrics.json`` and ``curve.png`` the result.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch

from contig import __version__
from contig.data.events import EventStream
from contig.data.storage import load_stream, save_stream
from contig.errors import ContigError, RunError, unknown
from contig.files import replacing, write_json
from contig.numerics import VERSION
from contig.runs.config import RunConfig
from contig.runs.metrics import RunMetrics, read_metrics

log = logging.getLogger("contig")


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def must_be_free(self) -> None:
        """Refuse a place that is taken: an earlier run is never overwritten."""
        if self.has("config.json"):
            raise RunError(
                f"{self.path} holds a run already; continue it with 'contig resume {self.path}', "
                "or give another folder."
            )
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; a run needs a folder of its own.")

    def create(self, stream: EventStream, config: RunConfig) -> None:
        """Begin a run here."""
        self.must_be_free()
        save_stream(stream, self.path / "stream")
        about = {"origin": stream.origin, "events": len(stream), "nodes": stream.num_nodes}
        about["fingerprint"] = stream.fingerprint()
        versions = {"contig": __version__, "numerics": VERSION}
        write_json(self.path / "config.json", {**versions, "data": about, **config.as_dict()})

    def reopen(self, config: RunConfig) -> None:
        """Go on with the run under a config that may have changed."""
        for part in self.path.glob(".*.pt"):  # half-written when the run was killed
            part.unlink()
        saved = self._json("config.json")
        if saved.get("numerics", VERSION) != VERSION:
            log.warning(
                f"{self.path} was started with version {saved['numerics']} of the numerics, and this is "
                f"version {VERSION}: compare its results with neither."
            )
        write_json(self.path / "config.json", {**saved, **config.as_dict()})

    def unfinish(self) -> None:
        """Take away what an earlier end left: beside a best epoch that moves on it would not fit any more."""
        for name in ("metrics.json", "serving.pt"):
            (self.path / name).unlink(missing_ok=True)

    def config(self) -> RunConfig:
        if not self.has("config.json"):
            beside = [p.name for p in self.path.parent.glob("*/") if (p / "config.json").exists()]
            hint = "" if self.path.exists() or not beside else f" {unknown('run', self.path.name, beside)}"
            raise RunError(
                f"{self.path} is not a run: it has no config.json.{hint} Train one with "
                f"'contig train DATA --out {self.path}'."
            )
        try:
            return RunConfig.from_dict(self._json("config.json"))
        except ContigError as error:
            raise RunError(f"{self.path}/config.json: {error}") from error
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{self.path}/config.json cannot be understood ({error}).") from error

    def fingerprint(self) -> str:
        """Which events the run is of."""
        return str(self._json("config.json")["data"]["fingerprint"])

    def metrics(self) -> RunMetrics:
        """The content of ``metrics.json``."""
        if not self.has("metrics.json"):
            raise self._unfinished("metrics.json")
        return read_metrics(self.path / "metrics.json")

    def save_metrics(self, metrics: RunMetrics) -> None:
        """Write ``metrics.json``."""
        write_json(self.path / "metrics.json", metrics.as_dict())

    def stream(self) -> EventStream:
        """The events of the run."""
        try:
            stream = load_stream(self.path / "stream")
            whole = len(stream.src) == len(stream.dst) == len(stream.t)
        except (ContigError, EOFError, TypeError) as error:
            raise RunError(f"{self.path}/stream cannot be read ({error}); the run is damaged.") from error
        if not whole:
            raise RunError(f"{self.path}/stream: its columns differ in length; the run is damaged.")
        about = self._json("config.json").get("data", {})
        if stream.fingerprint() != about.get("fingerprint"):
            raise RunError(
                f"{self.path}/stream holds other events than the run was trained on (the fingerprint in "
                f"config.json differs); put the folder back as it was, or train again on {stream.origin}."
            )
        self._note_newer(stream)
        return stream

    def _note_newer(self, stream: EventStream) -> None:
        """A run keeps its own events; say so where the file they came from has moved on."""
        source = Path(stream.origin)
        if (
            source.is_file()
            and source.stat().st_mtime > (self.path / "stream" / "origin.txt").stat().st_mtime
        ):
            log.warning(
                f"{source} was written after {self.path} had read it; the run answers from the "
                f"{len(stream):,} events it was trained on. Train again to take in what is new."
            )

    def save(self, name: str, content: dict[str, Any]) -> None:
        with replacing(self.path / name) as part:
            torch.save(content, part)

    def load(self, name: str) -> dict[str, Any]:
        """A saved file's tensors, on the CPU: whoever takes them over copies them to where they belong."""
        path = self.path / name
        try:
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise self._unfinished(name) from None
        except Exception as error:  # unpickling rubbish fails in any way it likes
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path} cannot be read ({reason}); the file is damaged.") from error
        return content

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.path / name).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read ({error}); the file is damaged.") from error
        return content

    def _unfinished(self, name: str) -> RunError:
        return RunError(
            f"{self.path} has no {name}: its training has not come that far. "
            f"Continue it with 'contig resume {self.path}'."
        )

    def has(self, name: str) -> bool:
        return (self.path / name).exists()
