"""Invalid queries and events are refused, and leave the history as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.histories import NODES, stream_of

from contig.data.events import EventStream
from contig.errors import DataError
from contig.history import History


@pytest.mark.parametrize(
    ("nodes", "times", "message"),
    [
        (torch.tensor([0, 1]), torch.tensor([1]), "two vectors of the same length"),
        (torch.tensor([[0]]), torch.tensor([[1]]), "two vectors of the same length"),
        (torch.tensor([0]), torch.tensor([1.0]), "float32 loses seconds"),
        (torch.tensor([0.0]), torch.tensor([1]), "nodes are torch.float32"),
    ],
)
def test_invalid_queries_are_refused(nodes: torch.Tensor, times: torch.Tensor, message: str) -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    with pytest.raises(DataError, match=message):
        history.before(nodes, times, 2)
    with pytest.raises(DataError, match=message):
        history.count_before(nodes, times)


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "time before the last": ({"t": torch.tensor([5, 8, 9])}, "times decrease"),
    "time before another": ({"t": torch.tensor([9, 11, 10])}, "times decrease"),
    "nan": ({"t": torch.tensor([9, 10, torch.nan]).double()}, "not finite"),
    "infinite": ({"t": torch.tensor([9, 10, torch.inf]).double()}, "not finite"),
    "float32": ({"t": torch.tensor([9.0, 10.0, 11.0])}, "float32 loses seconds"),
    "fraction": ({"t": torch.tensor([9.0, 10.0, 10.5]).double()}, "stores times as torch.int64"),
    "lengths differ": ({"dst": torch.tensor([1, 2])}, "the same length"),
    "negative node": ({"src": torch.tensor([1, -1, 2])}, "a node id is not in 0..2,147,483,646"),
    "huge node": ({"dst": torch.tensor([1, 2**31, 2])}, "a node id is not in 0..2,147,483,646"),
    "float node": ({"dst": torch.tensor([1.0, 2.0, 3.0])}, "nodes are torch.float32"),
    "no features": ({"features": None}, r"expected features of shape \[3, 2\], got None"),
    "wide features": ({"features": torch.zeros(3, 4)}, r"expected features of shape \[3, 2\], got \[3, 4\]"),
    "nan feature": ({"features": torch.full((3, 2), torch.nan)}, "feature is not finite"),
}


@pytest.mark.parametrize("case", INVALID)
def test_a_refused_append_changes_nothing(case: str) -> None:
    change, message = INVALID[case]
    stream = stream_of([(0, 1, 5), (2, 0, 8)])
    history = History.from_stream(
        EventStream(
            stream.src, stream.dst, stream.t, stream.ids, edge_features=np.ones((2, 2), dtype=np.float32)
        )
    )
    before = {name: array.tolist() for name, array in history.saved_arrays().items()}
    rows = {
        "src": torch.tensor([1, 7, 2]),
        "dst": torch.tensor([3, 4, 2]),
        "t": torch.tensor([9, 10, 11]),
        "features": torch.zeros(3, 2),
    }
    with pytest.raises(DataError, match=message):
        history.append(**(rows | change))
    assert {name: array.tolist() for name, array in history.saved_arrays().items()} == before
    assert (history.num_nodes, history.segments.longest, history.segments.used) == (NODES, 2, 4)
    history.append(**rows)  # and it still works
    assert history.count_before(torch.tensor([2, 7]), torch.tensor([99, 99])).tolist() == [2, 1]


def test_features_are_refused_if_events_have_none() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    with pytest.raises(DataError, match=r"expected features of shape None, got \[1, 2\]"):
        history.append(torch.tensor([0]), torch.tensor([1]), torch.tensor([6]), torch.zeros(1, 2))
    assert history.num_events == 1
