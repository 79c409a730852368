"""How feature columns become numbers for a model, decided on the training part alone.

A number is standardized; a skewed one after a logarithm that keeps its sign. A category becomes one column
for each frequent name and one for all others. A missing value becomes the mean, and where the training part
misses values a column says which were missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

import numpy as np
from numpy.typing import NDArray

from contig.data.feature_columns import FeatureColumn, Kind, RawFeatures, as_kinds
from contig.errors import DataError
from contig.schema import Record

Features = NDArray[np.float32]
Floats = NDArray[np.float64]

MOST_NAMES = 16  # categories with a column of their own
RARE = 5  # a name with fewer training rows counts as other
SKEWED = 2.0  # |skewness| of a column that gets a logarithm, if that makes it smaller
FARTHEST = 10.0  # deviations; one absurd value must not upset a state


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnPlan(Record):
    """How one column is encoded.

    A number ``x`` becomes ``(f(x) - mean) / scale``, where ``f`` is the identity, or with ``unit > 0`` the
    logarithm ``sign(x) log(1 + |x| / unit)``; ``scale`` 0 means that it was constant and becomes 0.
    ``missing`` adds a column that is 1 where the value is missing.
    """

    name: str
    kind: Kind
    missing: bool
    mean: float = 0.0
    scale: float = 0.0
    unit: float = 0.0
    names: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        own: tuple[str, ...] = (self.name,)
        if self.kind == "category":
            rest = "other" if "other" not in self.names else "all others"
            own = tuple(f"{self.name}={name}" for name in (*self.names, rest))
        return (*own, f"{self.name} missing") if self.missing else own


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturePlan(Record):
    """How the feature columns of a run are encoded, in their order."""

    columns: tuple[ColumnPlan, ...]

    @classmethod
    def fit(cls, raw: RawFeatures, rows: NDArray[np.int64]) -> FeaturePlan:
        """Decide on the training rows how each column is encoded."""
        values = raw.values[rows]
        return cls(columns=tuple(_fitted(c, values[:, i]) for i, c in enumerate(raw.columns)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns in a file."""
        return tuple(column.name for column in self.columns)

    @property
    def of_vectors(self) -> bool:
        """Whether the columns are the numbered elements of a vector rather than columns of a file."""
        return self.inputs == tuple(f"f{i}" for i in range(len(self.inputs)))

    @property
    def kinds(self) -> dict[str, Kind]:
        """What the columns hold, by name."""
        return {column.name: column.kind for column in self.columns}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the encoded features."""
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def numeric(self) -> NDArray[np.int64]:
        """The positions of the encoded features that are numbers."""
        numbers = {column.name for column in self.columns if column.kind == "number"}
        return np.array([i for i, name in enumerate(self.outputs) if name in numbers], dtype=np.int64)

    def encode(self, raw: RawFeatures, origin: str) -> Features:
        """Return the features ``[rows, width]`` of columns with the same names, in any order."""
        raw = as_kinds(raw, self.kinds, origin)
        places = {column.name: i for i, column in enumerate(raw.columns)}
        if absent := [name for name in self.inputs if name not in places]:
            raise DataError(
                f"{origin}: there is no feature column {absent[0]!r}, which the run was trained with. Add it "
                "(its values may be missing), and if you name columns, name all: --features "
                f"{quote(','.join(self.inputs))} (features={list(self.inputs)!r})."
            )
        encoded = [
            _encoded(plan, raw.columns[places[plan.name]], raw.values[:, places[plan.name]])
            for plan in self.columns
        ]
        return np.concatenate(encoded, axis=1) if encoded else np.zeros((len(raw.values), 0), np.float32)

    def encode_matrix(self, matrix: Features, origin: str) -> Features:
        """Encode a matrix ``[rows, columns]`` whose columns are those of a file, in their order."""
        if matrix.shape[1] != len(self.inputs):
            raise DataError(
                f"{origin}: the events have {matrix.shape[1]} features; those of the run are "
                f"{', '.join(self.inputs)}, as they are in a file."
            )
        return self.encode(RawFeatures(matrix, tuple(map(FeatureColumn, self.inputs))), origin)


# --- fitting -----------------------------------------------------------------------------------------


def _fitted(column: FeatureColumn, values: Features) -> ColumnPlan:
    missing = np.isnan(values)
    present = values[~missing].astype(np.float64)
    if column.categories is not None:
        names = _frequent(present.astype(np.int64), column.categories)
        return ColumnPlan(name=column.name, kind="category", missing=bool(missing.any()), names=names)
    unit = _unit(present)
    found = _compressed(present, unit)
    mean, scale = (float(found.mean()), float(found.std())) if len(found) else (0.0, 0.0)
    scale = scale if scale > 1e-9 * max(1.0, abs(mean)) else 0.0
    return ColumnPlan(
        name=column.name, kind="number", missing=bool(missing.any()), mean=mean, scale=scale, unit=unit
    )


def _frequent(codes: NDArray[np.int64], names: Sequence[str]) -> tuple[str, ...]:
    """Return the most frequent names in ascending order; equally frequent ones by name."""
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable")[:MOST_NAMES]
    return tuple(names[i] for i in sorted(order.tolist()) if counts[i] >= RARE)


def _unit(values: Floats) -> float:
    """Return the unit of the logarithm, 0 where the values are not skewed enough to need one."""
    sizes = np.abs(values[values != 0])
    if not len(sizes):
        return 0.0
    unit, skewness = float(np.median(sizes)), _skewness(values)
    return unit if skewness > SKEWED and _skewness(_compressed(values, unit)) < skewness else 0.0


def _skewness(values: Floats) -> float:
    centered = values - values.mean()
    spread = float(np.sqrt(np.mean(centered**2)))
    return float(abs(np.mean((centered / spread) ** 3))) if spread > 0 else 0.0


def _compressed(values: Floats, unit: float) -> Floats:
    return np.sign(values) * np.log1p(np.abs(values) / unit) if unit else values


# --- encoding ----------------------------------------------------------------------------------------


def _encoded(plan: ColumnPlan, column: FeatureColumn, values: Features) -> Features:
    missing = np.isnan(values)
    own = _one_hot(plan, column, values) if plan.kind == "category" else _standardized(plan, values)
    own[missing] = 0.0
    return np.concatenate([own, missing[:, None].astype(np.float32)], axis=1) if plan.missing else own


def _standardized(plan: ColumnPlan, values: Features) -> Features:
    if not plan.scale:
        return np.zeros((len(values), 1), np.float32)
    found = (_compressed(values.astype(np.float64), plan.unit) - plan.mean) / plan.scale
    return np.clip(found, -FARTHEST, FARTHEST).astype(np.float32)[:, None]


def _one_hot(plan: ColumnPlan, column: FeatureColumn, values: Features) -> Features:
    places = {name: i for i, name in enumerate(plan.names)}
    other = len(plan.names)
    place = np.array([*(places.get(name, other) for name in column.categories or ()), other])
    codes = np.where(np.isnan(values), len(place) - 1, values).astype(np.int64)
    rows: Features = np.eye(other + 1, dtype=np.float32)[place[codes]]
    return rows
