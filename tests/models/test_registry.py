"""Models by name, by path and by class: registered, refused, trained and reopened."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trained import identical_runs, text_id_stream, tiny_stream
from torch import Tensor

import contig
from contig import registry
from contig.errors import ConfigError, RunError
from contig.models import MODELS, Model, model_class, model_name, model_names
from contig.models.registry import REGISTRY
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder
from contig.training import loop

OUTSIDE = Path(__file__).parents[1] / "outside" / "rhythm.py"
SMALL: dict[str, Any] = {"dim": 8, "neighbors": 3, "batch_size": 30, "lr": 0.01, "show": False}


@dataclass(frozen=True)
class NoOptions:
    """Nothing to choose."""


class Constant(Model):
    """Gives every node the same embedding."""

    name = "constant"
    options = NoOptions
    learns = False

    def __init__(self, options: NoOptions, data: contig.DataShape) -> None:
        super().__init__()

    def embed(self, state: Any, history: Any, nodes: Tensor, times: Tensor, as_of: Tensor) -> Tensor:
        return torch.ones(len(nodes), 2)


@pytest.fixture(autouse=True)
def only_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers, and draw no curves."""
    monkeypatch.setattr(REGISTRY, "_registered", {})
    monkeypatch.setattr(loop, "draw_curve", lambda session, folder: None)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder on the import path with the user's module ``rhythm``."""
    shutil.copy(OUTSIDE, tmp_path / "rhythm.py")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("rhythm", None)


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_built_in_model_is_known_by_its_own_name(name: str) -> None:
    assert model_class(name).name == name
    assert model_name(model_class(name)) == name


def test_an_unknown_model_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"Unknown model 'contg'\. Did you mean 'contig'.*register_model"):
        model_class("contg")


def test_a_registered_class_is_known_by_its_name() -> None:
    assert contig.register_model(Constant) is Constant
    assert model_names() == [*MODELS, "constant"]
    assert model_class("constant") is Constant
    assert model_name(Constant) == "constant"


def test_registering_by_decorators() -> None:
    @contig.register_model
    class First(Constant):
        name = "first"

    @contig.register_model(replace=True)
    class Second(Constant):
        name = "first"

    assert (First.__name__, model_class("first")) == ("First", Second)


def test_a_name_belongs_to_one_class() -> None:
    contig.register_model(Constant)
    other = type("Other", (Constant,), {})
    with pytest.raises(ConfigError, match="A model named 'constant' already"):
        contig.register_model(other)
    again = type(
        "Constant", (Constant,), {"__module__": Constant.__module__}
    )  # as a notebook cell, run twice
    contig.register_model(again)
    assert model_class("constant") is again
    with pytest.raises(ConfigError, match="A model named 'tgn' already"):
        contig.register_model(type("Other", (Constant,), {"name": "tgn"}))


def test_a_model_of_an_installed_package(monkeypatch: pytest.MonkeyPatch, outside: Path) -> None:
    points = [
        EntryPoint("rhythm", "rhythm:Rhythm", "contig.models"),
        EntryPoint("x", "rhythm:Rhythm", "contig.models"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "contig.models" else [])
    assert model_names()[-2:] == ["rhythm", "x"]
    assert model_name(model_class("rhythm")) == "rhythm"
    with pytest.raises(ConfigError, match="'name' is 'rhythm', but it is registered as 'x'"):
        model_class("x")


# -- what is refused --------------------------------------------------------------------------------------


@dataclass
class Undecided:
    """An option without a default."""

    dim: int


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"embed": Model.embed}, "is abstract; implement embed"),
        ({"name": ""}, "give it a class attribute 'name'"),
        ({"name": "a:b"}, "give it a class attribute 'name'"),
        ({"name": "runs/mine"}, "give it a class attribute 'name'"),
        ({"name": 3}, "give it a class attribute 'name'"),
        ({"options": dict}, "class attribute 'options', a dataclass"),
        ({"options": NoOptions()}, "class attribute 'options', a dataclass"),
        ({"options": Undecided}, "every option needs a default, and dim of Undecided has none"),
        ({"__init__": lambda self: None}, r"constructor must accept \(options, data\), not \(\)"),
    ],
)
def test_what_is_not_a_model(attributes: dict[str, Any], problem: str) -> None:
    broken = type("Broken", (Constant,), attributes)
    with pytest.raises(ConfigError, match=rf"Broken cannot be used as a model: .*{problem}"):
        contig.register_model(broken)
    with pytest.raises(ConfigError, match=problem):
        RunConfig.of(broken)


