"""A trained run, ready to be asked."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.clock import TimeLike, parse_time
from contig.data.events import EventStream
from contig.data.ids import Side
from contig.data.splits import chronological_split
from contig.errors import ConfigError, DataError, RunError
from contig.history import History
from contig.kernels.devices import pick_device
from contig.models import Model, NodeState
from contig.progress import Display
from contig.runs.config import build_model
from contig.runs.folder import RunFolder
from contig.runs.metrics import RunMetrics, run_facts
from contig.streaming.playback import Playback
from contig.streaming.prepared import PreparedStream
from contig.streaming.walker import replay
from contig.tasks.context import EvaluationContext
from contig.tasks.ranking import best_first
from contig.tasks.registry import task_class
from contig.tasks.results import Evaluation, TaskResult
from contig.tasks.task import Task

log = logging.getLogger("contig")

PATH_POINTS = 33  # of the way inside the last interval
R = TypeVar("R", bound=TaskResult)

EMBED_AT_ONCE = 4096  # queries; bounds the memory of embedding a whole graph


class Recommendation(NamedTuple):
    """A destination by the user's id, and how likely it is to be met.

    ``score`` is a learned model's logit, or whatever a rule goes by. ``probability`` is the logit's: that
    of being the true destination rather than one drawn at random. A rule has none.
    """

    node: int | str
    score: float
    probability: float | None


@dataclass(frozen=True)
class Trajectory:
    """One node's embedding over time."""

    node: int | str
    times: NDArray[Any]  # [times]
    embeddings: NDArray[np.float32]  # [times, d]
    inside: NDArray[np.float32] | None  # [points, d]: the state's way from its latest event to the last time


