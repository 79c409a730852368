"""Losses of links: logits of true destinations and of their negatives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

LinkLoss = Literal["logistic", "softmax"]

LOGISTIC_SHARE = 0.1  # of the softmax loss; it keeps logits meaningful as probabilities


def link_loss(logits: Tensor, kind: LinkLoss) -> Tensor:
    """Return the loss of logits ``[events, 1 + negatives]`` whose first column is the true one.

    ``logistic`` is the cross-entropy of telling true links from negatives, each kind with half of the weight.
    ``softmax`` is that of finding the true link among its negatives, plus a little of the former.
    """
    positive, negative = logits[:, 0], logits[:, 1:]
    logistic = (softplus(-positive).mean() + softplus(negative).mean()) / 2
    if kind == "logistic":
        return logistic
    first = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
    return cross_entropy(logits, first) + 2 * LOGISTIC_SHARE * logistic


def met_pair_loss(true: Tensor, met: Tensor, usable: Tensor) -> Tensor:
    """Return the cross-entropy of telling true pairs from pairs that met before, all fields ``[events]``.

    Each kind has half of the weight; what is not usable counts as 0.
    """
    return (softplus(-true).mean() + (softplus(met) * usable).mean()) / 2
