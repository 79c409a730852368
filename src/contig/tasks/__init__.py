"""Tasks: what a trained model is measured on, and how.

A task is a class with a name, options, a protocol, a result and a table. To add one, write it in a file of
its own and name it in the registry, or register it from outside with ``register_task``.
"""

from contig.tasks.registry import read_evaluation, register_task, task_class, task_names
from contig.tasks.results import Evaluation, Protocol, TaskResult
from contig.tasks.tables import ResultTable
from contig.tasks.task import Task

__all__ = [
    "Evaluation",
    "Protocol",
    "ResultTable",
    "Task",
    "TaskResult",
    "read_evaluation",
    "register_task",
    "task_class",
    "task_names",
]
