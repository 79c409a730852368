"""The schema of recipes knows whatever the reader accepts."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from contig.data.read_options import ReadOptions
from contig.experiments.recipe_files import packaged_recipes
from contig.experiments.recipe_schema import recipe_schema
from contig.experiments.recipes import FIELDS
from contig.models.registry import REGISTRY

SCHEMA = recipe_schema()


def accepts(schema: dict, value: object) -> bool:
    """A small validator: types, enumerations, limits and alternatives."""
    if "anyOf" in schema:
        return any(accepts(one, value) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {"boolean": bool, "integer": int, "number": (int, float), "string": str, "array": list}
    kinds |= {"null": type(None)}
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if isinstance(value, bool) and "boolean" not in names:
        return False
    return any(isinstance(value, kinds[name]) for name in names) and not (
        ("minimum" in schema and value < schema["minimum"])
        or ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"])
        or ("exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"])
    )


@pytest.mark.parametrize("path", packaged_recipes().values(), ids=packaged_recipes())
def test_every_recipe_of_the_package_fits(path: Path) -> None:
    content = json.loads(path.read_text("utf-8"))
    assert content.keys() <= SCHEMA["properties"].keys()
    assert accepts(SCHEMA["properties"]["model"], content.get("model", "contig"))
    settings = SCHEMA["$defs"]["settings"]["properties"]
    more = [own for key in ("variants", "models") for own in content.get(key, {}).values()]
    for given in (content.get("settings", {}), *more):
        for key, value in given.items():
            assert accepts(settings[key], value), (key, value)


def test_wrong_values_do_not_fit() -> None:
    settings = SCHEMA["$defs"]["settings"]["properties"]
    wrong = {"lr": 0, "epochs": 0, "loss": "hinge", "seed": True, "batch_size": 1.5, "averaging": 1}
    assert not any(accepts(settings[key], value) for key, value in wrong.items())


def test_the_keys_are_those_of_the_reader() -> None:
    assert set(SCHEMA["properties"]) == set(FIELDS)
    assert list(SCHEMA["$defs"]["reading"]["properties"]) == [one.name for one in fields(ReadOptions)]
    assert SCHEMA["properties"]["model"]["anyOf"][0]["enum"] == list(REGISTRY)
