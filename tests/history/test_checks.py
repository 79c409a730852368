"""Invalid queries and events are refused, and leave the history as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.histories import every_query, grown_history, stream_of

from contig.data.events import EventStream
from contig.errors import DataError
from contig.history import History, evidence
from contig.history.evidence import EvidenceSpec, meeting


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
    "huge feature": (
        {"features": torch.full((3, 2), 1e39, dtype=torch.float64)},
        "too large for torch.float32",
    ),
    "own times missing": ({"happened": torch.tensor([9, 9])}, r"happened has shape \[2\]; expected \[3\]"),
    "own time nan": ({"happened": torch.tensor([9, torch.nan, 9]).double()}, "not finite"),
    "own time fraction": ({"happened": torch.tensor([9, 9.5, 9]).double()}, "stores times as torch.int64"),
    "own time after the clock": ({"happened": torch.tensor([9, 11, 11])}, "happened after the clock"),
    "not marked as late": ({"happened": torch.tensor([9, 10, 7])}, "mark it as late"),
    "late without own times": ({"late": torch.tensor([False, True, False])}, "late events need"),
    "late is short": ({"late": torch.tensor([False])}, r"late has shape \[1\]"),
    "late is no mask": ({"late": torch.tensor([0, 1, 0])}, "expected a mask"),
}
SPEC = EvidenceSpec((2.5,), nodes=True, steps=(1, 2))


def contents(history: History) -> dict[str, list[Any]]:
    """Return every value that a history and its evidence hold, spare capacity included."""
    arrays = dict(history.events.columns) | history.segments.arrays()
    for name in ("events", "transitions"):
        counts = getattr(history.evidence(SPEC), name)
        arrays |= {f"{name} {key}": array for key, array in counts.arrays().items()}
    numbers = [history.num_events, history.num_nodes, history.segments.longest, history.segments.used]
    return {name: array.tolist() for name, array in arrays.items()} | {"numbers": numbers}


def answers(history: History) -> list[Any]:
    """Return what a history answers to every query, and what it knows about every pair."""
    nodes, times = every_query(8, 12)
    near = [one.tolist() for one in history.before(nodes, times, 4)]
    keys, later = meeting(nodes, nodes.flip(0)), times.flip(0)
    return [near, history.evidence(SPEC).events.features(keys, later, 1.0).tolist()]


@pytest.mark.parametrize("case", INVALID)
def test_a_refused_append_changes_nothing(case: str) -> None:
    change, message = INVALID[case]
    stream = stream_of([(0, 1, 5), (2, 0, 8)])
    history = History.from_stream(
        EventStream(
            stream.src, stream.dst, stream.t, stream.ids, edge_features=np.ones((2, 2), dtype=np.float32)
        )
    )
    before = contents(history), answers(history)
    rows = {
        "src": torch.tensor([1, 7, 2]),
        "dst": torch.tensor([3, 4, 2]),
        "t": torch.tensor([9, 10, 11]),
        "features": torch.zeros(3, 2),
    }
    with pytest.raises(DataError, match=message):
        history.append(**(rows | change))
    assert (contents(history), answers(history)) == before
    history.append(**rows)  # and it still works
    assert history.count_before(torch.tensor([2, 7]), torch.tensor([99, 99])).tolist() == [2, 1]


def test_features_are_refused_if_events_have_none() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)]))
    with pytest.raises(DataError, match=r"expected features of shape None, got \[1, 2\]"):
        history.append(torch.tensor([0]), torch.tensor([1]), torch.tensor([6]), torch.zeros(1, 2))
    assert history.num_events == 1


@pytest.mark.parametrize(("limit", "value"), [("MAX_NODES", 15), ("LENGTH_MASK", 15)])
def test_an_append_beyond_the_limits_of_evidence_changes_nothing(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = grown_history(width=0)  # 14 nodes; one of them has 15 events
    assert history.segments.longest == 15
    before = contents(history), answers(history)
    monkeypatch.setattr(evidence, limit, value)
    busiest = int(history.segments.length.argmax())
    unknown = torch.tensor([15, 3]), torch.tensor([2, 14]), torch.tensor([30, 31])
    known = torch.tensor([busiest, 3]), torch.tensor([14, busiest]), torch.tensor([30, 31])
    with pytest.raises(DataError, match="supports up to"):
        history.append(*(unknown if limit == "MAX_NODES" else known))
    assert (contents(history), answers(history)) == before
    others = [node for node in range(14) if history.segments.length[node] < 10][:2]
    history.append(torch.tensor(others), torch.tensor([14, 14]), torch.tensor([30, 31]))
    assert history.num_nodes == 15


def test_integer_times_that_float64_cannot_hold_are_refused() -> None:
    history = History.from_stream(stream_of([(0, 1, 5)], float_times=True))
    rows = torch.tensor([0]), torch.tensor([1])
    with pytest.raises(DataError, match=r"stores times as torch\.float64"):
        history.append(*rows, torch.tensor([2**53 + 1]))
    history.append(*rows, torch.tensor([2**53 + 2]))
    assert history.events["t"].tolist() == [5, 2.0**53 + 2]
