"""ConTIG with evidence: what its parts do, and what they leave alone."""

from __future__ import annotations

import pytest
import torch
from support.problems import random_stream, shape_of, tiny
from torch import Tensor

from contig.errors import ConfigError
from contig.history import History
from contig.models import EventBatch, Model, contig_pair
from contig.models.bases.pair_evidence import NodeTokens, PairEvidence
from contig.models.contig import ConTIG

Problem = tuple[Model, History, EventBatch, torch.Tensor]


def problem(**settings: object) -> Problem:
    stream = random_stream(3, num_nodes=9, events=60)
    torch.manual_seed(1)
    model = tiny("contig-pair", shape_of(stream), **settings).eval()
    history = History.from_stream(stream)
    batch = EventBatch.of(history, torch.arange(30, 40))
    return model, history, batch, torch.tensor([[1, 4], [2, 5]] * 5)


def test_embeddings_that_are_apart_do_not_change_scores() -> None:
    model, history, batch, negative = problem(embedding="apart")
    state = model.new_state(9)
    before = model.link(state, history, batch.src, negative, batch.t, batch.t[0])
    model.observe(state, history, EventBatch.of(history, torch.arange(0, 30)))
    state["h"].add_(torch.randn_like(state["h"]))
    torch.testing.assert_close(model.link(state, history, batch.src, negative, batch.t, batch.t[0]), before)


def test_embeddings_that_are_joined_change_scores() -> None:
    model, history, batch, negative = problem(embedding="joined")
    state = model.new_state(9)
    before = model.link(state, history, batch.src, negative, batch.t, batch.t[0])
    state["h"].add_(torch.randn_like(state["h"]))
    after = model.link(state, history, batch.src, negative, batch.t, batch.t[0])
    assert not torch.allclose(after, before, atol=1e-4)


def test_embeddings_are_trained_as_in_contig() -> None:
    """The penalty is the cross-entropy of ConTIG's own scores, with the first negative of each event."""
    model, history, batch, negative = problem(embedding="apart")
    state = model.new_state(9)
    candidates = torch.stack([batch.dst, negative[:, 0]], dim=1)
    logits = ConTIG.link(model, state, history, batch.src, candidates, batch.t, batch.t[0])  # type: ignore[arg-type]
    truth = torch.tensor([1.0, 0.0]).expand_as(logits)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth)
    penalty = model.penalty(state, history, batch, negative)
    assert penalty is not None
    torch.testing.assert_close(penalty, expected)


def test_without_embeddings_nothing_is_added_to_the_loss() -> None:
    model, history, batch, negative = problem(embedding="none")
    assert model.penalty(model.new_state(9), history, batch, negative) is None


def test_ranking_in_parts_changes_nothing() -> None:
    model, history, batch, _ = problem()
    state, everyone = model.new_state(9), torch.arange(9)
    expected = model.link(state, history, batch.src, everyone.expand(10, -1), batch.t, batch.t[0])
    for pairs in (1, 4, 20, 1000):
        found = model.link_in_parts(state, history, batch.src, everyone, batch.t, batch.t[0], pairs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("embedding", ["apart", "joined"])
@pytest.mark.parametrize("sources", [1, 5])
def test_candidates_without_events_are_read_once_and_tie(
    sources: int, embedding: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranked by parts of two candidates, on several threads, every pair has the score of ``link``."""
    monkeypatch.setattr(contig_pair, "CPU_CANDIDATES", 2)
    monkeypatch.setattr(contig_pair, "CPU_MOST_CANDIDATES", 2)
    read: list[int] = []
    tokens = PairEvidence.node_tokens

    def counted(self: PairEvidence, history: History, side: int, nodes: Tensor, time: Tensor) -> NodeTokens:
        read.extend(nodes.tolist() if side == 1 else [])
        return tokens(self, history, side, nodes, time)

    monkeypatch.setattr(PairEvidence, "node_tokens", counted)
    model, history, _, _ = problem(embedding=embedding)
    model.eval()
    state, time = model.new_state(16), torch.tensor(10**9)
    src, everyone = torch.arange(sources), torch.tensor([12, 3, 9, 0, 15, 8, 1, 14, 2])  # 9 to 15 are unknown
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            expected = model.link(
                state, history, src, everyone.expand(sources, -1), time.expand(sources), time
            )
            found = model.rank(state, history, src, everyone, time, time)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if embedding == "apart":
        assert sorted(read) == [0, 1, 2, 3, 8, 12]
        assert bool((found[:, everyone > 8] == found[:, :1]).all())
    else:
        assert sorted(read) == sorted(everyone.tolist())


@pytest.mark.parametrize("steps", [(0,), (1, 33)])
def test_steps_that_no_key_can_hold_are_refused_before_training(steps: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="transitions span 1 to 32 events"):
        problem(steps=steps)
