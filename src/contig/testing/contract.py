"""Reading changes nothing, observing changes the state only, and new nodes may appear."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.data.events import EventStream
from contig.history import History
from contig.models import DataShape, EventBatch, Model, NodeState
from contig.streaming.capture import has_fixed_shapes
from contig.streaming.online import OnlineState, replay_stream
from contig.streaming.schedule import schedule
from contig.testing.cases import (
    ATOL,
    RTOL,
    ModelCase,
    batch_of,
    embeds,
    query_times,
    require,
    require_close,
    run_over,
    snapshot,
)
from contig.testing.streams import random_stream, stream_of

EVENTS, NODES, EDGE_WIDTH, NODE_WIDTH = 33, 9, 3, 5


def example() -> EventStream:
    """Return the stream that most checks use."""
    return random_stream(1, events=EVENTS, num_nodes=NODES, edge_width=EDGE_WIDTH)


# -- construction -------------------------------------------------------------------------------------------


def check_builds_for_any_data(case: ModelCase) -> None:
    """Check that a model works with and without edge and node features, and that its scores are finite."""
    for edge_width in (0, EDGE_WIDTH):
        for node_width in (0, NODE_WIDTH):
            stream = random_stream(1, events=EVENTS, num_nodes=NODES, edge_width=edge_width)
            features = torch.randn(NODES, node_width, generator=torch.Generator().manual_seed(0))
            model = case.build(DataShape(edge_width, features if node_width else None, NODES))
            scores = _answers(model, *run_over(model, stream, 5))[0]
            data = f"{edge_width} edge features and {node_width} node features"
            require(
                scores.shape == (NODES, NODES), f"With {data}, link returned shape {tuple(scores.shape)}."
            )
            require(bool(scores.isfinite().all()), f"With {data}, some scores are not finite.")


def check_trainable_parameters(case: ModelCase) -> None:
    """Check that a model that learns has parameters that gradients reach, and that any other has none."""
    stream = example()
    model = case.prepared(stream).train()
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not model.learns:
        require(not trainable, f"learns is False, but there are parameters to train: {', '.join(trainable)}.")
        return
    require(bool(trainable), "There are no parameters to train; set learns = False for a heuristic.")
    state, history = run_over(model, stream[:20], 5)
    history = History.from_stream(stream)
    batch = batch_of(history, 20, 30)
    candidates = torch.stack([batch.dst, batch.dst.roll(1)], dim=1)
    logits = model.link(state, history, batch.src, candidates, batch.t, batch.t[0])
    require(logits.requires_grad, "Scores carry no gradient; embed and score must not run under no_grad.")
    truth = torch.zeros_like(logits)
    truth[:, 0] = 1
    binary_cross_entropy_with_logits(logits, truth).backward()
    gradients = [p.grad for p in trainable.values() if p.grad is not None]
    require(all(bool(g.isfinite().all()) for g in gradients), "Some gradients are not finite.")
    require(any(bool(g.any()) for g in gradients), "The gradients of all parameters are zero.")


# -- reading ------------------------------------------------------------------------------------------------


def check_reading_changes_nothing(case: ModelCase) -> None:
    """Check that a query always gets the same answer and changes no state, history, weight or generator."""
    model = case.prepared(example())
    state, history = run_over(model, example(), 5)
    before = {"state": snapshot(state), "history": _tensors(history), "weights": _weights(model)}
    torch_generator, numpy_generator = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    first, second = _answers(model, state, history), _answers(model, state, history)
    require(_same(first, second), "The same query was answered differently the second time.")
    after = {"state": state.rows, "history": _tensors(history), "weights": _weights(model)}
    for what, content in before.items():
        require(_same(content, after[what]), f"embed or link changed the {what}.")
    unchanged = np.array_equal(np.random.get_state()[1], numpy_generator)  # type: ignore[index]  # noqa: NPY002
    require(
        unchanged and torch.equal(torch.get_rng_state(), torch_generator),
        "embed or link drew random numbers in evaluation mode.",
    )


def check_link_scores_embeddings(case: ModelCase) -> None:
    """Check that ``link`` is ``score`` of what ``embed`` returns, unless it sees more than that."""
    model = case.prepared(example())
    if not embeds(model) or case.own_link:
        return
    state, history = run_over(model, example(), 5)
    src, dst = torch.tensor([3, 0]), torch.tensor([[1, 2, 3], [5, 0, 1]])
    times, as_of = query_times(history, 2)
    found = model.link(state, history, src, dst, times, as_of)
    # one call for all, because the queries of a call may influence each other
    nodes, owner = torch.cat([src, dst.flatten()]), torch.tensor([0, 1, 0, 0, 0, 1, 1, 1])
    embedded = model.embed(state, history, nodes, times[owner], as_of)
    pairs = [[model.score(embedded[i], embedded[2 + 3 * i + j]) for j in range(3)] for i in range(2)]
    expected = torch.stack([torch.stack(row) for row in pairs])
    require_close(found, expected, "link does not agree with score(embed(...), embed(...)).")


def check_rank_agrees_with_link(case: ModelCase) -> None:
    """Check that ``rank`` scores many candidates as ``link`` scores each pair."""
    model = case.prepared(example())
    state, history = run_over(model, example()[:20], 4)
    history = History.from_stream(example())
    src, dst = torch.tensor([3, 0, 3, 8]), torch.tensor([7, 2, 0, 8, 1])
    times = history.events["t"][torch.tensor([20, 24, 24, 30])]
    table = dst.expand(len(src), -1)
    with torch.no_grad():
        for when in (times, times[1]):  # a time for each query, and one for all
            found = model.rank(state, history, src, dst, when, times[0])
            expected = model.link(state, history, src, table, when.expand(len(src)), times[0])
            require_close(found, expected, "rank does not agree with link.")


def check_query_order_does_not_matter(case: ModelCase) -> None:
    """Check that permuted queries get permuted answers."""
    model = case.prepared(example())
    state, history = run_over(model, example(), 5)
    src, dst = torch.tensor([3, 0, 3, 8]), torch.tensor([[1, 2], [5, 0], [1, 2], [4, 4]])
    times, as_of = query_times(history, 4)
    order = torch.tensor([2, 0, 3, 1])
    found = model.link(state, history, src, dst, times, as_of)
    permuted = model.link(state, history, src[order], dst[order], times[order], as_of)
    require_close(permuted, found[order], "Answers depend on the order of the queries.")


def check_no_queries(case: ModelCase) -> None:
    """Check that an empty batch of queries gets an empty answer."""
    model = case.prepared(example())
    state, history = run_over(model, example(), 5)
    none = torch.empty(0, dtype=torch.int64)
    found = model.link(state, history, none, none.view(0, 2), none, torch.tensor(100))
    require(found.shape == (0, 2), f"link of no queries and 2 candidates has shape {tuple(found.shape)}.")


def check_empty_history(case: ModelCase) -> None:
    """Check that before any event scores are finite, and all nodes equal unless the model identifies them."""
    model = case.prepared(example())
    history, state = History.empty(4, edge_width=EDGE_WIDTH), model.new_state(4)
    src, dst = torch.tensor([0, 1]), torch.tensor([[2, 3, 1], [3, 0, 2]])
    times = torch.tensor([5.0, 5.0], dtype=torch.float64)
    found = model.link(state, history, src, dst, times, times[0])
    require(bool(found.isfinite().all()), "Before any event some scores are not finite.")
    if not case.identifies_nodes:
        problem = "Nodes without events have different scores; pass identifies_nodes=True if that is meant."
        require_close(found, found[0, 0].expand_as(found), problem)


# -- observing ----------------------------------------------------------------------------------------------


def check_observing_changes_only_the_state(case: ModelCase) -> None:
    """Check that ``observe`` leaves history and weights alone, and writes nothing that has a gradient."""
    model, stream = case.prepared(example()), example()
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    before, rows = {"history": _tensors(history), "weights": _weights(model)}, snapshot(state)
    for first, last in ((0, 3), (3, 6), (6, 9)):  # several batches, for states that look two events back
        model.observe(state, history, batch_of(history, first, last))
    after = {"history": _tensors(history), "weights": _weights(model)}
    for what, content in before.items():
        require(_same(content, after[what]), f"observe changed the {what}.")
    attached = [name for name, row in state.rows.items() if row.requires_grad]
    require(not attached, f"The state carries gradients ({', '.join(attached)}); observe under no_grad.")
    unused = [name for name, row in rows.items() if torch.equal(state[name], row)]
    require(not unused, f"observe never changes these rows of the state: {', '.join(unused)}.")


def check_observing_changes_declared_rows(case: ModelCase) -> None:
    """Check that ``observe`` changes the rows of ``nodes_observed`` alone: only those are undone."""
    model, stream = case.prepared(example()), example()
    history, state = History.from_stream(stream), model.new_state(stream.num_nodes)
    for first, last in ((0, 9), (9, 12), (12, 14), (14, 21), (21, 22)):
        batch, rows = batch_of(history, first, last), snapshot(state)
        others = torch.ones(stream.num_nodes, dtype=torch.bool)
        others[model.nodes_observed(state, history, batch)] = False
        model.observe(state, history, batch)
        changed = [name for name, row in rows.items() if not torch.equal(state[name][others], row[others])]
        require(not changed, f"observe changes {', '.join(changed)} of nodes that nodes_observed leaves out.")


def check_observing_nothing(case: ModelCase) -> None:
    """Check that an empty batch of events changes nothing."""
    model = case.prepared(example())
    state, history = run_over(model, example(), 5)
    rows = snapshot(state)
    model.observe(state, history, batch_of(history, 3, 3))
    require(_same(rows, state.rows), "Observing no events changed the state.")


def check_training_mode_does_not_reach_the_state(case: ModelCase) -> None:
    """Check that ``observe`` does the same in training and evaluation: no dropout in the state."""
    model = case.prepared(example())
    calm, _ = run_over(model, example(), 5)
    busy, _ = run_over(model.train(), example(), 5)
    require(_same(calm.rows, busy.rows), "observe depends on the mode (dropout?): states must not be random.")


def check_padded_batches(case: ModelCase) -> None:
    """Check that a model with ``fixed_shapes`` ignores repeats of a batch's last event: padding on a GPU."""
    model, stream = case.prepared(example()), example()
    if not has_fixed_shapes(model):
        return
    history = History.from_stream(stream)
    plain, padded = model.new_state(stream.num_nodes), model.new_state(stream.num_nodes)
    for first, last in ((0, 4), (4, 9)):
        events = torch.arange(first, last)
        model.observe(plain, history, EventBatch.of(history, events))
        repeated = torch.cat([events, events[-1:].repeat(3)])
        model.observe(padded, history, EventBatch.of(history, repeated))
    for name, rows in plain.rows.items():
        problem = f"Observing the last event repeatedly changes {name}; set fixed_shapes = False."
        require_close(padded[name], rows, problem)


