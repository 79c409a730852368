"""What tasks are measured on, in tests."""

from __future__ import annotations

import torch

from contig.data.events import EventStream
from contig.data.splits import Holdout, chronological_split
from contig.models import Model
from contig.streaming.prepared import PreparedStream
from contig.tasks.context import EvaluationContext

CPU = torch.device("cpu")


def context_of(
    model: Model, stream: EventStream, batch_size: int, holdout: Holdout = "tgn"
) -> EvaluationContext:
    """A model with a blank state, on the CPU."""
    split = chronological_split(stream, holdout=holdout)
    data = PreparedStream.of(stream, split, CPU)
    return EvaluationContext(model, model.new_state(stream.num_nodes), data, batch_size)
