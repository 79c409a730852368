"""Every walk reads a batch before it observes it."""

from __future__ import annotations

import numpy as np
import torch
from support.problems import case, random_stream, shape_of
from torch import Tensor

from contig.history import History
from contig.models import EventBatch
from contig.streaming.schedule import schedule
from contig.streaming.walker import Walker


def test_a_batch_is_read_before_it_is_observed() -> None:
    stream = random_stream(2, events=31)
    model, history = case("tgn", shape_of(stream)), History.from_stream(stream)
    state = model.new_state(stream.num_nodes)

    def read(batch: EventBatch) -> Tensor:
        assert not torch.is_grad_enabled()
        assert not model.training
        return torch.stack([batch.event, state["last"][batch.src], state["last"][batch.dst]], dim=1)

    seen: list[int] = []
    walker = Walker(model.train(), state, history, 6, read)
    found = walker.read_all(np.arange(31), seen.append)
    assert sum(seen) == 31
    assert found[:, 0].tolist() == list(range(31))
    for step in schedule(stream.t, 6):  # a node's latest event among those observed by then
        for i in range(step.start, step.stop):
            for column, node in ((1, stream.src[i]), (2, stream.dst[i])):
                known = [
                    j for j in range(step.observe_from) if stream.t[j] < stream.t[step.start]
                    and node in (stream.src[j], stream.dst[j])
                ]  # fmt: skip
                assert found[i, column] == max(known, default=-1)
    assert state.position == 31


def test_no_events_give_no_rows() -> None:
    stream = random_stream(2)
    model, history = case("tgn", shape_of(stream)), History.from_stream(stream)
    walker = Walker(model, model.new_state(9), history, 6, lambda batch: batch.t)
    assert walker.read_all(np.arange(0), shape=(3, 2)).shape == (0, 3, 2)
