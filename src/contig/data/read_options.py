"""How events are read: which column is what, the file format, where datasets are looked up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, Unpack

from contig.errors import ConfigError, unknown

ColumnName = str | int


class ReadKeywords(TypedDict, total=False):
    """The fields of ``ReadOptions``, as keyword arguments of the functions that read events."""

    src: ColumnName | None
    dst: ColumnName | None
    t: ColumnName | None
    label: ColumnName | None
    features: bool | Sequence[ColumnName] | None
    format: str | None
    date_format: str | None
    bipartite: bool | None
    preprocess: bool | None
    node_features: str | os.PathLike[str] | None
    data_dir: str | os.PathLike[str] | None


_COLUMN, _PATH, _FLAG, _TEXT = (str, int), (str, os.PathLike), (bool,), (str,)
_EXPECTED: dict[tuple[type, ...], str] = {
    _COLUMN: "the name of a column, or its position counted from 0",
    _PATH: "a path",
    _FLAG: "True or False",
    _TEXT: "text",
    (bool, Sequence): "True, False or a list of columns",
}
INDEX_OPTIONS = ("src", "dst", "t", "label", "features", "bipartite")  # that apply to building an index
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("src", "dst", "t", "label"), _COLUMN),
    "features": (bool, Sequence),
    "format": _TEXT,
    "date_format": _TEXT,
    "bipartite": _FLAG,
    "preprocess": _FLAG,
    "node_features": _PATH,
    "data_dir": _PATH,
}


@dataclass(frozen=True)
class ReadOptions:
    """How a file, a table or a dataset is read; None leaves the choice to the reader.

    - ``src``, ``dst``, ``t``, ``label``: columns, by name or by position counted from 0. Positions also
      mean that a text file has no header.
    - ``features``: the columns of the edge features, numbers or categories; False leaves features out. True
      requires them: those recognized by their names, or else every column without another role.
    - ``format``: the file format, otherwise detected from the file.
    - ``date_format``: how the times are written, if not as numbers or in ISO 8601, in the notation of
      ``datetime.strptime``: ``"%m/%d/%Y %H:%M"``.
    - ``bipartite``: whether sources and destinations are different nodes even where their ids are equal.
    - ``preprocess``: whether features are standardized and encoded by what the training part holds. By
      default columns that you name are, and vectors (lists, numbered columns, datasets) are not.
    - ``node_features``: a file with one row per node: its id, and columns of numbers or categories.
    - ``data_dir``: the folder where datasets are looked up first, instead of ``$CONTIG_DATA``.
    """

    src: ColumnName | None = None
    dst: ColumnName | None = None
    t: ColumnName | None = None
    label: ColumnName | None = None
    features: bool | Sequence[ColumnName] | None = None
    format: str | None = None
    date_format: str | None = None
    bipartite: bool | None = None
    preprocess: bool | None = None
    node_features: str | os.PathLike[str] | None = None
    data_dir: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise ConfigError(
                f"features={self.features!r} must be a list of columns: features=[{self.features!r}]."
            )
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kinds) or (value is True and bool not in kinds)):
                raise ConfigError(f"{name}={value!r}: expected {_EXPECTED[kinds]}.")
        # One spelling of equal options, so that they compare and hash alike.
        if isinstance(self.features, Sequence):
            object.__setattr__(self, "features", tuple(self.features))
        for name in ("data_dir", "node_features"):
            if (path := getattr(self, name)) is not None:
                object.__setattr__(self, name, os.fspath(path))

    @property
    def columns(self) -> dict[str, ColumnName | None]:
        """The columns named for ``src``, ``dst``, ``t`` and ``label``."""
        return {"src": self.src, "dst": self.dst, "t": self.t, "label": self.label}

    @property
    def feature_columns(self) -> Sequence[ColumnName] | None:
        """The columns named as features; None to detect them."""
        if isinstance(self.features, bool) or self.features is None:
            return () if self.features is False else None
        return self.features

    @property
    def positional(self) -> bool:
        """Whether a column is given by position."""
        named = (*self.columns.values(), *(self.feature_columns or ()))
        return any(isinstance(column, int) for column in named)

    @property
    def named(self) -> ReadOptions | None:
        """The options that also hold for other files of the same kind: named columns and the date format."""
        kept = ReadOptions(
            src=self.src, dst=self.dst, t=self.t, label=self.label, date_format=self.date_format
        )
        return None if self.positional or kept == ReadOptions() else kept

    def updated(self, **changes: Unpack[ReadKeywords]) -> ReadOptions:
        """Return these options with some of them replaced; unknown names are rejected."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise ConfigError(unknown("reading option", name, known))
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the options that are set, as plain values for JSON."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if isinstance(self.features, Sequence):
            given["features"] = list(self.features)
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> ReadOptions:
        """Build the options that ``as_dict`` returned."""
        return cls().updated(**given)

    @classmethod
    def take(cls, keywords: Mapping[str, Any]) -> tuple[ReadOptions, dict[str, Any]]:
        """Split keyword arguments into reading options and the rest."""
        names = [field.name for field in fields(cls)]
        given = {name: value for name, value in keywords.items() if name in names}
        return cls.from_dict(given), {k: v for k, v in keywords.items() if k not in given}


def reading_options(given: ReadOptions | None) -> ReadOptions:
    """Return the options of a call, or the defaults; anything else is rejected."""
    if given is not None and not isinstance(given, ReadOptions):
        raise ConfigError(f"reading={given!r}: expected contig.ReadOptions.")
    return given or ReadOptions()
