"""Options: each type is parsed from text and from JSON's values, and what does not fit is named."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import pytest
from support.trained import tiny_stream

from contig.errors import ConfigError
from contig.models import MODELS, model_class
from contig.options import OptionInfo, as_dict, describe, option, parse_settings, set_options
from contig.runs.config import RunConfig, build_model
from contig.runs.options import TrainOptions


@dataclass(frozen=True)
class Sample:
    """One option of every type."""

    width: int = option(10, "a whole number")
    rate: float = option(0.5, "a number")
    norm: bool = option(True, "a switch")
    word: str = option("plain", "a text")
    scope: Literal["pair", "batch", "all"] = option("pair", "a choice")
    window: float | None = option(None, "a number or nothing")
    limit: int | None = option(3, "a whole number or nothing")
    without: tuple[Literal["update", "transform"], ...] = option((), "some of a choice")
    sizes: tuple[int, ...] = option((1, 2), "some numbers")


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("width", "12", 12),
        ("width", 12.0, 12),
        ("width", " 7 ", 7),
        ("rate", "3e-4", 3e-4),
        ("rate", 2, 2.0),
        ("norm", "false", False),
        ("norm", "Yes", True),
        ("norm", "off", False),
        ("norm", 0, False),
        ("norm", True, True),
        ("word", "none", "none"),
        ("scope", "all", "all"),
        ("window", "none", None),
        ("window", "None", None),
        ("window", None, None),
        ("window", "86400", 86400.0),
        ("limit", "none", None),
        ("limit", "4", 4),
        ("without", "", ()),
        ("without", "transform", ("transform",)),
        ("without", "transform,update", ("transform", "update")),
        ("without", "transform, update,", ("transform", "update")),
        ("without", ["update"], ("update",)),
        ("sizes", "80,10", (80, 10)),
        ("sizes", (3,), (3,)),
    ],
)
def test_a_value_is_parsed_as_its_type(name: str, given: Any, expected: Any) -> None:
    found = getattr(set_options(Sample(), {name: given}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"widht": 3}, "Unknown option 'widht'. Did you mean 'width'"),
        ({"zzz": 3}, "Known: limit, norm, rate, scope, sizes, width, window, without, word"),
        ({"width": "ten"}, "width='ten' is not a whole number; use a value such as 10"),
        ({"width": "1.5"}, "width='1.5' is not a whole number"),
        ({"width": 1.5}, "width=1.5 is not a whole number"),
        ({"width": float("inf")}, "width=inf is not a whole number"),
        ({"width": None}, "width=None is not a whole number"),
        ({"rate": "fast"}, "rate='fast' is not a number; use a value such as 3e-4"),
        ({"norm": "maybe"}, "norm='maybe' is not true or false"),
        ({"scope": "al"}, r"Unknown value for scope 'al'. Did you mean 'all'\?"),
        ({"window": "long"}, "window='long' is not a number"),
        ({"without": "transfrom"}, r"Unknown value for without 'transfrom'. Did you mean 'transform'\?"),
        ({"sizes": "1,b"}, "sizes='b' is not a whole number"),
    ],
)
def test_invalid_settings_are_rejected_with_advice(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        set_options(Sample(), settings)


def test_other_options_are_unchanged() -> None:
    start = Sample(width=99)
    changed = set_options(start, {"rate": "1"})
    assert changed == Sample(width=99, rate=1.0)
    assert start == Sample(width=99)  # the given config is left as it was


def test_settings_are_parsed_from_the_command_line() -> None:
    pairs = ["lr=3e-4", " scope = all", "without=", "note=a=b"]
    assert parse_settings(pairs) == {"lr": "3e-4", "scope": "all", "without": "", "note": "a=b"}


@pytest.mark.parametrize("pair", ["lr", "=3", " =3", ""])
def test_a_setting_without_a_key_or_sign_is_rejected(pair: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_settings([pair])


def test_describe_lists_name_type_default_and_help() -> None:
    rows = {row.name: row for row in describe(Sample(width=4))}
    assert list(rows) == [f.name for f in fields(Sample)]
    assert rows["width"] == OptionInfo("width", "int", 4, "", "a whole number")
    assert rows["scope"].type == "pair | batch | all"
    assert rows["window"].type == "float | None"


def test_a_config_survives_json() -> None:
    config = set_options(Sample(), {"without": "update", "window": 2.5, "sizes": "4,5"})
    kept = json.loads(json.dumps(as_dict(config)))
    assert set_options(Sample(), kept) == config


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_documented_options_that_survive_json(name: str) -> None:
    config = model_class(name).options()
    assert all(row.help for row in describe(config))
    assert set_options(config, json.loads(json.dumps(as_dict(config)))) == config


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"epochs": "0"}, "epochs=0 must be at least 1"),
        ({"heads": 0}, "heads=0 must be at least 1"),
        ({"dim": "-3"}, "dim=-3 must be at least 1"),
        ({"dropout": "1"}, "dropout=1.0 must be below 1"),
        ({"dropout": -0.1}, "dropout=-0.1 must be at least 0"),
        ({"horizon": 0}, "horizon=0.0 must be above 0"),
        ({"lr": "nan"}, "lr=nan must be above 0"),
    ],
)
def test_values_out_of_range_are_rejected(setting: dict[str, Any], words: str) -> None:
    from contig.runs.config import RunConfig

    with pytest.raises(ConfigError, match=words):
        RunConfig.of("contig", setting)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split_seed": -1}, "split_seed=-1 must be at least 0"),
        ({"seed": 10**30}, "seed=1000000000000000000000000000000 must be below 9223372036854775808"),
        ({"lr": math.inf}, "lr=inf must be finite"),
        ({"lr": "nan"}, "lr=nan must be above 0"),
        ({"lr": [1]}, "lr=[1] is not a number"),
        ({"epochs": True}, "epochs=True is not a whole number"),
        ({"epochs": {}}, "epochs={} is not a whole number"),
        ({"holdout": ["tgn"]}, "Unknown value for holdout"),
    ],
)
def test_values_out_of_range_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        set_options(TrainOptions(), settings)
    assert message in str(refusal.value)


@pytest.mark.parametrize("given", [3, {"a": 1}, None])
def test_a_list_must_be_one(given: object) -> None:
    with pytest.raises(ConfigError, match=r"sizes=.* is not a list"):
        set_options(Sample(), {"sizes": given})


def test_ranges_are_described() -> None:
    ranges = {row.name: row.range for row in describe(TrainOptions())}
    assert ranges["epochs"] == "at least 1"
    assert ranges["lr"] == "above 0, finite"
    assert ranges["seed"] == "at least 0, below 2**63"
    assert ranges["holdout"] == ""


def test_more_heads_than_dimensions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"heads=9 must be at most dim=8"):
        build_model(RunConfig.of("contig", {"dim": 8, "heads": 9}), tiny_stream())
