"""Losses of links against torch's own."""

from __future__ import annotations

import pytest
import torch

from contig.layers.losses import LOGISTIC_SHARE, link_loss


@pytest.mark.parametrize("negatives", [1, 4])
def test_logistic_weighs_true_links_and_negatives_alike(negatives: int) -> None:
    logits = torch.randn(7, 1 + negatives, generator=torch.Generator().manual_seed(0))
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    positive = cross_entropy(logits[:, 0], torch.ones(7))
    negative = cross_entropy(logits[:, 1:], torch.zeros(7, negatives))
    torch.testing.assert_close(link_loss(logits, "logistic"), (positive + negative) / 2)


def test_softmax_finds_the_true_link_among_its_negatives() -> None:
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    share = logits.exp()[:, 0] / logits.exp().sum(1)
    expected = -share.log().mean() + 2 * LOGISTIC_SHARE * link_loss(logits, "logistic")
    torch.testing.assert_close(link_loss(logits, "softmax"), expected)
