"""Commands with a task: their options are those of every task there is, which are loaded on use."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from contig.cli import console
from contig.cli.commands import Command, readable
from contig.errors import ContigError

if TYPE_CHECKING:
    from contig.tasks import Task

TASK_OPTIONS = "contig.task_options"  # where the context keeps them
LONGEST_METAVAR = 24  # a longer list of choices would be broken within a word; the help text names them too


@dataclass
class TaskOption:
    """An option of one or more tasks, as the command line shows it."""

    name: str
    help: str
    default: Any
    metavar: str
    tasks: list[str]

    @property
    def parameter(self) -> inspect.Parameter:
        """The option as a parameter of a command."""
        option = typer.Option(
            f"--{self.name.replace('_', '-')}",
            metavar=self.metavar,
            show_default=False if self.default is None else str(self.default),
            help=f"{self.help[0].upper()}{self.help[1:]} ({', '.join(self.tasks)}).",
            rich_help_panel="Task options",
        )
        annotation = Annotated[str | None, option]
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )


def task_options(tasks: Iterable[type[Task[Any, Any]]]) -> list[TaskOption]:
    """Collect the options of tasks; an option that several tasks have appears once."""
    from contig.options import describe

    found: dict[str, TaskOption] = {}
    for task in tasks:
        for one in describe(task.options()):
            new = TaskOption(one.name, one.help, one.default, _metavar(one.type), [])
            found.setdefault(new.name, new).tasks.append(task.name)
    return list(found.values())


def _metavar(kind: str) -> str:
    """Return the placeholder of an option's value: its choices, or a word for its type."""
    if kind.startswith("int"):
        return "N"
    choices = [part for part in kind.split(" | ") if part != "None"]
    listed = "|".join(choices)
    return listed if len(choices) > 1 and len(listed) <= LONGEST_METAVAR else "VALUE"


def known_tasks() -> list[type[Task[Any, Any]]]:
    """Load every task; one whose package is broken is left out with a notice."""
    from contig.tasks import task_class, task_names

    found = []
    for name in task_names():
        try:
            found.append(task_class(name))
        except ContigError as error:
            console.notice(str(error))
    return found


class TaskCommand(Command):
    """A command with a parameter ``task`` and the options of every task.

    An option of the command itself takes precedence over one of a task with the same name.
    """

    requested = ""  # the task that the command line names

    @cached_property
    def tasks(self) -> list[type[Task[Any, Any]]]:
        own = self._task_by_path()
        return [*known_tasks(), *([own] if own else [])]

    def _task_by_path(self) -> type[Task[Any, Any]] | None:
        """Return the task given as ``package.module:Class``; one that cannot be loaded is reported later."""
        from contig.tasks import task_class

        if ":" not in self.requested:
            return None
        try:
            return task_class(self.requested)
        except ContigError:
            return None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the task first, because it decides which options there are."""
        for word, following in zip(args, [*args[1:], ""], strict=False):
            name, _, value = word.partition("=")
            if name == "--task":
                self.requested = value or following
        return super().parse_args(ctx, args)

    @cached_property
    def task_params(self) -> list[Any]:
        """The options of the tasks, made by Typer from the signature of a function that has them."""

        def command(**given: str | None) -> None: ...

        taken = {param.name for param in self.params}
        parameters = [option.parameter for option in task_options(self.tasks) if option.name not in taken]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        holder = typer.Typer(add_completion=False)
        holder.command()(command)
        return readable(list(get_command(holder).params))

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = list(super().get_params(ctx))
        *own, help_option = params
        for param in own:
            if param.name == "task":
                param.help = "; ".join(f"{task.name}: {task.summary}" for task in self.tasks)
        return [*own, *self.task_params, help_option]

    def invoke(self, ctx: Any) -> Any:
        given = {param.name: ctx.params.pop(param.name) for param in self.task_params}
        ctx.meta[TASK_OPTIONS] = {name: value for name, value in given.items() if value is not None}
        return super().invoke(ctx)


def given_options(ctx: typer.Context) -> dict[str, str]:
    """Return the options of tasks that were given."""
    found: dict[str, str] = ctx.meta[TASK_OPTIONS]
    return found


def chosen_task(ctx: typer.Context, name: str) -> Task[Any, Any]:
    """Return the task of a command, with the options that were given."""
    from contig.tasks import task_class

    return task_class(name).of(**given_options(ctx))
