"""ConTIG for tests: small, with any options."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contig.data.events import EventStream
from contig.models.contig import ConTIG
from support.problems import (
    query_times,
    run_over,
    shape_of,
    tiny,
)

SCOPES = ["near", "pair", "batch", "all"]


def contig(stream: EventStream, **settings: Any) -> ConTIG:
    model = tiny("contig", shape_of(stream), **settings)
    assert isinstance(model, ConTIG)
    return model


def embeddings(model: ConTIG, stream: EventStream) -> tuple[Tensor, Tensor]:
    """Embeddings of every node after the stream, and the state."""
    state, history = run_over(model, stream, 4)
    nodes = torch.arange(stream.num_nodes)
    times, as_of = query_times(history, stream.num_nodes)
    with torch.no_grad():
        return model.embed(state, history, nodes, times, as_of), state["h"]
