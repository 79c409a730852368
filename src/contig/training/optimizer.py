"""Adam with clipping, on all weights of a model as one vector.

One long tensor instead of dozens of small ones: on a GPU torch's own fused Adam gives a tensor of this
size to a handful of processors, and clipping needs a kernel or two per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from contig.streaming.capture import Compiled

ALIGNED = 64  # numbers; matrix products are slower on weights that begin anywhere
FADING = (0.9, 0.999)  # Adam's two rates
TINY = 1e-8  # Adam's epsilon


class FlatAdam:
    """Makes a model's weights views of one vector and steps that by Adam (Kingma and Ba, 2015).

    A gradient whose norm exceeds ``clip`` is shortened to it first.
    """

    def __init__(
        self, model: nn.Module, *, lr: float, weight_decay: float, clip: float, compiled: bool = False
    ) -> None:
        self.lr, self.weight_decay, self.clip = lr, weight_decay, clip
        self.parameters = list(model.parameters())
        sizes = [-(-p.numel() // ALIGNED) * ALIGNED for p in self.parameters]
        like = self.parameters[0].detach()
        self.vector = like.new_zeros(sum(sizes))
        self._padding = [like.new_zeros(n - p.numel()) for n, p in zip(sizes, self.parameters, strict=True)]
        for parameter, room in zip(self.parameters, self.vector.split(sizes), strict=True):
            parameter.data = room[: parameter.numel()].view_as(parameter).copy_(parameter.detach())
        self.mean, self.square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.count = torch.zeros((), dtype=torch.float32, device=like.device)
        self._update = Compiled(self._updated, compiled)

    def clear(self) -> None:
        """Forget gradients, also those of a step that did not come to its end."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take the gradients that are there, and leave none."""
        pieces = []
        for parameter, padding in zip(self.parameters, self._padding, strict=True):
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            pieces += [grad.flatten(), padding]
        self.clear()
        grad = torch.cat(pieces)
        if grad.is_cuda:
            self._update(grad)
        else:
            self._update_on_cpu(grad)

    def _update_on_cpu(self, grad: Tensor) -> None:
        """By torch's fused Adam, which there is one pass over the memory."""
        grad.mul_((self.clip / (grad.norm() + 1e-6)).clamp(max=1.0))
        adam(
            *([self.vector], [grad], [self.mean], [self.square], [], [self.count]),
            lr=self.lr,
            beta1=FADING[0],
            beta2=FADING[1],
            eps=TINY,
            weight_decay=self.weight_decay,
            amsgrad=False,
            maximize=False,
            fused=True,
        )

    def _updated(self, grad: Tensor) -> Tensor:
        grad = grad * (self.clip / (grad.norm() + 1e-6)).clamp(max=1.0)
        if self.weight_decay:
            grad = grad + self.weight_decay * self.vector
        self.count += 1
        self.mean.lerp_(grad, 1 - FADING[0])
        self.square.mul_(FADING[1]).addcmul_(grad, grad, value=1 - FADING[1])
        size = self.lr / (1 - FADING[0] ** self.count)
        spread = (self.square / (1 - FADING[1] ** self.count)).sqrt() + TINY
        self.vector.sub_(size * self.mean / spread)
        return self.count

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "square": self.square, "count": self.count}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(saved[name])
