"""What trained models are asked to do, and how well they do it. A new task is a file and a name here."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contig.errors import ConfigError, RunError, unknown
from contig.schema import decode, read_versioned
from contig.tasks import results
from contig.tasks.results import Evaluation, TaskResult

if TYPE_CHECKING:
    from contig.tasks.setting import Setting

RESULTS: dict[str, type[TaskResult]] = {
    "link": results.LinkResult,
    "recommend": results.RecommendResult,
    "classify": results.ClassifyResult,
    "intervals": results.IntervalResult,
}
TASKS = tuple(RESULTS)


def measure(task: str, setting: Setting, **options: Any) -> TaskResult:
    """Measure the test events by one task's protocol.

    ``options`` are the keywords of that task's own ``measure``.
    """
    if task not in TASKS:
        raise ConfigError(unknown("task", task, TASKS))
    function = import_module(f"contig.tasks.{task}").measure
    known = [name for name in inspect.signature(function).parameters if name != "setting"]
    for name in options:
        if name not in known:
            raise ConfigError(unknown(f"option of the task {task}", name, known))
    found: TaskResult = function(setting, **options)
    return found


def read_evaluation(path: Path) -> Evaluation[Any]:
    """The evaluation in a file that ``contig evaluate --out`` has written."""
    content = read_versioned(path, results.SCHEMA, results.upgrade)
    protocol = content.get("protocol")
    task = protocol.get("task") if isinstance(protocol, dict) else None
    if task not in RESULTS:
        raise RunError(f"{path}: the field protocol.task must be one of {', '.join(TASKS)}, not {task!r}.")
    generic: Any = Evaluation
    found: Evaluation[Any] = decode(generic[RESULTS[task]], content, path)
    return found
