"""The peer does the same work as our models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.extras import needs

from contig.benchmarks.bench import Bench
from contig.benchmarks.peers import PeerEvents, PeerTGN
from contig.errors import ConfigError

pytestmark = needs("torch_geometric")


def test_the_peer_learns_from_the_same_batches(bench: Bench) -> None:
    peer, session = bench.peer(), bench.session("contig")
    train = bench.data.split.train
    peer.rewind()
    batch, step = peer._next_batch(), session.steps[0]
    assert np.array_equal(batch.src, bench.stream.src[train[step.start : step.stop]])
    assert np.array_equal(batch.dst, bench.stream.dst[train[step.start : step.stop]])
    negative = peer.draw_negatives(batch)
    assert len(negative) == step.stop - step.start  # one per event, like ours
    assert set(negative.tolist()) <= set(bench.stream.dst[train].tolist())


def test_the_peer_learns() -> None:
    """Nearly all events have one of two popular destinations; negatives have any of 17."""
    rng = np.random.default_rng(0)
    count, size = 600, 30
    popular = 20 + rng.integers(0, 2, count)
    dst = np.where(rng.random(count) < 0.95, popular, 20 + rng.integers(0, 17, count))
    src, dst = torch.from_numpy(rng.integers(0, 20, count)), torch.from_numpy(dst)
    events = PeerEvents(src, dst, torch.arange(count))
    peer = PeerTGN(events, 37, np.arange(20, 37), dim=8, neighbors=4, batch_size=size)
    for group in peer.optimizer.param_groups:
        group["lr"] = 0.01
    epochs = []
    for _ in range(5):
        peer.rewind()
        epochs.append(np.mean([float(peer.train_step()) for _ in range(count // size)]))
    assert epochs[0] > 0.5
    assert epochs[-1] < 0.6 * epochs[0]


def test_the_peer_observes_what_it_has_scored(bench: Bench) -> None:
    """After three batches, exactly their nodes have a memory."""
    peer = bench.peer(learn=False)
    peer.rewind()
    peer.advance(3)
    assert peer.loader.cur_e_id == 3 * bench.settings.batch_size
    seen = np.unique([bench.stream.src[:120], bench.stream.dst[:120]])
    assert peer.model.memory.memory.abs().sum(dim=1).nonzero().squeeze(1).tolist() == seen.tolist()


def test_the_attention_heads_must_divide_the_width() -> None:
    events = PeerEvents(*torch.arange(3 * 4).reshape(3, 4))
    with pytest.raises(ConfigError, match="dim=7 must be divisible by the 2 attention heads"):
        PeerTGN(events, 12, np.arange(4, 8), dim=7, neighbors=2, batch_size=2)
