"""Ranking many candidates against scoring one pair at a time, for every model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.problems import CASES, COUPLED, case, random_stream, run_over, shape_of, stream_of, tiny
from torch import Tensor

from contig.history import History
from contig.models import Model, NodeState, contract

EVENTS, NODES = 40, 9
Observed = tuple[Model, NodeState, History]


def observed(name: str) -> Observed:
    """A model that has observed the first part of a stream, and the history of all of it."""
    stream = random_stream(4, events=EVENTS, num_nodes=NODES)
    model = case(name, shape_of(stream))
    state, _ = run_over(model, stream[:25], 4)
    return model, state, History.from_stream(stream)


def queries(history: History) -> tuple[Tensor, Tensor, Tensor]:
    """Five sources, seven candidates, and times among events that the state has not observed."""
    times = history.events["t"][torch.tensor([25, 28, 28, 33, 39])]
    return torch.tensor([3, 0, 3, 8, 5]), torch.tensor([7, 2, 0, 8, 1, 4, 5]), times


def one_by_one(
    model: Model, state: NodeState, history: History, src: Tensor, dst: Tensor, times: Tensor, as_of: Tensor
) -> Tensor:
    """Score each pair in a call of its own."""
    return torch.stack(
        [
            torch.cat([model.link(state, history, s[None], d.view(1, 1), t[None], as_of)[0] for d in row])
            for s, row, t in zip(src, dst, times, strict=True)
        ]
    )


@torch.no_grad()
def ranked(graph: Observed, own_candidates: bool, own_times: bool) -> Tensor:
    """Return the scores of ``rank``."""
    model, state, history = graph
    src, candidates, times = queries(history)
    dst = own_lists(candidates, len(src)) if own_candidates else candidates
    return model.rank(state, history, src, dst, times if own_times else times[2], times[0])


@torch.no_grad()
def linked(graph: Observed, own_candidates: bool, own_times: bool, together: bool) -> Tensor:
    """Return the same scores by calls of ``link``: a single one, or one per pair."""
    model, state, history = graph
    src, candidates, times = queries(history)
    dst = own_lists(candidates, len(src)) if own_candidates else candidates.expand(len(src), -1)
    when = (times if own_times else times[2]).expand(len(src))
    if together:
        return model.link(state, history, src, dst, when, times[0])
    return one_by_one(model, state, history, src, dst, when, times[0])


def own_lists(candidates: Tensor, sources: int) -> Tensor:
    return torch.stack([candidates.roll(i)[:6] for i in range(sources)])


@pytest.mark.parametrize("own_times", [True, False])
@pytest.mark.parametrize("own_candidates", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_ranking_is_scoring_each_pair(name: str, own_candidates: bool, own_times: bool) -> None:
    graph = observed(name)
    found = ranked(graph, own_candidates, own_times)
    expected = linked(graph, own_candidates, own_times, together=name in COUPLED)
    assert found.shape == expected.shape == (5, 6 if own_candidates else 7)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(found.unique()) > 1


@pytest.mark.parametrize("own_times", [True, False])
@pytest.mark.parametrize("name", [n for n in CASES if n not in COUPLED])
def test_parts_change_nothing(name: str, own_times: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows at a time with a smaller rest, and less than one row."""
    graph = observed(name)
    whole = ranked(graph, own_candidates=False, own_times=own_times)
    for pairs in (15, 3):
        monkeypatch.setattr(contract, "pairs_per_call", lambda device, pairs=pairs: pairs)
        monkeypatch.setattr(type(graph[0]), "embedded_at_once", pairs)
        parts = ranked(graph, own_candidates=False, own_times=own_times)
        torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("leaves", [60, 600])
