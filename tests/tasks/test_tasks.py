"""Tasks by name: built in, registered, at a path, or of an installed package."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from support.evaluation import context_of
from support.problems import case, random_stream, shape_of
from support.sharing import ShareTask

from contig import registry
from contig.errors import ConfigError
from contig.tasks import Task, register_task, task_class, task_names
from contig.tasks.context import EvaluationContext
from contig.tasks.link import LinkTask
from contig.tasks.registry import REGISTRY, check_task_class


@pytest.fixture
def context() -> EvaluationContext:
    stream = random_stream(3, events=80)
    return context_of(case("recency", shape_of(stream)), stream, 10)


@pytest.fixture
def registered() -> Iterator[None]:
    """The task above, known by its name for one test."""
    register_task(ShareTask)
    yield
    del REGISTRY._registered["share"]


def test_built_in_tasks() -> None:
    assert task_names() == ["link", "recommend", "classify", "intervals"]
    for name in task_names():
        check_task_class(name, task_class(name))
    assert task_class("link") is LinkTask


def test_options_are_those_of_the_task() -> None:
    assert LinkTask.of(negatives="historical").opt.negatives == "historical"
    assert ShareTask.of(power="3").opt.power == 3  # as the command line gives it
    with pytest.raises(
        ConfigError, match=r"Unknown option 'candidate' of the task recommend. Did you mean 'candidates'"
    ):
        task_class("recommend").of(candidate=3)
    with pytest.raises(ConfigError, match="Unknown option 'negatives'"):
        task_class("classify").of(negatives="random")
    with pytest.raises(ConfigError, match="power=0"):
        ShareTask.of(power=0)


def test_unknown_tasks_get_suggestions() -> None:
    known = ", ".join(sorted(task_names()))
    with pytest.raises(ConfigError, match=f"'links'.* Did you mean 'link'.* Known: {known}"):
        task_class("links")


@pytest.mark.usefixtures("registered")
def test_a_registered_task(context: EvaluationContext) -> None:
    assert task_names()[-1] == "share"
    found = task_class("share").of(power=2).measure(context)
    assert found.share == pytest.approx(0.15**2)
    assert found.protocol.task == "share"
    assert found.protocol.holdout == "tgn"
    register_task(ShareTask)  # the same class again changes nothing


def test_a_task_at_a_path() -> None:
    assert task_class("contig.tasks.link:LinkTask") is LinkTask
    with pytest.raises(ConfigError, match=r"expected a subclass of contig\.Task"):
        task_class("contig.tasks.link:LinkOptions")


def test_a_task_of_an_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("share", "support.sharing:ShareTask", "contig.tasks")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    assert "share" in task_names()
    assert task_class("share") is ShareTask


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measure": Task.measure}, "it measures nothing; implement measure or measure_each"),
        ({"table": Task.table}, "it is abstract; implement table"),
        ({"name": "other"}, "its attribute 'name' is 'other'"),
        ({"options": dict}, "options must be a dataclass"),
        (
            {"options": dataclasses.make_dataclass("Options", [("power", int)])},
            "every option needs a default, and power of Options has none",
        ),
        ({"result_type": dict}, "result_type must be a dataclass derived from contig.TaskResult"),
        (
            {"options": dataclasses.make_dataclass("Options", [("device", str, "cpu")])},
            "every evaluation has an argument 'device'",
        ),
        (
            {"options": dataclasses.make_dataclass("Options", [("data", str, "new.csv")])},
            "every evaluation has an argument 'data'",
        ),
    ],
)
def test_incomplete_tasks_are_refused(changes: dict[str, Any], message: str) -> None:
    broken = type("Broken", (ShareTask,), changes)
    with pytest.raises(ConfigError, match=f"Broken cannot be used as a task: {message}"):
        check_task_class("share", broken)
