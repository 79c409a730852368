"""Adam on one vector against torch's Adam and torch's clipping of separate weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from contig.training.optimizer import FlatAdam


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1), nn.Linear(1, 1)).double()


def backward(net: nn.Module, call: int) -> None:
    """Leave gradients of a loss that differs from call to call; the last layer has no part in it."""
    draw = torch.Generator().manual_seed(call)
    x = torch.randn(11, 5, generator=draw, dtype=torch.float64) * (50 if call == 2 else 1)
    (net[:3](x) - 10**call).square().mean().backward()  # type: ignore[index]


@pytest.mark.parametrize("branch", ["cpu", "gpu"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [0.5, 1e9])
def test_a_step_equals_torch_adam_after_clipping(
    clip: float, weight_decay: float, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if branch == "gpu":  # its operations run on a CPU as well
        monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: True))
    tolerance = {"cpu": 1e-9, "gpu": 1e-6}[branch]  # the step count is float32, and so its corrections there
    ours, theirs = network(), network()
    flat = FlatAdam(ours, lr=0.01, weight_decay=weight_decay, clip=clip)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=weight_decay)
    for call in range(5):
        backward(ours, call)
        flat.step()
        adam.zero_grad(set_to_none=False)
        backward(theirs, call)
        for p in theirs.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        adam.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
            assert a.grad is None


def test_weights_loaded_from_a_checkpoint_are_updated() -> None:
    """Loading copies into the vector and does not replace it."""
    net = network()
    flat = FlatAdam(net, lr=0.01, weight_decay=0.0, clip=1.0)
    changed = {name: tensor + 1 for name, tensor in net.state_dict().items()}
    net.load_state_dict(changed)
    backward(net, 0)
    flat.step()
    moved = [not torch.equal(net.state_dict()[name], tensor) for name, tensor in changed.items()]
    assert moved[:4] == [True] * 4
    assert torch.allclose(net.state_dict()["0.weight"], changed["0.weight"], atol=0.011)


def test_a_restored_optimizer_takes_the_same_step() -> None:
    one = network()
    first = FlatAdam(one, lr=0.01, weight_decay=0.0, clip=1.0)
    for call in range(3):
        backward(one, call)
        first.step()
    two = network()
    second = FlatAdam(two, lr=0.01, weight_decay=0.0, clip=1.0)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for net, optimizer in ((one, first), (two, second)):
        backward(net, 7)
        optimizer.step()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_average_of_weights_is_that_of_a_loop() -> None:
    """It follows the first steps closely, then forgets by its decay; the weights come back afterwards."""
    net = network()
    flat = FlatAdam(net, lr=0.01, weight_decay=0.0, clip=1.0, averaging=0.75)
    average = [p.detach().clone() for p in net.parameters()]
    for step in range(1, 16):
        backward(net, step % 3)
        flat.step()
        share = max(3 / (2 + step), 0.25)
        average = [a + share * (p.detach() - a) for a, p in zip(average, net.parameters(), strict=True)]
        weights = [p.detach().clone() for p in net.parameters()]
        with flat.averaged():
            for a, p in zip(average, net.parameters(), strict=True):
                torch.testing.assert_close(p.detach(), a, rtol=1e-6, atol=1e-9)
        for w, p in zip(weights, net.parameters(), strict=True):
            assert torch.equal(w, p.detach())
    assert not torch.allclose(average[0], weights[0], rtol=1e-3)


def test_the_average_is_saved() -> None:
    net = network()
    flat = FlatAdam(net, lr=0.01, weight_decay=0.0, clip=1.0, averaging=0.9)
    for step in range(4):
        backward(net, step % 3)
        flat.step()
    twin = copy.deepcopy(net)
    other = FlatAdam(twin, lr=0.01, weight_decay=0.0, clip=1.0, averaging=0.9)
    other.load_state_dict(flat.state_dict())
    for one, optimizer in ((net, flat), (twin, other)):
        backward(one, 1)
        optimizer.step()
    with flat.averaged(), other.averaged():
        for a, b in zip(net.parameters(), twin.parameters(), strict=True):
            assert torch.equal(a, b)
