"""The graph of latest partners against a dictionary of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.problems import batch_of, dense_latest, random_stream, shape_of, stream_of, tiny

from contig.data.events import EventStream
from contig.history import History
from contig.models import EventBatch
from contig.models.bases.links import foreseen_links, links_of, share_of_links_found
from contig.models.contig import ConTIG


def latest_partners(stream: EventStream, events: int) -> list[int | None]:
    partner: list[int | None] = [None] * stream.num_nodes
    for src, dst in zip(stream.src[:events].tolist(), stream.dst[:events].tolist(), strict=True):
        partner[src], partner[dst] = dst, src
    return partner


def namers(partner: list[int | None]) -> list[int]:
    return [sum(p == v and u != v for u, p in enumerate(partner)) for v in range(len(partner))]


def near_model(stream: EventStream) -> ConTIG:
    model = tiny("contig", shape_of(stream), scope="near")
    assert isinstance(model, ConTIG)
    return model


@pytest.mark.parametrize("batch_size", [1, 4, 11])
def test_namers_are_counted_as_events_arrive(batch_size: int) -> None:
    """With self-loops, and with the last event of a batch repeated, as captured steps do."""
    stream = random_stream(3, events=37, num_nodes=6, edge_width=0)
    assert bool((stream.src == stream.dst).any())
    model, history = near_model(stream), History.from_stream(stream)
    state = model.new_state(stream.num_nodes)
    for start in range(0, 37, batch_size):
        stop = min(start + batch_size, 37)
        events = torch.tensor([*range(start, stop), stop - 1, stop - 1])
        model.observe(state, history, EventBatch.of(history, events))
        assert state["named"].tolist() == namers(latest_partners(stream, stop))


def test_links_are_the_rows_of_the_normalized_adjacency() -> None:
    """Where the search for namers reaches back to the first event."""
    stream = random_stream(5, events=31, num_nodes=8, edge_width=0)
    model, history = near_model(stream), History.from_stream(stream)
    state = model.new_state(9)  # one node without events
    model.observe(state, history, batch_of(history, 0, 31))
    nodes = torch.tensor([7, 0, 8, 3, 3, 1, 2, 4, 5, 6])
    links = links_of(model, state, history, nodes, history.events["t"][-1] + 1, namers=31)
    found = torch.zeros(len(nodes), 9).scatter_add_(1, links.node, links.weight)
    expected = torch.from_numpy(dense_latest([*latest_partners(stream, 31), None])).float()
    torch.testing.assert_close(found, expected[nodes])


def test_namers_that_are_found_stand_for_those_that_are_not() -> None:
    """Nodes 1 to 5 name node 0, which meets 6 last; two of them are in the last three events."""
    stream = stream_of([(0, v, v) for v in range(1, 7)], 7)
    model, history = near_model(stream), History.from_stream(stream)
    state = model.new_state(7)
    model.observe(state, history, batch_of(history, 0, 6))
    links = links_of(model, state, history, torch.tensor([0]), torch.tensor(9), namers=3)
    assert links.node.tolist() == [[6, 0, 5, 4]]
    root = 6**-0.5  # degrees 6 and 1
    torch.testing.assert_close(links.weight, torch.tensor([[root, 0, 2.5 * root, 2.5 * root]]))


@pytest.mark.parametrize(("since", "known"), [(0, 0), (29, 29), (47, 47), (20, 41), (0, 70)])
@pytest.mark.parametrize("namers", [1, 3, 40])
def test_foreseen_links_are_those_of_the_state_by_then(namers: int, since: int, known: int) -> None:
    """A state that knows every third of the events before ``known``, and will know all from ``since`` on."""
    stream = random_stream(6, events=70, num_nodes=11, edge_width=0)
    model, history = near_model(stream), History.from_stream(stream)
    state = model.new_state(12)  # one node without events
    if known:
        model.observe(state, history, EventBatch.of(history, torch.arange(0, known, 3)))
    nodes = torch.tensor([7, 0, 11, 3, 3, 1, 2, 4, 5, 6, 8, 9, 10])
    new_times = [
        i + 1 for i in np.flatnonzero(np.diff(stream.t)) if i >= since
    ]  # all earlier events are known
    foreseen = [
        foreseen_links(state, history, nodes, history.events["t"][stop].repeat(len(nodes)), since, namers)
        for stop in new_times
    ]
    for start, stop, found in zip([since, *new_times], new_times, foreseen, strict=False):
        model.observe(state, history, batch_of(history, start, stop))
        links = links_of(model, state, history, nodes, history.events["t"][stop], namers)
        assert found.shape == (len(nodes), 1 + namers)
        for node, linked, weight, ends in zip(nodes, links.node, links.weight, found, strict=True):
            assert {int(node), *ends.tolist()} == {int(node), *linked[weight > 0].tolist()}


@pytest.mark.parametrize("window", [1, 2, 3, 40])
def test_share_of_namers_that_are_found(window: int) -> None:
    """Against a count of the later events of each node's latest partner."""
    stream = random_stream(7, events=60, num_nodes=9, edge_width=0)
    partner = latest_partners(stream, 60)
    ends = list(zip(stream.src.tolist(), stream.dst.tolist(), strict=True))
    found = []
    for node, other in enumerate(partner):
        if other is None or other == node:
            continue
        latest = max(i for i, pair in enumerate(ends) if node in pair)
        later = sum(other in pair for pair in ends[latest + 1 :])
        found.append(later < window)
    assert share_of_links_found(stream.src, stream.dst, window) == pytest.approx(sum(found) / len(found))


def test_share_of_namers_without_any() -> None:
    loops = np.array([4, 2, 2])
    assert share_of_links_found(loops, loops, 8) == 1.0
    assert share_of_links_found(loops[:0], loops[:0], 8) == 1.0