def check_live_events(case: ModelCase) -> None:
    """Check that events that arrive one by one, into a growing history, get the scores of a known stream."""
    stream = example()
    model, whole = case.prepared(stream), History.from_stream(stream)
    candidates = torch.from_numpy(np.random.default_rng(0).integers(0, stream.num_nodes, (len(stream), 3)))
    state, expected = model.new_state(stream.num_nodes), []
    for start, stop, observe_from, observe_to in schedule(stream.t, 1):
        batch = batch_of(whole, start, stop)
        expected.append(model.link(state, whole, batch.src, candidates[start:stop], batch.t, batch.t[0]))
        model.observe(state, whole, batch_of(whole, observe_from, observe_to))
    live, found = _live(model, stream, candidates)
    require_close(torch.cat(found), torch.cat(expected), "Live events are scored differently.")
    for name, rows in state.rows.items():
        require_close(live[name], rows, f"Live events lead to another state ({name}).")


def _live(model: Model, stream: EventStream, candidates: Tensor) -> tuple[NodeState, list[Tensor]]:
    """Score each event, then append it; observe it once time has moved on, so that ties do not meet."""
    history = History.empty(stream.num_nodes, edge_width=stream.edge_width, time_dtype=torch.int64)
    state, waiting, found = model.new_state(stream.num_nodes), 0, []
    assert stream.edge_features is not None
    for i in range(len(stream)):
        columns = (stream.src, stream.dst, stream.t, stream.edge_features)
        src, dst, t, features = (torch.from_numpy(column[i : i + 1].copy()) for column in columns)
        if i and stream.t[i] > stream.t[i - 1]:
            model.observe(state, history, batch_of(history, waiting, i))
            waiting = i
        found.append(model.link(state, history, src, candidates[i : i + 1], t, t[0]))
        history.append(src, dst, t, features)
    model.observe(state, history, batch_of(history, waiting, len(stream)))
    return state, found


