"""The JSON schema of recipes, for editors that complete and check them."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import fields
from math import isinf
from types import NoneType, UnionType
from typing import Any, Literal

from contig.data.read_options import ReadOptions
from contig.models import model_class
from contig.models.registry import REGISTRY
from contig.runs.options import TrainOptions

Schema = dict[str, Any]
SCALARS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
COLUMN = {"type": ["string", "integer"]}


def recipe_schema() -> Schema:
    """Make the schema from the options of the built-in models, of training and of reading."""
    settings = {"$ref": "#/$defs/settings"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contig recipe",
        "type": "object",
        "required": ["data"],
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string"},
            "data": {"type": "string", "description": "a file, or the name of a dataset"},
            "model": {
                "description": "a model's name, or package.module:Class",
                "anyOf": [{"enum": list(REGISTRY)}, {"type": "string", "pattern": "^[\\w.]+:\\w+$"}],
            },
            "settings": settings,
            "reading": {"$ref": "#/$defs/reading"},
            "variants": {
                "type": "object",
                "description": "more recipes by name: each has the settings above, some of them replaced",
                "additionalProperties": settings,
            },
            "models": {
                "type": "object",
                "description": "models to compare, instead of model and variants, with settings of their own",
                "additionalProperties": settings,
            },
        },
        "$defs": {"settings": _settings(), "reading": _reading()},
    }


def _settings() -> Schema:
    """Describe the options of training and of every built-in model; other models may have others."""
    found: Schema = {}
    kinds: list[Any] = [TrainOptions, *(model_class(name).options for name in REGISTRY)]
    for kind in kinds:
        types = typing.get_type_hints(kind)
        for one in fields(kind):
            found.setdefault(one.name, []).append((types[one.name], one.metadata))
    return {
        "type": "object",
        "description": "options of the model and of its training",
        "properties": {name: _option(found[name]) for name in sorted(found)},
    }


def _option(uses: list[tuple[Any, typing.Mapping[str, Any]]]) -> Schema:
    """Describe an option by its first use; limits only where every model has the same."""
    types = [_type(kind) for kind, _ in uses]
    described = types[0] if all(one == types[0] for one in types) else {"anyOf": _distinct(types)}
    first = uses[0][1]
    schema = {**described, "description": first.get("help", "")}
    for key, name in (("low", "minimum"), ("above", "exclusiveMinimum"), ("below", "exclusiveMaximum")):
        limits = {meta.get(key) for _, meta in uses}
        if len(limits) == 1 and (limit := limits.pop()) is not None and not isinf(limit):
            schema[name] = limit
    return schema


def _distinct(schemas: list[Schema]) -> list[Schema]:
    return [one for i, one in enumerate(schemas) if one not in schemas[:i]]


def _type(kind: Any) -> Schema:
    origin, inner = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, UnionType):
        return {"anyOf": [{"type": "null"} if one is NoneType else _type(one) for one in inner]}
    if origin is tuple:
        return {"anyOf": [{"type": "array", "items": _type(inner[0])}, {"type": "string"}]}
    return {"type": SCALARS[origin]}


def _reading() -> Schema:
    types = typing.get_type_hints(ReadOptions)
    return {
        "type": "object",
        "description": "which column is what, and how the file is read",
        "additionalProperties": False,
        "properties": {one.name: _reading_option(types[one.name]) for one in fields(ReadOptions)},
    }


def _reading_option(kind: Any) -> Schema:
    """Describe an option of reading: text, numbers, flags and lists of columns."""
    kinds = typing.get_args(kind)
    single = [name for one, name in SCALARS.items() if one in kinds]
    columns = any(typing.get_origin(one) is Sequence for one in kinds)
    lists = [{"type": "array", "items": COLUMN}] if columns else []
    return {"anyOf": [*({"type": name} for name in single), *lists]}
