"""The classifier of a run: several decoders of labels, of which the validation events choose one.

A decoder reads the columns of ``contig.tasks.label_columns``, the model's score of the pair and its
embeddings of both ends. The baseline is boosted trees on the simple columns, without the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from contig.data.splits import Split
from contig.layers import NodeDecoder
from contig.streaming.walker import Progress, no_progress
from contig.tasks.calibration import Calibration
from contig.tasks.label_decoding import decoder_logits, train_decoder
from contig.tasks.label_trees import Trees
from contig.tasks.metrics import area_under_curve

Floats = NDArray[np.float64]
Columns = NDArray[np.float32]
Flags = NDArray[np.bool_]

FARTHEST = 10.0  # deviations of an input of the network
MARGIN = 0.005  # of validation AUC over the baseline; less is noise where positives are few


class LabelInputs(NamedTuple):
    """What decoders read of events; each field is ``[events, width]``, NaN where nothing is known."""

    simple: Columns
    graph: Columns
    embeddings: Columns


# What each decoder reads; the first is the baseline.
READS: dict[str, tuple[str, ...]] = {
    "trees on simple columns": ("simple",),
    "trees on all columns": ("simple", "graph"),
    "trees on columns and embeddings": ("simple", "graph", "embeddings"),
    "network on columns and embeddings": ("simple", "graph", "embeddings"),
    "network on embeddings": ("embeddings",),
}
BASELINE = next(iter(READS))


@dataclass(frozen=True, eq=False)
class Network:
    """A three-layer network, and how its inputs are scaled."""

    mean: Columns
    scale: Columns
    decoder: NodeDecoder

    @classmethod
    def fit(cls, x: Columns, label: Flags, split: Split) -> Network:
        """Train the network; inputs are standardized over the training rows, unknown ones are the mean."""
        known = ~np.isnan(x[split.train])
        count = np.maximum(known.sum(axis=0), 1)
        rows = np.where(known, x[split.train], 0).astype(np.float64)
        mean = rows.sum(axis=0) / count
        spread = np.sqrt((np.where(known, rows - mean, 0) ** 2).sum(axis=0) / count)
        scale = np.where(spread > 1e-6, spread, np.inf).astype(np.float32)
        inputs = _scaled(x, mean.astype(np.float32), scale)
        trained = train_decoder(torch.from_numpy(inputs), torch.from_numpy(label), split, seed=0)
        return cls(mean.astype(np.float32), scale, trained.decoder)

    def logits(self, x: Columns) -> Floats:
        """Return the logits of rows ``[n, width]``."""
        inputs = torch.from_numpy(_scaled(x, self.mean, self.scale))
        return decoder_logits(self.decoder, inputs).astype(np.float64)

    def content(self) -> dict[str, Any]:
        """Return the network as tensors, to save."""
        scaling = {"mean": torch.from_numpy(self.mean), "scale": torch.from_numpy(self.scale)}
        return {**scaling, "weights": self.decoder.state_dict()}

    @classmethod
    def from_content(cls, content: Any) -> Network:
        mean, scale = (content[name].float().numpy() for name in ("mean", "scale"))
        if mean.ndim != 1 or mean.shape != scale.shape:
            raise ValueError("the scaling of the network does not fit its inputs")
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn and discarded
            decoder = NodeDecoder(len(mean))
        decoder.load_state_dict(content["weights"])
        return cls(mean, scale, decoder.eval())


def _scaled(x: Columns, mean: Columns, scale: Columns) -> Columns:
    inputs = np.clip((x - mean) / scale, -FARTHEST, FARTHEST)
    filled: Columns = np.nan_to_num(inputs, nan=0.0).astype(np.float32)
    return filled


@dataclass(frozen=True, eq=False)
class LabelDecoder:
    """A decoder, what it reads, and the calibration of its logits."""

    name: str
    decoder: Trees | Network
    calibration: Calibration
    validation_auc: float

    @classmethod
    def fit(cls, name: str, inputs: LabelInputs, label: Flags, split: Split) -> LabelDecoder:
        """Fit on the training events; the validation events decide when to stop, and calibrate."""
        x = _read(name, inputs)
        decoder: Trees | Network
        if name.startswith("network"):
            decoder = Network.fit(x, label, split)
        else:
            decoder = Trees.fit(x, label, split.train, split.val)
        logits, truth = decoder.logits(x[split.val]), label[split.val]
        auc = area_under_curve(logits[truth].astype(np.float32), logits[~truth].astype(np.float32))
        return cls(name, decoder, Calibration.fit(logits, truth), auc)

    def probability(self, inputs: LabelInputs) -> Floats:
        return self.calibration.probability(self.decoder.logits(_read(self.name, inputs)))

    def content(self) -> dict[str, Any]:
        calibration = [self.calibration.slope, self.calibration.shift]
        about = {"name": self.name, "calibration": calibration, "validation_auc": self.validation_auc}
        return {**about, "decoder": self.decoder.content()}

    @classmethod
    def from_content(cls, content: Any) -> LabelDecoder:
        name = content["name"]
        if name not in READS:
            raise ValueError(f"there is no decoder {name!r}")
        kind: type[Trees] | type[Network] = Network if name.startswith("network") else Trees
        slope, shift = content["calibration"]
        calibration = Calibration(float(slope), float(shift))
        return cls(name, kind.from_content(content["decoder"]), calibration, float(content["validation_auc"]))


@dataclass(frozen=True, eq=False)
class LabelClassifier:
    """The chosen decoder with its baseline; ``delay`` is that of the labels it was fitted with."""

    chosen: LabelDecoder
    baseline: LabelDecoder
    validation_aucs: Mapping[str, float]
    delay: float
    columns: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        inputs: LabelInputs,
        columns: tuple[str, ...],
        label: Flags,
        split: Split,
        delay: float,
        progress: Progress = no_progress,
    ) -> LabelClassifier:
        """Fit every decoder that has something to read, and choose by the AUC of the validation events."""
        fitted = {}
        for name, reads in READS.items():
            if getattr(inputs, reads[-1]).shape[1]:
                fitted[name] = LabelDecoder.fit(name, inputs, label, split)
            progress(1)
        aucs = {name: one.validation_auc for name, one in fitted.items()}
        best = max(fitted, key=lambda name: aucs[name])
        best = best if aucs[best] - aucs[BASELINE] > MARGIN else BASELINE
        return cls(fitted[best], fitted[BASELINE], aucs, delay, columns)

    def content(self) -> dict[str, Any]:
        """Return everything as tensors and plain values, to save."""
        return {
            "chosen": self.chosen.content(),
            "baseline": self.baseline.content(),
            "validation_aucs": dict(self.validation_aucs),
            "delay": self.delay,
            "columns": list(self.columns),
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any], fail: Callable[[str], Exception]) -> LabelClassifier:
        """Build the classifier that was saved; ``fail`` makes the error for content that is not one."""
        try:
            return cls(
                LabelDecoder.from_content(content["chosen"]),
                LabelDecoder.from_content(content["baseline"]),
                {str(name): float(auc) for name, auc in content["validation_aucs"].items()},
                float(content["delay"]),
                tuple(map(str, content["columns"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise fail(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


def _read(name: str, inputs: LabelInputs) -> Columns:
    parts = [getattr(inputs, part) for part in READS[name]]
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