def check_events_in_pieces(case: ModelCase) -> None:
    """Check that events that are observed in pieces of any size count as if known from the start."""
    stream, size = random_stream(1, events=60, num_nodes=11), 7
    model = case.prepared(stream)
    history, state = History.from_stream(stream[:20]), model.new_state(stream.num_nodes)
    grown = OnlineState(model, history, state, size, tip=replay_stream(model, state, history, size))
    cuts = [20, *sorted(np.random.default_rng(4).integers(20, 61, 6).tolist()), 60]
    columns = [stream.src, stream.dst, stream.t, stream.edge_features]
    for start, stop in itertools.pairwise(cuts):
        rows = [None if c is None else torch.from_numpy(c[start:stop].copy()) for c in columns]
        grown.observe(*rows)  # type: ignore[arg-type]
    expected, whole = run_over(model, stream, size)
    for name, rows_of in expected.rows.items():
        problem = f"Events in pieces lead to another state ({name})."
        require_close(grown.state[name], rows_of, problem)
    src, dst = torch.arange(11), torch.arange(11).flip(0).unsqueeze(1)
    t = torch.full((11,), int(stream.t[-1]) + 3)
    with torch.no_grad():
        ours, theirs = (
            model.link(*known, src, dst, t, t[0])
            for known in ((grown.state, grown.history), (expected, whole))
        )
    require_close(ours, theirs, "After events in pieces, pairs are scored differently.")


