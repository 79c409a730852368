"""The decoders against matrix products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from contig.layers import NodeDecoder, PairDecoder, decoders

DIM, SOURCES, CANDIDATES = 6, 5, 4


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def weights(layer: torch.nn.Module) -> list[np.ndarray]:
    return [p.detach().numpy() for p in layer.parameters()]


def test_the_pair_decoder_is_a_perceptron_of_the_concatenation() -> None:
    decoder = PairDecoder(DIM, hidden=3)
    src, dst = torch.randn(SOURCES, DIM), torch.randn(SOURCES, DIM)
    from_src, bias, from_dst, out, out_bias = weights(decoder)
    pair = np.concatenate([src.numpy(), dst.numpy()], axis=1)
    hidden = np.maximum(pair @ np.concatenate([from_src, from_dst], axis=1).T + bias, 0)
    expected = (hidden @ out.T + out_bias)[:, 0]
    np.testing.assert_allclose(decoder(src, dst).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_broadcast_candidates_are_scored_as_single_pairs() -> None:
    decoder = PairDecoder(DIM)
    src, dst = torch.randn(SOURCES, DIM), torch.randn(SOURCES, CANDIDATES, DIM)
    found = decoder(src.unsqueeze(1), dst)
    alone = [[decoder(src[i], dst[i, j]) for j in range(CANDIDATES)] for i in range(SOURCES)]
    expected = torch.stack([torch.stack(row) for row in alone])
    torch.testing.assert_close(found, expected)
    parts = decoder.join(decoder.from_src(src).unsqueeze(1), decoder.from_dst(dst))
    torch.testing.assert_close(parts, expected)


def test_the_direction_of_a_pair_matters() -> None:
    decoder = PairDecoder(DIM)
    src, dst = torch.randn(2, DIM), torch.randn(2, DIM)
    assert not torch.allclose(decoder(src, dst), decoder(dst, src))


def test_the_node_decoder_is_a_three_layer_perceptron() -> None:
    decoder = NodeDecoder(DIM, hidden=(5, 3)).eval()
    x = torch.randn(SOURCES, DIM)
    w1, b1, w2, b2, w3, b3 = weights(decoder)
    hidden = np.maximum(np.maximum(x.numpy() @ w1.T + b1, 0) @ w2.T + b2, 0)
    expected = (hidden @ w3.T + b3)[:, 0]
    np.testing.assert_allclose(decoder(x).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_node_decoder_applies_dropout_in_training_only() -> None:
    decoder, x = NodeDecoder(DIM, hidden=(50, 50), dropout=0.5), torch.randn(SOURCES, DIM)
    assert not torch.equal(decoder(x), decoder(x))
    assert torch.equal(decoder.eval()(x), decoder(x))


@pytest.mark.parametrize("chunk", [1, 40, 2**20])
def test_all_pairs_are_scored_as_single_pairs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of any size."""
    monkeypatch.setattr(decoders, "CPU_CHUNK", chunk)
    torch.manual_seed(0)
    decoder, src, dst = PairDecoder(6, hidden=4), torch.randn(5, 6), torch.randn(3, 6)
    found = decoder.all_pairs(src, dst)
    assert found.shape == (5, 3)
    for i in range(5):
        for j in range(3):
            torch.testing.assert_close(found[i, j], decoder(src[i], dst[j]))
