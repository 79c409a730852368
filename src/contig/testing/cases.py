"""A model under test, and the steps that every check has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from contig.data.events import EventStream
from contig.history import History, TimeScale
from contig.models import (
    DataShape,
    EventBatch,
    Model,
    NodeState,
    create_model,
    model_class,
    model_name,
)
from contig.models.heuristics.base import Heuristic
from contig.options import set_options
from contig.streaming.schedule import schedule

RTOL, ATOL = 1e-5, 1e-6  # the same row at another place of a batch may differ in its last bits


@dataclass(frozen=True)
class ModelCase:
    """A model with some options, and the ways in which it may depart from what most models do.

    ``settings`` are options of the model; small sizes keep the checks fast.
    """

    model: str | type[Model]
    settings: Mapping[str, Any] = field(default_factory=dict)
    joint_queries: bool = False  # the queries of one call influence each other
    identifies_nodes: bool = False  # nodes without any event may have different embeddings
    frozen: bool = False  # events after training change no embedding
    own_link: bool = False  # pairs are scored by more than their embeddings

    @property
    def kind(self) -> type[Model]:
        """The model's class."""
        return model_class(model_name(self.model))

    def build(self, data: DataShape, seed: int = 0) -> Model:
        """Build the model in evaluation mode, with weights drawn from ``seed``."""
        options = set_options(self.kind.options(), self.settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return create_model(self.kind, options, data).eval()

    def prepared(self, stream: EventStream, seed: int = 0) -> Model:
        """Build the model for a stream and prepare it as training does."""
        model = self.build(shape_of(stream), seed)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            model.prepare(History.from_stream(stream))
        return model


def shape_of(stream: EventStream) -> DataShape:
    """Describe a stream without node features to a model."""
    return DataShape(stream.edge_width, None, stream.num_nodes, TimeScale.of(History.from_stream(stream)))


def embeds(model: Model) -> bool:
    """Return whether a model has embeddings: heuristics score pairs only."""
    return not isinstance(model, Heuristic)


def batch_of(history: History, start: int, stop: int) -> EventBatch:
    """Read the events ``[start, stop)`` of a history."""
    return EventBatch.of(history, torch.arange(start, stop))


def run_over(model: Model, stream: EventStream, batch_size: int) -> tuple[NodeState, History]:
    """Observe a whole stream in batches; return the state and the history."""
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    for _, _, observe_from, observe_to in schedule(stream.t, batch_size):
        model.observe(state, history, batch_of(history, observe_from, observe_to))
    return state, history


def query_times(history: History, count: int) -> tuple[Tensor, Tensor]:
    """Return ``count`` times after a stream, and the first of them as the reference time."""
    times = history.events["t"][-1] + 1 + torch.arange(count) // 2
    return times, times[0]


def snapshot(state: NodeState) -> dict[str, Tensor]:
    """Copy the rows of a state."""
    return {name: rows.clone() for name, rows in state.rows.items()}


def require(condition: bool, problem: str) -> None:
    """Raise an ``AssertionError`` that states the problem unless the condition holds."""
    if not condition:
        raise AssertionError(problem)


def require_close(found: Tensor, expected: Tensor, problem: str) -> None:
    """Raise an ``AssertionError`` unless two tensors are equal but for their last bits."""
    torch.testing.assert_close(
        found, expected, rtol=RTOL, atol=ATOL, msg=lambda difference: f"{problem}\n{difference}"
    )