# -- keeping and growing ------------------------------------------------------------------------------------


def check_saved_and_loaded(case: ModelCase) -> None:
    """Check that weights and state are all a model remembers: loaded elsewhere, it continues the same."""
    stream = example()
    model = case.prepared(stream)
    state, _ = run_over(model, stream[:20], 5)
    weights, rows = _through_a_file(model.state_dict()), _through_a_file(state.rows)
    twin = case.build(DataShape(stream.edge_width, None, stream.num_nodes), seed=1)
    twin.load_state_dict(dict(weights))
    again = twin.new_state(stream.num_nodes)
    for name, row in rows.items():
        again[name].copy_(row)
    history = History.from_stream(stream)
    for start in (20, 26):
        for one, memory in ((model, state), (twin, again)):
            one.observe(memory, history, batch_of(history, start, start + 6))
    problem = "it keeps something outside its state_dict and its state (a plain attribute?)"
    require(_same(state.rows, again.rows), f"A loaded model observes differently: {problem}.")
    same = _same(_answers(model, state, history), _answers(twin, again, history))
    require(same, f"A loaded model answers differently: {problem}.")


def check_unseen_nodes(case: ModelCase) -> None:
    """Check that nodes that appear later are like nodes without events, and change nothing for others."""
    stream, isolated, last = random_stream(2, events=30, num_nodes=8), 8, 11
    model = case.prepared(stream)
    history, state = History.from_stream(stream), model.new_state(9)
    history.grow(9)
    for _, _, observe_from, observe_to in schedule(stream.t, 4):
        model.observe(state, history, batch_of(history, observe_from, observe_to))
    nodes = torch.arange(9)
    dst = torch.stack([nodes, nodes.flip(0)], dim=1)
    times, as_of = query_times(history, 9)
    before = model.link(state, history, nodes, dst, times, as_of)
    state.grow(last + 1)
    history.grow(last + 1)
    after = model.link(state, history, nodes, dst, times, as_of)
    require_close(after, before, "Scores of known nodes changed when new nodes appeared.")
    pair = torch.tensor([isolated, last])
    scores = model.link(state, history, pair, torch.tensor([[3, 4, 0]] * 2), times[:2], as_of)
    require(bool(scores.isfinite().all()), "Scores of a new node are not finite.")
    if case.identifies_nodes:
        return
    require_close(scores[1], scores[0], "A new node is scored unlike a node without events.")
    if embeds(model):
        both = model.embed(state, history, pair, times[:2], as_of)
        require_close(both[1], both[0], "A new node is embedded unlike a node without events.")


