"""Typed records in JSON files: frozen dataclasses, written by one function and read by another.

A field is stored under its own name, or under the one given to ``stored_as``. A field with a default is left
out where it has that default; a NaN without one is stored as null. The keys of an ``inlined`` field, itself a
record, are stored among those of the record that holds it. Files carry the version of their schema under
``schema``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from contig.errors import RunError
from contig.files import disk_error

T = TypeVar("T")
Json = dict[str, Any]


class Record:
    """Base of the records: dataclasses declared with ``frozen=True, kw_only=True, eq=False``."""

    def as_dict(self) -> Json:
        """Return plain values, ready for JSON."""
        return _encode_fields(self)

    def __eq__(self, other: object) -> bool:
        """Compare what would be stored, so that missing values (NaN) are equal."""
        return type(other) is type(self) and encode(other) == encode(self)

    __hash__ = None  # type: ignore[assignment]


def stored_as(key: str, default: Any = MISSING) -> Any:
    """Declare a field that is stored under another name, such as one that is not an identifier."""
    return field(default=default, metadata={"key": key})


def inlined() -> Any:
    """Declare a field whose own keys are stored in place of it."""
    return field(metadata={"inlined": True})


# -- writing ------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Convert a record, or a collection of them, to plain values for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return _encode_fields(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _encode_fields(record: Any) -> Json:
    content: Json = {}
    for one in fields(record):
        value = getattr(record, one.name)
        if one.metadata.get("inlined"):
            content |= encode(value)
        elif not _is_default(value, one.default):
            content[_key(one)] = encode(value)
    return content


def _is_default(value: Any, default: Any) -> bool:
    if default is MISSING:
        return False
    return bool(value == default) or (value != value and default != default)  # NaN differs from itself


def _key(of: Field[Any]) -> str:
    return str(of.metadata.get("key", of.name))


# -- reading ------------------------------------------------------------------------------------------------


def read_versioned(path: Path, version: int, upgrade: Callable[[Json], Json], cure: str = "") -> Json:
    """Read a JSON file; ``upgrade`` converts content of an older version, or of none, to the present one.

    ``cure`` ends the error message about a damaged file.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise disk_error(error, path) from error
    except (ValueError, RecursionError) as error:
        raise RunError(_joined(f"{path} cannot be read ({error}); the file is damaged.", cure)) from error
    if not isinstance(content, dict):
        problem = f"{path} must hold a JSON object, not {_kind_of(content)}; the file is damaged."
        raise RunError(_joined(problem, cure))
    found = content.get("schema")
    if found is None or (isinstance(found, int) and found < version):
        return upgrade(content)
    if found != version:
        raise newer_schema(path, found, version)
    return content


def newer_schema(path: Path, found: object, version: int) -> RunError:
    """Describe a file whose schema this version cannot read."""
    return RunError(
        f"{path}: schema is {found!r}, but this version of contig reads up to {version}. Upgrade contig."
    )


def _joined(problem: str, cure: str) -> str:
    return f"{problem} {cure}" if cure else problem


def rename_key(content: Json, section: str, old: str, new: str) -> Json:
    """Rename a key in a section of a file's content, if it is there; for ``upgrade``."""
    keys = content.get(section)
    if not isinstance(keys, dict) or old not in keys:
        return content
    return {**content, section: {new if key == old else key: value for key, value in keys.items()}}


def decode(kind: type[T], content: Any, source: str | Path, cure: str = "") -> T:
    """Build the record of type ``kind`` from ``content``.

    Error messages name ``source``, the file, and end with ``cure``.
    """
    decoded: T = _Reader(str(source), cure).read(kind, content, "")
    return decoded


class _Reader:
    """Checks values against types, and says which field of which file is wrong."""

    def __init__(self, source: str, cure: str) -> None:
        self.source, self.cure = source, cure

    def read(self, kind: Any, value: Any, at: str) -> Any:
        origin, inner = get_origin(kind) or kind, get_args(kind)
        if kind is Any:
            return value
        if is_dataclass(origin):
            return self._record(kind, value, at)
        if origin in (Union, UnionType):
            if value is None and NoneType in inner:
                return None
            return self.read(next(k for k in inner if k is not NoneType), value, at)
        if origin is Literal:
            return value if value in inner else self._refuse(at, " or ".join(map(repr, inner)), value)
        if origin is tuple:
            return self._sequence(inner, value, at)
        if origin is dict:
            content = self._object(value, at)
            return {key: self.read(inner[1], item, _join(at, key)) for key, item in content.items()}
        return self._scalar(kind, value, at)

    def _record(self, kind: Any, value: Any, at: str) -> Any:
        content, types = self._object(value, at), _field_types(kind)
        found = {}
        for one in fields(get_origin(kind) or kind):
            if one.metadata.get("inlined"):
                found[one.name] = self.read(types[one.name], content, at)
            elif (key := _key(one)) in content:
                found[one.name] = self.read(types[one.name], content[key], _join(at, key))
            elif one.default is MISSING and one.default_factory is MISSING:
                raise self._error(f"the field {_join(at, key)} is missing.")
        return (get_origin(kind) or kind)(**found)

    def _sequence(self, inner: tuple[Any, ...], value: Any, at: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            self._refuse(at, "a list", value)
        kinds = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        if len(kinds) != len(value):
            self._refuse(at, f"a list of {len(kinds)} values", value)
        return tuple(self.read(k, v, f"{at}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))

    def _object(self, value: Any, at: str) -> Json:
        if not isinstance(value, dict):
            self._refuse(at, "an object", value)
        content: Json = value
        return content

    def _scalar(self, kind: Any, value: Any, at: str) -> Any:
        if kind is float and value is None:
            return math.nan
        allowed = (int, float) if kind is float else kind
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            self._refuse(at, {int: "an integer", float: "a number", str: "text"}.get(kind, str(kind)), value)
        return kind(value)

    def _refuse(self, at: str, expected: str, value: Any) -> Any:
        what = f"the field {at}" if at else "the content"
        raise self._error(f"{what} must be {expected}, not {_kind_of(value)}.")

    def _error(self, problem: str) -> RunError:
        return RunError(_joined(f"{self.source}: {problem}", self.cure))


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _kind_of(value: Any) -> str:
    return {dict: "an object", list: "a list", NoneType: "null"}.get(type(value)) or repr(value)


def _field_types(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields, with the parameters of generic classes filled in."""
    origin = get_origin(kind) or kind
    given = _type_arguments(kind)
    return {name: _filled(hint, given) for name, hint in get_type_hints(origin).items()}


def _type_arguments(kind: Any) -> dict[Any, Any]:
    """Map the type variables of a class and of its bases to what they stand for."""
    origin = get_origin(kind) or kind
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    for base in getattr(origin, "__orig_bases__", ()):
        if is_dataclass(get_origin(base)):
            given |= {name: _filled(hint, given) for name, hint in _type_arguments(base).items()}
    return given


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    if free := getattr(hint, "__parameters__", ()):
        return hint[tuple(given.get(one, one) for one in free)]
    return hint