@pytest.mark.parametrize("name", ["contig", "contig-two-hops", "contig-pair", "recency"])
def test_ranking_a_star_takes_work_in_proportion_to_its_leaves(
    name: str, leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of one source at one time computes each candidate once, not once for each event."""
    stream = stream_of([(0, 1 + i, i) for i in range(leaves)], leaves + 1)
    model, history = case(name, shape_of(stream)), History.from_stream(stream)
    state, _ = run_over(model, stream[: leaves // 2], 5)
    computed, most = [], 100
    embed, link, plain = model.embed, model.link, model.link
    monkeypatch.setattr(type(model), "embedded_at_once", most)
    monkeypatch.setattr(model, "embed", lambda *x: computed.append(len(x[2])) or embed(*x))
    monkeypatch.setattr(model, "link", lambda *x, **y: computed.append(x[3].numel()) or link(*x, **y))
    if name == "contig-pair":
        pair_vectors = model.evidence.pair_vectors

        def counted(*x: Any) -> Tensor:
            found: Tensor = pair_vectors(*x)
            computed.append(found.shape[:2].numel())
            return found

        monkeypatch.setattr(model.evidence, "pair_vectors", counted)
    hub, candidates = torch.zeros(20, dtype=torch.int64), torch.arange(1, leaves + 1)
    time = torch.tensor(leaves // 2)
    with torch.no_grad():
        found = model.rank(state, history, hub, candidates, time, time)
    assert found.shape == (20, leaves)
    expected_work = leaves // 2 + 1 if name == "contig-pair" else leaves  # leaves without events are alike
    assert expected_work <= sum(computed) <= expected_work + 1
    assert name not in ("contig", "contig-two-hops") or max(computed) <= most
    with torch.no_grad():
        expected = plain(state, history, hub[:1], candidates.unsqueeze(0), time.reshape(1), time)
    torch.testing.assert_close(found, expected.expand_as(found), rtol=1e-4, atol=1e-5)


def test_events_of_a_batch_count_at_their_own_time() -> None:
    """An event after ``as_of`` but before the query counts, unless the query is at ``as_of``."""
    model, state, history = observed("edgebank")
    src, dst, t = (history.events[name] for name in ("src", "dst", "t"))
    late = next(
        i for i in range(26, EVENTS - 1)
        if t[25] < t[i] < t[-1] and not ((src[:26] == src[i]) & (dst[:26] == dst[i])).any()
    )  # fmt: skip
    pair = (src[late : late + 1], dst[late : late + 1])
    assert model.rank(state, history, *pair, t[-1:], t[25]).item() == 1
    assert model.rank(state, history, *pair, t[25], t[25]).item() == 0


@pytest.mark.parametrize(
    ("name", "settings", "embedded"),
    [
        ("tgat", {"layers": 3, "neighbors": 7}, 1 + 7 + 49),
        ("tgat", {"layers": 1, "neighbors": 7}, 1),
        ("graphsage", {"neighbors": 9}, 1 + 9),
        ("gat", {"neighbors": 9}, 1 + 9),
        ("tgn", {"neighbors": 9}, 1),
    ],
)
def test_a_gpu_embeds_about_as_many_nodes_in_a_call_whatever_the_depth(
    name: str, settings: dict[str, int], embedded: int
) -> None:
    model = tiny(name, shape_of(random_stream(1)), **settings)
    gpu, whole = torch.device("cuda"), contract.pairs_per_call(torch.device("cuda"))
    assert whole / 2 < model.pairs_at_once(gpu) * embedded < 1.2 * whole
    assert model.pairs_at_once(torch.device("cpu")) == contract.pairs_per_call(torch.device("cpu"))


@pytest.mark.gpu
def test_ranking_by_deep_models_takes_bounded_memory() -> None:
    stream = random_stream(2, events=4000, num_nodes=300)
    model = tiny("tgat", shape_of(stream), dim=172, time_dim=172, neighbors=20, heads=2).cuda()
    history = History.from_stream(stream, device="cuda")
    state, _ = model.new_state(stream.num_nodes), torch.cuda.reset_peak_memory_stats()
    src, times = history.events["src"][-400:], history.events["t"][-400:]
    with torch.no_grad():
        model.rank(state, history, src, torch.arange(300, device="cuda"), times, times[0])
    assert torch.cuda.max_memory_allocated() < 8 * 2**30
