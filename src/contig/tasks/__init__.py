"""What trained models are asked to do, and how well they do it. A new task is a file and a name here."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from contig.errors import ConfigError, unknown

if TYPE_CHECKING:
    from contig.tasks.setting import Setting

TASKS = ("link", "recommend", "classify", "intervals")


def measure(task: str, setting: Setting, **options: Any) -> dict[str, Any]:
    """The test events by one task's protocol: what it measured, and under ``protocol`` how.

    ``options`` are the keywords of that task's own ``measure``.
    """
    if task not in TASKS:
        raise ConfigError(unknown("task", task, TASKS))
    function = import_module(f"contig.tasks.{task}").measure
    known = [name for name in inspect.signature(function).parameters if name != "setting"]
    for name in options:
        if name not in known:
            raise ConfigError(unknown(f"option of the task {task}", name, known))
    found: dict[str, Any] = function(setting, **options)
    return found
