"""``config.json``: what it holds, and how older files are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.trained import tiny_stream

from contig.errors import RunError
from contig.files import write_json
from contig.models import MODELS
from contig.numerics import VERSION
from contig.runs.config import RunConfig
from contig.runs.manifest import RunManifest, read_manifest

STREAM = tiny_stream()


def written(path: Path, config: RunConfig, **changes: Any) -> RunManifest:
    """The manifest of a run with this config, written and read again."""
    content = {**RunManifest.of(STREAM, config).as_dict(), **changes}
    write_json(path, {key: value for key, value in content.items() if value is not None})
    return read_manifest(path)


def test_the_keys_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    written(path, RunConfig.of("contig", {"dim": 9, "seed": 3}))
    content = json.loads(path.read_text())
    assert set(content) == {"schema", "contig", "numerics", "data", "parts", "model", "options", "train"}
    assert (content["schema"], content["numerics"], content["model"]) == (1, VERSION, "contig")
    assert (content["options"]["dim"], content["train"]["seed"]) == (9, 3)
    fingerprint = STREAM.fingerprint()
    assert content["data"] == {"origin": "tiny", "events": 400, "nodes": 32, "fingerprint": fingerprint}


@pytest.mark.parametrize("model", MODELS)
def test_configs_survive_the_file(model: str, tmp_path: Path) -> None:
    config = RunConfig.of(model, {"epochs": 7, "seed": 3, "checkpoint_seconds": 0})
    assert written(tmp_path / "config.json", config).config == config


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("contig", {"without": ["transform", "update"]}),
        ("edgebank", {"window": 3.5}),
        ("edgebank", {"window": "none"}),
    ],
)
def test_tuples_and_missing_values_survive_the_file(
    model: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    config = RunConfig.of(model, settings)
    assert written(tmp_path / "config.json", config).config == config


def test_older_files_are_upgraded(tmp_path: Path) -> None:
    """They have no versions, and say ``rule`` instead of ``holdout``."""
    config = RunConfig.of("contig", {"holdout": "paper"})
    train = {"rule" if key == "holdout" else key: value for key, value in config.as_dict()["train"].items()}
    found = written(tmp_path / "config.json", config, schema=None, numerics=None, train=train)
    assert found.config == config
    assert found.numerics is None
    assert found.as_dict()["train"]["holdout"] == "paper"


def test_newer_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"config\.json: schema is 2"):
        written(tmp_path / "config.json", RunConfig.of("contig"), schema=2)


def test_a_changed_config_keeps_the_rest() -> None:
    before = RunManifest.of(STREAM, RunConfig.of("contig"))
    after = before.with_config(before.config.with_train(epochs=9))
    assert after.config.train.epochs == 9
    assert {**after.as_dict(), "train": 0} == {**before.as_dict(), "train": 0}
