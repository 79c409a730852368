"""What a task reads of the test events, against a loop written out."""

from __future__ import annotations

import numpy as np
import torch
from support.evaluation import context_of
from support.problems import batch_of, case, random_stream, shape_of
from torch import Tensor

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.models import EventBatch
from contig.tasks.context import read_test_events


def distinct_times(stream: EventStream) -> EventStream:
    stream.t[:] = np.cumsum(np.arange(1, len(stream) + 1) % 3 + 1)
    return stream


def test_a_batch_is_read_before_it_is_observed() -> None:
    stream = distinct_times(random_stream(4, events=60, num_nodes=11))
    model = case("tgn", shape_of(stream))
    context = context_of(model, stream, batch_size=4)
    history, by_hand = context.data.history, model.new_state(11)

    def embed(batch: EventBatch) -> Tensor:
        return model.embed(context.state, history, batch.dst, batch.t, batch.t[0])

    found = read_test_events(context, embed)

    test = chronological_split(stream).test
    assert len(test) == 9
    expected = []
    for start, stop in ((test[0], test[4]), (test[4], test[8]), (test[8], test[8] + 1)):
        batch = batch_of(history, int(start), int(stop))
        with torch.no_grad():
            expected.append(model.embed(by_hand, history, batch.dst, batch.t, batch.t[0]))
            model.observe(by_hand, history, batch)
    np.testing.assert_allclose(found, torch.cat(expected).numpy(), rtol=1e-5, atol=1e-6)
