"""Adam on one vector against torch's Adam and clipping on the weights one by one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from contig.training.optimizer import FlatAdam


def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1), nn.Linear(1, 1)).double()


def learn(net: nn.Module, call: int) -> None:
    draw = torch.Generator().manual_seed(call)
    x = torch.randn(11, 5, generator=draw, dtype=torch.float64) * (50 if call == 2 else 1)
    (net[:3](x) - 10**call).square().mean().backward()  # type: ignore[index]  # the last layer has no part in it


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [0.5, 1e9])
def test_it_is_torchs_adam_after_clipping(weight_decay: float, clip: float) -> None:
    ours, theirs = model(), model()
    flat = FlatAdam(ours, lr=0.01, weight_decay=weight_decay, clip=clip)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=weight_decay)
    for call in range(5):
        learn(ours, call)
        flat.step()
        adam.zero_grad(set_to_none=False)
        learn(theirs, call)
        for p in theirs.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        adam.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
            assert a.grad is None


def test_weights_that_are_loaded_are_stepped() -> None:
    """The vector is the weights' memory, also after a checkpoint was read into them."""
    net = model()
    flat = FlatAdam(net, lr=0.01, weight_decay=0.0, clip=1.0)
    changed = {name: tensor + 1 for name, tensor in net.state_dict().items()}
    net.load_state_dict(changed)
    learn(net, 0)
    flat.step()
    moved = [not torch.equal(net.state_dict()[name], tensor) for name, tensor in changed.items()]
    assert moved[:4] == [True] * 4
    assert torch.allclose(net.state_dict()["0.weight"], changed["0.weight"], atol=0.011)


def test_a_restored_optimizer_goes_on_as_the_first() -> None:
    one = model()
    first = FlatAdam(one, lr=0.01, weight_decay=0.0, clip=1.0)
    for call in range(3):
        learn(one, call)
        first.step()
    two = model()
    second = FlatAdam(two, lr=0.01, weight_decay=0.0, clip=1.0)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for net, optimizer in ((one, first), (two, second)):
        learn(net, 7)
        optimizer.step()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