@pytest.mark.parametrize("thing", [3, dict, None])
def test_what_is_not_even_a_class_of_models(thing: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not a model: expected .* a subclass of contig\.Model"):
        model_name(thing)


def test_an_instance_is_refused() -> None:
    with pytest.raises(ConfigError, match="Pass the class Constant"):
        model_name(Constant(NoOptions(), contig.DataShape(0, None)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["epochs", "features"])
def test_an_option_may_not_hide_one_of_fit(name: str) -> None:
    options = make_dataclass("Options", [(name, int, 3)])
    contig.register_model(type("Clash", (Constant,), {"options": options}))
    with pytest.raises(
        ConfigError, match=f"constant: its option {name} has the name of another option of fit"
    ):
        RunConfig.of("constant")


# -- runs of a model from outside the package --------------------------------------------------------------


def test_what_a_run_records_of_a_class(outside: Path) -> None:
    from rhythm import Rhythm  # type: ignore[import-not-found]

    assert RunConfig.of(Rhythm).model == "rhythm:Rhythm"
    assert model_class("rhythm:Rhythm") is Rhythm
    contig.register_model(Rhythm)
    assert RunConfig.of(Rhythm).model == "rhythm"


def test_a_model_from_outside_trains_resumes_and_is_reopened(outside: Path, tmp_path: Path) -> None:
    from rhythm import Rhythm

    stream = tiny_stream()
    whole = contig.fit(stream, Rhythm, out=tmp_path / "whole", epochs=2, **SMALL)
    assert whole.config.model == whole.metrics.facts.model == "rhythm:Rhythm"
    assert whole.metrics.parameters > 0
    contig.fit(stream, "rhythm:Rhythm", out=tmp_path / "part", epochs=1, **SMALL)
    contig.resume(tmp_path / "part", epochs=2, show=False)
    assert identical_runs(tmp_path / "part", tmp_path / "whole")

    reopened = contig.Run.open(tmp_path / "whole")
    assert isinstance(reopened.model, Rhythm)
    assert reopened.evaluate("link").result.transductive == whole.metrics.transductive
    assert len(reopened.recommend(reopened.stream.ids.labels[0], k=3)) == 3


def test_a_class_of_a_notebook_is_reopened_once_it_is_registered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(Constant):
        name = "local"

    with caplog.at_level("WARNING"):
        contig.fit(text_id_stream(), Local, out=tmp_path / "run", show=False)
    assert "call contig.register_model(Local)" in caplog.text
    assert contig.Run.open(tmp_path / "run").config.model == "local"

    monkeypatch.setattr(REGISTRY, "_registered", {})  # another process
    with pytest.raises(RunError, match=r"config.json: Unknown model 'local'.*contig\.register_model first"):
        contig.Run.open(tmp_path / "run")
    contig.register_model(Local)
    assert isinstance(contig.Run.open(tmp_path / "run").model, Local)


def test_a_model_without_parameters_must_say_so() -> None:
    silent = type("Silent", (Constant,), {"learns": True})
    with pytest.raises(ConfigError, match=r"Silent has no parameters to train.*learns = False"):
        contig.fit(text_id_stream(), silent, epochs=1, show=False)


def test_a_module_that_is_gone(outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig.of("rhythm:Rhythm")
    RunFolder(tmp_path / "run").create(text_id_stream(), config)
    assert RunFolder(tmp_path / "run").config() == config
    (tmp_path / "rhythm.py").unlink()
    monkeypatch.delitem(sys.modules, "rhythm")
    with pytest.raises(RunError, match=r"'rhythm:Rhythm' cannot be loaded \(.*No module named 'rhythm'"):
        RunFolder(tmp_path / "run").config()


def test_the_command_finds_modules_of_the_working_directory(outside: Path) -> None:
    script = Path(sys.executable).with_name("contig")
    done = subprocess.run(
        [script, "models", "rhythm:Rhythm", "--json"],
        cwd=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"dim"' in done.stdout