def check_new_node_takes_part(case: ModelCase) -> None:
    """Check that a new node's first event changes its embedding, unless the model is frozen after training.

    It is compared with that of the same time without the event. A heuristic has no embeddings: there, the
    score of a pair with the new node must change.
    """
    stream = stream_of([(0, 1, 3), (1, 2, 4), (0, 2, 5), (1, 2, 6), (0, 1, 7)], 3)
    model = case.prepared(stream)
    absent, present = (_newcomer(model, stream, takes_part=takes_part) for takes_part in (False, True))
    require(bool(present.isfinite().all()), "The embedding or the score of a new node is not finite.")
    if not case.frozen:
        problem = "A new node's first event changed nothing; pass frozen=True if that is meant."
        require(not torch.allclose(present, absent, RTOL, ATOL), problem)


def _newcomer(model: Model, stream: EventStream, *, takes_part: bool) -> Tensor:
    """Return the embedding of a new node, or its scores with others, with or without its first event."""
    state, history = run_over(model, stream, 1)
    node, partner, time = torch.tensor([5]), torch.tensor([1]), history.events["t"][-1:] + 2
    state.grow(6)
    history.grow(6)
    if takes_part:
        history.append(node, partner, time)
        model.observe(state, history, batch_of(history, len(stream), len(stream) + 1))
    later = time + 1
    if embeds(model):
        return model.embed(state, history, node, later, later[0])
    return model.link(state, history, node, torch.arange(3).unsqueeze(0), later, later[0])


# -- what the checks compare --------------------------------------------------------------------------------


def _answers(model: Model, state: NodeState, history: History) -> list[Tensor]:
    """Return all of a model's answers after a stream: the scores of all pairs, and the embeddings."""
    nodes = torch.arange(state.num_nodes)
    times, as_of = query_times(history, len(nodes))
    with torch.no_grad():
        found = [model.link(state, history, nodes, nodes.repeat(len(nodes), 1), times, as_of)]
        if embeds(model):
            found.append(model.embed(state, history, nodes, times, as_of))
    return found


def _weights(model: Model) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def _tensors(history: History) -> dict[str, Tensor]:
    """Copy every array of a history."""
    return {name: array.clone() for name, array in history.saved_arrays().items()}


def _same(a: Any, b: Any) -> bool:
    """Return whether two collections of tensors are equal bit for bit."""
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
    return len(a) == len(b) and all(map(torch.equal, a, b))


def _through_a_file(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    file = io.BytesIO()
    torch.save(dict(tensors), file)
    file.seek(0)
    loaded: Mapping[str, Tensor] = torch.load(file, weights_only=True)
    return loaded
