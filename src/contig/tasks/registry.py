"""Tasks by name: the built-in ones, those of installed packages, and those registered by a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from contig.errors import ConfigError, RunError
from contig.options import without_default
from contig.registry import Registry
from contig.schema import decode, read_versioned
from contig.tasks.results import SCHEMA, Evaluation, TaskResult, upgrade
from contig.tasks.task import Task

T = TypeVar("T", bound=type[Task[Any, Any]])

GROUP = "contig.tasks"  # the entry point group in which installed packages offer tasks
RESERVED = (
    "run",
    "task",
    "data",
    "reading",
    "batch_size",
    "show",
    "out",
    "latex",
    "heuristics",
    "device",
    "json",
)  # arguments of every evaluation

_BUILTIN = {
    "link": "contig.tasks.link:LinkTask",
    "recommend": "contig.tasks.recommend:RecommendTask",
    "classify": "contig.tasks.classify:ClassifyTask",
    "intervals": "contig.tasks.intervals:IntervalsTask",
}


def check_task_class(name: str, found: Any) -> None:
    """Raise a ``ConfigError`` that says what ``found`` lacks to be used as the task ``name``."""
    if not isinstance(found, type) or not issubclass(found, Task):
        raise ConfigError(f"The task {name!r} is {found!r}; expected a subclass of contig.Task.")
    if problem := _problem(name, found):
        raise ConfigError(f"{found.__module__}.{found.__qualname__} cannot be used as a task: {problem}.")


def _problem(name: str, kind: type[Task[Any, Any]]) -> str | None:
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        return f"it is abstract; implement {', '.join(missing)}"
    if kind.measure is Task.measure and kind.measure_each is Task.measure_each:
        return "it measures nothing; implement measure or measure_each"
    if lacking := [a for a in ("name", "summary", "options", "result_type") if not hasattr(kind, a)]:
        return f"give it the class attribute {lacking[0]}"
    if ":" not in name and kind.name != name:
        return f"its attribute 'name' is {kind.name!r}, but it is registered as {name!r}; use the same name"
    if not dataclasses.is_dataclass(kind.options):
        return "options must be a dataclass whose fields are made by contig.option"
    if without := without_default(kind.options):
        return f"every option needs a default, and {', '.join(without)} of {kind.options.__name__} has none"
    if taken := [f.name for f in dataclasses.fields(kind.options) if f.name in RESERVED]:
        return f"every evaluation has an argument {taken[0]!r}; rename this option"
    result: Any = kind.result_type
    if not isinstance(result, type) or not issubclass(result, TaskResult):
        return "result_type must be a dataclass derived from contig.TaskResult"
    return None


def check_result(task: Task[Any, Any], found: Any) -> None:
    """Raise a ``ConfigError`` if a task measured anything but what it declares."""
    if not isinstance(found, task.result_type):
        raise ConfigError(
            f"{type(task).__qualname__}.measure returned an object of type {type(found).__name__}; expected "
            f"its result_type, {task.result_type.__name__}."
        )


REGISTRY: Registry[type[Task[Any, Any]]] = Registry("task", _BUILTIN, GROUP, check_task_class)


def task_names() -> list[str]:
    """List every task that has a name: built-in, registered, and of installed packages."""
    return list(REGISTRY)


def task_class(name: str) -> type[Task[Any, Any]]:
    """Return the task of that name, or the one at ``package.module:Class``."""
    return REGISTRY[name]


@overload
def register_task(task: T, *, replace: bool = ...) -> T: ...
@overload
def register_task(task: None = ..., *, replace: bool = ...) -> Callable[[T], T]: ...


def register_task(task: T | None = None, *, replace: bool = False) -> T | Callable[[T], T]:
    """Make a task known by its ``name``, in ``Run.evaluate`` and ``contig evaluate --task``.

    Use it as a call or as a decorator. A name that another class has needs ``replace=True``; running the
    same definition again, as notebooks do, replaces it anyway. Registration lasts for the process;
    packages can declare an entry point in the group ``contig.tasks`` instead.
    """
    if task is None:
        return lambda decorated: register_task(decorated, replace=replace)
    name = getattr(task, "name", repr(task))
    check_task_class(name, task)
    REGISTRY.register(name, task, replace=replace)
    return task


def read_evaluation(path: Path) -> Evaluation[Any]:
    """Read an evaluation from a file that ``contig evaluate --out`` has written."""
    cure = f"Delete {path} and evaluate again."
    content = read_versioned(path, SCHEMA, upgrade, cure)
    protocol = content.get("protocol")
    task = protocol.get("task") if isinstance(protocol, dict) else None
    if not isinstance(task, str) or task not in REGISTRY:
        raise RunError(
            f"{path}: the field protocol.task must be one of {', '.join(task_names())}, not {task!r}. {cure}"
        )
    generic: Any = Evaluation
    found: Evaluation[Any] = decode(generic[task_class(task).result_type], content, path, cure)
    return found
