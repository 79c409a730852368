"""Adam with gradient clipping, on all weights of a model as one vector.

On a GPU, torch's fused Adam runs small tensors on a handful of processors, and clipping launches a kernel or
two per weight. One long vector avoids both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from contig.ranks import ranks
from contig.streaming.capture import Compiled

ALIGNMENT = 64  # elements; matrix products are slower on unaligned weights
BETAS = (0.9, 0.999)
EPSILON = 1e-8
EARLY = 3  # of the average of weights: the share of step n is at least 3 / (2 + n)


class FlatAdam:
    """Adam (Kingma and Ba, 2015) on a model's weights, which become views of one vector.

    A gradient with a norm above ``clip`` is scaled down to it first. ``averaging`` is the decay per step of
    an exponential moving average of the weights; 0 keeps none.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float,
        weight_decay: float,
        clip: float,
        averaging: float = 0.0,
        compiled: bool = False,
    ) -> None:
        self.lr, self.weight_decay, self.clip, self.averaging = lr, weight_decay, clip, averaging
        self._ranks = ranks()
        self.parameters = list(model.parameters())
        sizes = [-(-p.numel() // ALIGNMENT) * ALIGNMENT for p in self.parameters]
        like = self.parameters[0].detach()
        self.vector = like.new_zeros(sum(sizes))
        self._padding = [like.new_zeros(n - p.numel()) for n, p in zip(sizes, self.parameters, strict=True)]
        for parameter, room in zip(self.parameters, self.vector.split(sizes), strict=True):
            parameter.data = room[: parameter.numel()].view_as(parameter).copy_(parameter.detach())
        self.mean, self.square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.average = self.vector.clone() if averaging else None
        self.count = torch.zeros((), dtype=torch.float32, device=like.device)
        self._update_on_gpu = Compiled(self._update, compiled)

    def clear(self) -> None:
        """Drop all gradients, including those of an interrupted step."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights and drop the gradients; a missing gradient counts as zero."""
        self._apply(self._ranks.total(self._gradient()))

    @torch.no_grad()
    def step_and_sum(self, values: Tensor) -> Tensor:
        """Take a step, and return the sum of values ``[n]`` over all ranks from the same exchange."""
        gradient = self._gradient()
        total, values = self._ranks.total(torch.cat([gradient, values])).split([len(gradient), len(values)])
        self._apply(total)
        return values

    def _gradient(self) -> Tensor:
        """Return the gradient of all weights, and drop it from them."""
        pieces = []
        for parameter, padding in zip(self.parameters, self._padding, strict=True):
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            pieces += [grad.flatten(), padding]
        self.clear()
        return torch.cat(pieces)

    def _apply(self, grad: Tensor) -> None:
        """Update the weights, and their average where one is kept."""
        if grad.is_cuda:
            self._update_on_gpu(grad)
        else:
            self._update_on_cpu(grad)
        if self.average is not None:
            # At first the average covers mostly the last third of the steps: initial weights are random.
            share = (EARLY / (EARLY - 1 + self.count)).clamp(min=1 - self.averaging)
            self.average.lerp_(self.vector, share)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Give the model the average of its weights, where one is kept, until the context ends."""
        if self.average is None:
            yield
            return
        weights = self.vector.clone()
        self.vector.copy_(self.average)
        try:
            yield
        finally:
            self.vector.copy_(weights)

    def _update_on_cpu(self, grad: Tensor) -> None:
        """Update by torch's fused Adam, which is one pass over the memory on a CPU."""
        grad.mul_((self.clip / (grad.norm() + 1e-6)).clamp(max=1.0))
        adam(
            *([self.vector], [grad], [self.mean], [self.square], [], [self.count]),
            lr=self.lr,
            beta1=BETAS[0],
            beta2=BETAS[1],
            eps=EPSILON,
            weight_decay=self.weight_decay,
            amsgrad=False,
            maximize=False,
            fused=True,
        )

    def _update(self, grad: Tensor) -> Tensor:
        grad = grad * (self.clip / (grad.norm() + 1e-6)).clamp(max=1.0)
        if self.weight_decay:
            grad = grad + self.weight_decay * self.vector
        self.count += 1
        self.mean.lerp_(grad, 1 - BETAS[0])
        self.square.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
        step_size = self.lr / (1 - BETAS[0] ** self.count)
        scale = (self.square / (1 - BETAS[1] ** self.count)).sqrt() + EPSILON
        self.vector.sub_(step_size * self.mean / scale)
        return self.count

    def state_dict(self) -> dict[str, Tensor]:
        """Return the moments and the number of steps; the weights belong to the model."""
        saved = {"mean": self.mean, "square": self.square, "count": self.count}
        return saved if self.average is None else saved | {"average": self.average}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Load what ``state_dict`` returned, in place."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(saved[name])
