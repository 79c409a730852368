"""A trained run, ready to be asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.errors import ConfigError, DataError, RunError
from contig.events import EventStream, Side
from contig.history import History
from contig.models import Model, NodeState
from contig.models.replay import Playback
from contig.negatives import Kind
from contig.splits import chronological_split
from contig.tasks.link import LinkScorer, evaluation_negatives, link_report
from contig.training.folder import RunFolder
from contig.training.session import build_model, hardware, pick_device

PATH_POINTS = 33  # of the way inside the last interval
EMBED_AT_ONCE = 4096  # queries; bounds the memory of embedding a whole graph


class Recommendation(NamedTuple):
    """A destination by the user's id, and the logit of meeting it."""

    node: int | str
    score: float


@dataclass(frozen=True)
class Trajectory:
    """One node's embedding over time."""

    node: int | str
    times: NDArray[Any]  # [times]
    embeddings: NDArray[np.float32]  # [times, d]
    inside: NDArray[np.float32] | None  # [points, d]: the state's way from its latest event to the last time


class Run:
    """A finished training: its model, its events and its state after all of them.

    Nodes are named by the user's own ids. Every answer for a time uses the events strictly before it
    and nothing else, whether that time lies inside the stream or after its end.
    """

    def __init__(self, folder: RunFolder, stream: EventStream, model: Model, state: NodeState) -> None:
        self.folder, self.stream, self.model, self.state = folder, stream, model, state
        self.config = folder.config()
        self.history = History.from_stream(stream, state.device)

    @classmethod
    def open(cls, path: str | Path, device: str | torch.device = "auto") -> Run:
        """Open a run's folder; ``device`` is auto (a GPU if any), cpu, cuda or cuda:1."""
        folder, on = RunFolder(path), pick_device(str(device))
        config, stream = folder.config(), folder.stream()
        saved = folder.load("serving.pt", on)
        with torch.random.fork_rng(devices=[]):  # fresh weights are drawn and thrown away
            model = build_model(config, stream).to(on)
        state = NodeState(model.blank(), stream.num_nodes, on)
        try:
            model.load_state_dict(saved["weights"])
            state.restore(saved["state"])
        except (RuntimeError, KeyError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path}: serving.pt does not fit config.json ({reason}).") from error
        model.eval()
        return cls(folder, stream, model, state)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def metrics(self) -> dict[str, Any]:
        """What ``metrics.json`` says."""
        return self.folder.metrics()

    # -- evaluation ------------------------------------------------------------------------------

    def evaluate(
        self, task: str = "link", *, negatives: Kind = "random", batch_size: int | None = None
    ) -> dict[str, Any]:
        """The test events by the protocol, walking on from where validation ended.

        ``batch_size`` is the training's unless given. The run itself does not change.
        """
        if task != "link":
            raise ConfigError(f"task={task!r} is not one this version evaluates; use link.")
        device = self.history.device
        train = self.config.train
        size = batch_size or train.batch_size
        split = chronological_split(self.stream, rule=train.rule, seed=train.split_seed)
        best = self.folder.load("best.pt", device)
        state = NodeState(self.model.blank(), self.stream.num_nodes, device)
        state.restore(best["state"])
        drawn = evaluation_negatives(self.stream, split, split.test, negatives, device)
        scores = LinkScorer(self.model, state, self.history, size)(split.test, drawn)
        metrics = self.metrics
        about = {key: metrics[key] for key in ("contig", "model", "data", "seed")}
        about["hardware"] = hardware(device)
        protocol = {**metrics["protocol"], "negatives": negatives}
        report = link_report(self.stream, split, split.test, scores, size, inductive=self.model.inductive)
        return {**about, "protocol": protocol, "batch_size": size, **report}

    # -- answers ---------------------------------------------------------------------------------

    def embed(
        self,
        nodes: Sequence[int | str] | None = None,
        at: float | None = None,
        side: Side | None = None,
    ) -> NDArray[np.float32]:
        """Embeddings ``[nodes, d]`` of nodes (all of them by default) at a time (now by default).

        "Now" is just after the last event. ``side`` is needed only where ids name nodes on both sides.
        """
        ids = np.arange(self.stream.num_nodes) if nodes is None else self._find(nodes, side)
        when = self._time(at)
        return self._embed(self.state_at(when), torch.from_numpy(ids), when)

    def recommend(self, node: int | str, at: float | None = None, k: int = 10) -> list[Recommendation]:
        """The ``k`` destinations the node is most likely to meet at a time, best first.

        Candidates are the destinations that were met by anyone before that time.
        """
        if k < 1:
            raise ConfigError(f"k={k}: ask for at least one recommendation.")
        source = torch.from_numpy(self._find([node], side="src")).to(self.history.device)
        when = self._time(at)
        state = self.state_at(when)
        earlier = int(self.history.events.count_before(when.reshape(1)))
        candidates = torch.from_numpy(self.stream[:earlier].destinations).to(self.history.device)
        candidates = candidates[candidates != source]
        if not len(candidates):
            return []
        times = when.repeat(1)
        with torch.no_grad():
            parts = [
                self.model.link(state, self.history, source, part.unsqueeze(0), times, when)[0]
                for part in candidates.split(EMBED_AT_ONCE)
            ]
        scores = torch.cat(parts)
        best = scores.sort(descending=True, stable=True)  # equals in the order of their ids
        names = self.stream.ids.labels[candidates[best.indices[:k]].cpu().numpy()].tolist()
        return [Recommendation(n, s) for n, s in zip(names, best.values[:k].tolist(), strict=True)]

    def trajectory(
        self, node: int | str, times: Sequence[float] | NDArray[Any], side: Side | None = None
    ) -> Trajectory:
        """One node's embedding at every requested time (ascending), between events too."""
        asked = np.asarray(times)
        if asked.ndim != 1 or not len(asked) or np.any(np.diff(asked) < 0):
            raise DataError("times must be a non-empty ascending sequence.")
        ids = torch.from_numpy(self._find([node], side=side))
        past = self._playback()
        rows = []
        for time in asked.tolist():
            when = self._time(time)
            rows.append(self._embed(past.at(when), ids, when)[0])
        inside = self.model.path(past.at(when), self.history, ids.to(self.history.device), when, PATH_POINTS)
        return Trajectory(node, asked, np.stack(rows), None if inside is None else inside[:, 0].cpu().numpy())

    def state_at(self, when: Tensor) -> NodeState:
        """The state that has observed exactly the events strictly before ``when``."""
        after_all = bool(when > self.history.events["t"][-1])
        return self.state if after_all else self._playback().at(when)

    def _playback(self) -> Playback:
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

    def _time(self, at: float | None) -> Tensor:
        t = self.history.events["t"]
        if at is None:
            return (
                t[-1] + 1
                if not t.dtype.is_floating_point
                else torch.nextafter(t[-1], t.new_tensor(torch.inf))
            )
        if not abs(at) < 2**62:
            raise DataError(f"at={at}: ask about a finite time.")
        # Between two whole times there are moments too, and embeddings move in between.
        exact = t.dtype if math.floor(at) == at else torch.float64
        return torch.tensor(at, dtype=exact, device=t.device)
