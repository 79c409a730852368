"""A trained run: a folder, opened."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import torch

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.errors import ConfigError
from contig.kernels.devices import pick_device
from contig.models import Model, NodeState
from contig.options import set_options
from contig.progress import Display
from contig.runs.config import RunConfig, build_model
from contig.runs.folder import RunFolder
from contig.runs.metrics import RunMetrics, run_facts
from contig.runs.trained_model import TrainedModel
from contig.streaming.prepared import PreparedStream
from contig.streaming.walker import replay
from contig.tasks.baselines import HEURISTICS
from contig.tasks.context import EvaluationContext
from contig.tasks.registry import task_class
from contig.tasks.results import Evaluation, TaskResult
from contig.tasks.task import Task

log = logging.getLogger("contig")

R = TypeVar("R", bound=TaskResult)


class Run(TrainedModel):
    """A trained model with the folder that holds it.

    It answers for any node and time (``embed``, ``recommend``, ``trajectory``), is measured by any task
    (``evaluate``), and has the test result and the record of its training (``metrics``).
    """

    def __init__(
        self, folder: RunFolder, config: RunConfig, stream: EventStream, model: Model, state: NodeState
    ) -> None:
        super().__init__(stream, model, state, config.train.batch_size)
        self.folder, self.config = folder, config

    @classmethod
    def open(cls, path: str | Path, device: str | torch.device = "auto") -> Run:
        """Open a run's folder; ``device`` is auto (a GPU if there is one), cpu, cuda or cuda:1.

        A run whose training was interrupted answers from its best epoch so far, with a notice.
        """
        folder, on = RunFolder(path), pick_device(str(device))
        config, stream = folder.config(), folder.stream()
        complete = folder.has("serving.pt") or not folder.has("best.pt")
        name = "serving.pt" if complete else "best.pt"
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn and discarded
            model = build_model(config, stream).to(on)
        state = NodeState(model.blank(), stream.num_nodes, on, on_host=config.train.graph_on_host(on))
        saved = folder.restore(name, model, state, len(stream), **({} if complete else {"epoch": int}))
        model.eval()
        run = cls(folder, config, stream, model, state)
        if not complete:
            run._observe_everything(saved["epoch"])
        return run

    def _observe_everything(self, epoch: int) -> None:
        """Advance the state of the best epoch over the whole stream, as a finished training does."""
        if self.folder.has("metrics.json"):
            log.warning(f"{self.path} has no serving.pt; the state is computed again from best.pt.")
        else:
            log.warning(
                f"{self.path}: the training is not finished; answers come from its best epoch so far, "
                f"epoch {epoch}. To continue: contig resume {self.path}"
            )
        self.state.reset()
        replay(self.model, self.state, self.history, np.arange(len(self.stream)), self.batch_size)

    def __repr__(self) -> str:
        """Return one line with the folder, the model, the data and the test AP."""
        finished = self.folder.is_finished
        quality = f"test AP {100 * self.metrics.transductive.ap:.2f}" if finished else "unfinished"
        stream = self.stream
        size = f"{len(stream):,} events, {stream.num_nodes:,} nodes"
        return f"Run({str(self.path)!r}: {self.config.model} on {stream.origin}, {size}, {quality})"

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def metrics(self) -> RunMetrics:
        """The test result and the record of the training."""
        return self.folder.metrics()

    @overload
    def evaluate(
        self, task: str = ..., *, batch_size: int | None = ..., show: bool | None = ..., **options: Any
    ) -> Evaluation[Any]: ...
    @overload
    def evaluate(
        self, task: Task[Any, R], *, batch_size: int | None = ..., show: bool | None = ...
    ) -> Evaluation[R]: ...
    @overload
    def evaluate(
        self,
        task: type[Task[Any, R]],
        *,
        batch_size: int | None = ...,
        show: bool | None = ...,
        **options: Any,
    ) -> Evaluation[R]: ...

    def evaluate(
        self,
        task: str | Task[Any, Any] | type[Task[Any, Any]] = "link",
        *,
        batch_size: int | None = None,
        show: bool | None = None,
        **options: Any,
    ) -> Evaluation[Any]:
        """Measure the test events by a task, continuing from the state after validation.

        - ``link``: AP and AUC; ``negatives`` are random, historical, inductive or historical-source.
        - ``intervals``: the same by how long the source has been inactive.
        - ``recommend``: MRR and recalls among all destinations, ``candidates`` sampled ones or those of the
          file ``candidates_from``, at each event's time; ``as_of="batch"`` is much faster and ranks at the
          time of each batch's first event.
        - ``classify``: AUC of the label, over ``seeds`` decoders.

        A task can also be passed as a class, or as an object whose options are set. ``batch_size`` is that of
        the training by default. The run does not change.
        """
        chosen = _task(task, options)
        device = self.state.device
        state = NodeState(self.state.blank, self.stream.num_nodes, device, on_host=self.state.on_host)
        self.folder.restore("best.pt", None, state, len(self.stream))
        return self._measure(chosen, self.config, self.model, state, batch_size, show)

    def evaluate_heuristics(
        self,
        task: str | Task[Any, Any] | type[Task[Any, Any]] = "link",
        *,
        names: Sequence[str] = HEURISTICS,
        batch_size: int | None = None,
        show: bool | None = None,
        **options: Any,
    ) -> dict[str, Evaluation[Any]]:
        """Measure heuristics as ``evaluate`` measures the model: the same events, negatives and batches."""
        chosen, found = _task(task, options), {}
        for name in names:
            config = replace(RunConfig.of(name), train=self.config.train)
            model = build_model(config, self.stream).to(self.state.device)
            state = model.new_state(self.stream.num_nodes)
            found[name] = self._measure(chosen, config, model, state, batch_size, show)
        return found

    def _measure(
        self,
        task: Task[Any, R],
        config: RunConfig,
        model: Model,
        state: NodeState,
        batch_size: int | None,
        show: bool | None,
    ) -> Evaluation[R]:
        train, device = self.config.train, self.state.device
        size = set_options(train, {} if batch_size is None else {"batch_size": batch_size}).batch_size
        split = chronological_split(self.stream, holdout=train.holdout, seed=train.split_seed)
        data = PreparedStream(self.stream, split, self.history, device)
        with Display(show) as display:
            result = task.measure(EvaluationContext(model, state, data, size, display.bar))
        return Evaluation(facts=run_facts(config, self.stream, device, size), result=result)


def _task(task: str | Task[Any, Any] | type[Task[Any, Any]], options: dict[str, Any]) -> Task[Any, Any]:
    if isinstance(task, str):
        return task_class(task).of(**options)
    if isinstance(task, type) and issubclass(task, Task):
        return task.of(**options)
    if not isinstance(task, Task):
        raise ConfigError(
            f"task={task!r}: expected the name of a task, a subclass of contig.Task or an instance."
        )
    if options:
        raise ConfigError(f"Set the option {next(iter(options))} when you create the task {task.name}.")
    return task
