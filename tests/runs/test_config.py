"""The config of a run."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.problems import stream_of

from contig.data.events import EventStream
from contig.errors import ConfigError
from contig.models import MODELS, model_class
from contig.options import set_options
from contig.runs.config import RunConfig
from contig.runs.options import TrainOptions


def test_settings_are_options_of_the_model_or_of_the_training() -> None:
    config = RunConfig.of(
        "contig", {"dim": "64", "lr": "1e-3", "without": "transform,latest", "holdout": "paper"}
    )
    assert (config.model_options.dim, config.model_options.without) == (64, ("transform", "latest"))
    assert (config.train.lr, config.train.holdout) == (1e-3, "paper")
    changed = {"dim", "without"}
    default = RunConfig.of("contig")
    for field in dataclasses.fields(default.model_options):
        same = getattr(config.model_options, field.name) == getattr(default.model_options, field.name)
        assert same == (field.name not in changed)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_s_own_defaults_are_options_of_the_training(model: str) -> None:
    own = model_class(model).training_defaults
    assert set(own) <= {f.name for f in dataclasses.fields(TrainOptions)}
    assert not set(own) & {"seed", "holdout", "split_seed"}  # models are measured on the same events
    plain = dataclasses.asdict(TrainOptions())
    assert dataclasses.asdict(RunConfig.of(model).train) == plain | dict(own)


def test_settings_override_a_model_s_own_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_class("tgn"), "training_defaults", {"lr": 1e-3, "patience": 9})
    train = RunConfig.of("tgn", {"patience": "2"}).train
    assert (train.lr, train.patience, train.epochs) == (1e-3, 2, TrainOptions().epochs)
    assert RunConfig.of("recency").train == TrainOptions()


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (
            "contig",
            {"dimm": 3},
            "Unknown option 'dimm' of contig and its training. Did you mean 'dim'",
        ),
        ("edgebank", {"dim": 3}, "Unknown option 'dim' of edgebank and its training.*window"),
        ("contig", {"epoch": 3}, "Did you mean 'epochs'"),
        ("contig", {"dim": "many"}, "dim='many' is not a whole number"),
        ("contig", {"seed": -1}, "seed=-1 must be at least 0"),
        ("contig", {"scope": "alll"}, "Did you mean 'all'"),
        ("edgebnk", {}, "Unknown model 'edgebnk'.*Did you mean 'edgebank'"),
    ],
)
def test_unknown_names_get_suggestions(model: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RunConfig.of(model, settings)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epochs", 0),
        ("batch_size", -3),
        ("patience", 0),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("clip", -1.0),
        ("weight_decay", -0.1),
        ("checkpoint_seconds", -1.0),
    ],
)
def test_impossible_values_are_refused(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{option}={value}"):
        set_options(TrainOptions(), {option: value})


def test_training_options_can_be_changed() -> None:
    config = RunConfig.of("contig", {"dim": 9})
    longer = config.with_train(epochs="80")
    assert longer.train == dataclasses.replace(config.train, epochs=80)
    assert longer.model_options is config.model_options
    with pytest.raises(ConfigError, match="Did you mean 'epochs'"):
        config.with_train(epoch=3)


def star(leaves: int) -> EventStream:
    """Events of one hub with every leaf in turn, twice."""
    visitors = [1 + i % leaves for i in range(2 * leaves)]
    return stream_of([(leaf, 0, time) for time, leaf in enumerate(visitors)], leaves + 1)


@pytest.mark.parametrize(("leaves", "scope"), [(30, "near"), (300, "all")])
def test_the_scope_depends_on_the_links_that_near_finds(leaves: int, scope: str) -> None:
    """Of 30 latest partners of a hub its last 32 events show 30, of 300 only 32."""
    config = RunConfig.of("contig", {"holdout": "none"}).for_stream(star(leaves))
    assert config.model_options.scope == scope
    assert RunConfig.of("contig", {"scope": "pair"}).for_stream(star(leaves)).model_options.scope == "pair"
    assert RunConfig.of("contig-pair").for_stream(star(leaves)).model_options.scope == "near"


def test_the_scope_is_near_if_there_are_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contig.models.contig.MAX_NODES_OF_ALL", 200)
    assert RunConfig.of("contig", {"holdout": "none"}).for_stream(star(300)).model_options.scope == "near"


def test_test_events_do_not_decide_the_scope() -> None:
    """The hub appears only after the training events."""
    early = [(2 * i + 1, 2 * i + 2, i) for i in range(700)]
    late = [(1 + i, 0, 700 + i) for i in range(300)]
    config = RunConfig.of("contig", {"holdout": "none"}).for_stream(stream_of([*early, *late], 1401))
    assert config.model_options.scope == "near"
