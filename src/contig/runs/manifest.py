"""The schema of ``config.json``: the config of a run, the data it is trained on, and the versions used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contig import __version__
from contig.data.encoding import FeaturePlans
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.splits import Split
from contig.files import sha256
from contig.numerics import VERSION
from contig.runs.config import RunConfig
from contig.schema import Json, Record, decode, encode, read_versioned, rename_key
from contig.tasks.results import DataFacts

SCHEMA = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData(DataFacts):
    """The events of a run, which its folder holds as well."""

    fingerprint: str
    source: str | None = None  # checksum of the file that they were read from, if they were


def _source_checksum(origin: str) -> str | None:
    with suppress(OSError):
        return sha256(Path(origin)) if Path(origin).is_file() else None
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitFacts(Record):
    """How the events were split: the number in each part, and of those hidden from training."""

    split: str
    train: int
    validation: int
    test: int
    hidden: int

    @classmethod
    def of(cls, split: Split) -> SplitFacts:
        return cls(
            split=split.description,
            train=len(split.train),
            validation=len(split.val),
            test=len(split.test),
            hidden=split.hidden_events,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RunManifest(Record):
    """The content of ``config.json``; ``options`` are those of the model, ``train`` those of the training."""

    contig: str
    numerics: int | None = None  # older files do not have it
    checksums: bool = False  # whether the files of the run have checksums
    data: TrainingData
    features: FeaturePlans | None = None  # how they were encoded, if they were
    dates: bool = False  # whether the times were given as dates
    reading: dict[str, Any] | None = None  # the columns that were named, for later files
    parts: SplitFacts | None = None  # older files do not have it
    model: str
    options: dict[str, Any]
    train: dict[str, Any]

    @classmethod
    def of(cls, stream: EventStream, config: RunConfig) -> RunManifest:
        """Describe a run that starts now."""
        data = TrainingData(
            origin=stream.origin,
            events=len(stream),
            nodes=stream.num_nodes,
            fingerprint=stream.fingerprint(),
            source=_source_checksum(stream.origin),
        )
        parts = SplitFacts.of(config.train.split_stream(stream))
        reading = None if stream.read_as is None else stream.read_as.as_dict()
        return cls(
            contig=__version__,
            numerics=VERSION,
            data=data,
            dates=stream.dates,
            reading=reading,
            parts=parts,
            **config.as_dict(),
        )

    @property
    def config(self) -> RunConfig:
        return RunConfig.of(self.model, {**self.options, **self.train})

    @property
    def read_as(self) -> ReadOptions | None:
        """How later files are read, unless they have other columns."""
        return None if self.reading is None else ReadOptions.from_dict(self.reading)

    def with_config(self, config: RunConfig) -> RunManifest:
        """Return the same run under another config."""
        return replace(self, **config.as_dict())

    def as_dict(self) -> Json:
        return {"schema": SCHEMA, **encode(self)}


def read_manifest(path: Path) -> RunManifest:
    """Read ``config.json``."""
    cure = "Restore it from a backup, or train again."
    return decode(RunManifest, read_versioned(path, SCHEMA, upgrade, cure), path, cure)


def upgrade(content: Json) -> Json:
    """Upgrade a file written before schemas had versions."""
    return rename_key(content, "train", "rule", "holdout")