class Run:
    """A training's model, its events and its state after all of them.

    Nodes are named by the user's own ids. A time is a number as in the events or a date: written,
    ``datetime`` or numpy's, in UTC unless it says otherwise. Every answer for a time uses the events
    strictly before it and nothing else, whether that time lies inside the stream or after its end.
    Asking for one past time after another is fastest in ascending order.
    """

    def __init__(self, folder: RunFolder, stream: EventStream, model: Model, state: NodeState) -> None:
        self.folder, self.stream, self.model, self.state = folder, stream, model, state
        self.config = folder.config()
        history = History.from_stream(stream, "cpu" if state.on_host else state.device)
        self.history = history.pinned_copy(state.device) if state.on_host else history

    @classmethod
    def open(cls, path: str | Path, device: str | torch.device = "auto") -> Run:
        """Open a run's folder; ``device`` is auto (a GPU if any), cpu, cuda or cuda:1.

        A run whose training was interrupted answers from its best epoch so far, with a notice.
        """
        folder, on = RunFolder(path), pick_device(str(device))
        config, stream = folder.config(), folder.stream()
        name = "best.pt" if folder.has("best.pt") and not folder.has("serving.pt") else "serving.pt"
        saved = folder.load(name)
        with torch.random.fork_rng(devices=[]):  # fresh weights are drawn and thrown away
            model = build_model(config, stream).to(on)
        state = NodeState(model.blank(), stream.num_nodes, on, on_host=config.train.graph_on_host(on))
        try:
            model.load_state_dict(saved["weights"])
            state.restore(saved["state"])
        except (RuntimeError, KeyError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path}: {name} does not fit config.json ({reason}).") from error
        model.eval()
        run = cls(folder, stream, model, state)
        if name == "best.pt":
            run._catch_up(saved["epoch"])
        return run

    def _catch_up(self, epoch: int) -> None:
        """Walk the state over the whole stream, as the end of a training does."""
        log.warning(
            f"{self.path}: the training is not finished; answers come from its best epoch so far, "
            f"epoch {epoch}. Go on with it: contig resume {self.path}"
        )
        self.state.reset()
        everything = np.arange(len(self.stream))
        replay(self.model, self.state, self.history, everything, self.config.train.batch_size)

    def __repr__(self) -> str:
        """One line: the folder, the model, its data and how good it is."""
        told = "unfinished"
        if self.folder.has("metrics.json"):
            told = f"test AP {100 * self.metrics.transductive.ap:.2f}"
        stream = self.stream
        size = f"{len(stream):,} events, {stream.num_nodes:,} nodes"
        return f"Run({str(self.path)!r}: {self.config.model} on {stream.origin}, {size}, {told})"

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def metrics(self) -> RunMetrics:
        """The test result and the record of the training."""
        return self.folder.metrics()

    # -- evaluation ------------------------------------------------------------------------------

    @overload
    def evaluate(
        self, task: str = ..., *, batch_size: int | None = ..., show: bool | None = ..., **options: Any
    ) -> Evaluation[Any]: ...
    @overload
    def evaluate(
        self, task: Task[Any, R], *, batch_size: int | None = ..., show: bool | None = ...
    ) -> Evaluation[R]: ...

    def evaluate(
        self,
        task: str | Task[Any, Any] = "link",
        *,
        batch_size: int | None = None,
        show: bool | None = None,
        **options: Any,
    ) -> Evaluation[Any]:
        """Measure the test events by a task, continuing from the state after validation.

        - ``link``: AP and AUC; ``negatives`` are random, historical or inductive.
        - ``intervals``: the same by how long the source has been inactive.
        - ``recommend``: MRR and recalls among all destinations, or ``candidates`` sampled ones, at each
          event's time; ``as_of="batch"`` is much faster and ranks at the time of each batch's first event.
        - ``classify``: AUC of the label, over ``seeds`` decoders.

        A task can also be passed as an object, whose options are set. ``batch_size`` is that of the training
        by default. The run does not change.
        """
        chosen = _task(task, options)
        train = self.config.train
        size = train.batch_size if batch_size is None else batch_size
        split = chronological_split(self.stream, holdout=train.holdout, seed=train.split_seed)
        data = PreparedStream(self.stream, split, self.history, self.state.device)
        state = NodeState(self.state.blank, self.stream.num_nodes, data.device, on_host=self.state.on_host)
        state.restore(self.folder.load("best.pt")["state"])
        with Display(show) as display:
            result = chosen.measure(EvaluationContext(self.model, state, data, size, display.bar))
        return Evaluation(facts=run_facts(self.config, self.stream, data.device, size), result=result)

    # -- answers ---------------------------------------------------------------------------------

    def embed(
        self,
        nodes: Sequence[int | str] | None = None,
        at: TimeLike | None = None,
        side: Side | None = None,
    ) -> NDArray[np.float32]:
        """Embeddings ``[nodes, d]`` of nodes (all of them by default) at a time (now by default).

        "Now" is just after the last event. ``side`` is needed only where ids name nodes on both sides.
        """
        if isinstance(nodes, str | int | np.integer):
            raise ConfigError(f"nodes={nodes!r}: give a list of ids, [{nodes!r}] for a single one.")
        ids = np.arange(self.stream.num_nodes) if nodes is None else self._find(nodes, side)
        when = self._time(at)
        return self._embed(self.state_at(when), torch.from_numpy(ids), when)

    def recommend(self, node: int | str, at: TimeLike | None = None, k: int = 10) -> list[Recommendation]:
        """The ``k`` destinations the node is most likely to meet at a time, best first.

        Candidates are the destinations that were met by anyone before that time.
        """
        if not isinstance(k, int | np.integer) or k < 1:
            raise ConfigError(f"k={k}: ask for a whole number of recommendations, at least one.")
        source = torch.from_numpy(self._find([node], side="src")).to(self.history.device)
        when = self._time(at)
        state = self.state_at(when)
        earlier = int(self.history.events.count_before(when.reshape(1)))
        candidates = torch.from_numpy(self.stream[:earlier].destinations).to(self.history.device)
        candidates = candidates[candidates != source]
        if not len(candidates):
            return []
        with torch.no_grad():
            parts = [
                self.model.rank(state, self.history, source, part, when, when)[0]
                for part in candidates.split(EMBED_AT_ONCE)
            ]
        scores = torch.cat(parts)
        best = best_first(scores, self.model.resolution)[:k]  # equals in the order of their ids
        names = self.stream.ids.labels[candidates[best].cpu().numpy()].tolist()
        top = scores[best].double()
        likely = top.sigmoid().tolist() if self.model.learns else [None] * len(top)
        return [Recommendation(*one) for one in zip(names, top.tolist(), likely, strict=True)]

    def trajectory(
        self, node: int | str, times: Sequence[TimeLike] | NDArray[Any], side: Side | None = None
    ) -> Trajectory:
        """One node's embedding at every requested time (ascending), between events too."""
        asked = self._times(times)
        ids = torch.from_numpy(self._find([node], side=side))
        rows = []
        for time in asked.tolist():
            when = self._time(time)
            rows.append(self._embed(self._past.at(when), ids, when)[0])
        state, nodes = self._past.at(when), ids.to(self.history.device)
        inside = self.model.path(state, self.history, nodes, when, PATH_POINTS)
        return Trajectory(node, asked, np.stack(rows), None if inside is None else inside[:, 0].cpu().numpy())

    def _times(self, times: Sequence[TimeLike] | NDArray[Any]) -> NDArray[Any]:
        """Times as the stream counts them."""
        asked = np.asarray(times)
        if asked.ndim == 1 and asked.dtype.kind not in "iuf":
            asked = np.array([parse_time(one, self.stream.t, f"times: {one!r}") for one in times])
        if asked.ndim != 1 or not len(asked) or np.any(np.diff(asked) < 0):
            raise DataError("times must be a non-empty ascending sequence.")
        return asked

    def state_at(self, when: Tensor) -> NodeState:
        """The state that has observed exactly the events strictly before ``when``.

        It is to be read, and only until the next question.
        """
        after_all = bool(when > self.history.events["t"][-1])
        return self.state if after_all else self._past.at(when)

    @cached_property
    def _past(self) -> Playback:
        """Kept from one question to the next, because ascending times need each event once."""
        return Playback(self.model, self.history, self.stream.num_nodes, self.config.train.batch_size)

    def _embed(self, state: NodeState, nodes: Tensor, when: Tensor) -> NDArray[np.float32]:
        nodes = nodes.to(self.history.device)
        with torch.no_grad():
            parts = [
                self.model.embed(state, self.history, part, when.repeat(len(part)), when)
                for part in nodes.split(EMBED_AT_ONCE)
            ]
        result: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return result

    def _find(self, nodes: Sequence[int | str], side: Side | None = None) -> NDArray[np.int64]:
        return np.array([self.stream.ids.find(node, side) for node in nodes], dtype=np.int64)

    def _time(self, asked: TimeLike | None) -> Tensor:
        t = self.history.events["t"]
        if asked is None:
            return (
                t[-1] + 1
                if not t.dtype.is_floating_point
                else torch.nextafter(t[-1], t.new_tensor(torch.inf))
            )
        at = parse_time(asked, self.stream.t, f"at={asked!r}")
        if not abs(at) < 2**62:
            raise DataError(f"at={at}: ask about a finite time.")
        # Between two whole times there are moments too, and embeddings move in between.
        exact = t.dtype if math.floor(at) == at else torch.float64
        return torch.tensor(at, dtype=exact, device=t.device)


def _task(task: str | Task[Any, Any], options: dict[str, Any]) -> Task[Any, Any]:
    if isinstance(task, str):
        return task_class(task).of(**options)
    if options:
        raise ConfigError(f"Set the option {next(iter(options))} when you create the task {task.name}.")
    return task
