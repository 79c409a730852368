"""Running a step as fast as the device allows, with the numbers of the plain call up to rounding.

Only dropout, where it is compiled, draws others.

On a GPU a step is hundreds of small kernels, and launching them costs more than running them. Two
things help, and neither asks a model to be written differently:

- ``Compiled``: torch fuses the kernels of a function into few. That takes some seconds once.
- ``Captured``: a whole step is recorded as a CUDA graph, which the device then replays by itself.

What a function must keep to is that shapes depend on nothing but the batch size and that it never
waits for the device. A model that cannot says so with ``fixed_shapes`` and runs plainly.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

log = logging.getLogger("contig")

WARM_UP = 3  # calls before the capture: libraries allocate their workspaces in them


class Compiled:
    """``function(*tensors)``, compiled by torch if ``wanted``; where that fails, plain with a notice."""

    def __init__(self, function: Callable[..., Tensor], wanted: bool = True) -> None:
        self.function = function
        self._fast: Callable[..., Tensor] | None = None
        if wanted:
            with _quiet():
                self._fast = torch.compile(function, dynamic=False)

    def __call__(self, *inputs: Tensor) -> Tensor:
        if self._fast is None:
            return self.function(*inputs)
        try:
            with _quiet():
                return self._fast(*inputs)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            log.warning("This model's step cannot be compiled and runs plainly: %s", reason)
            self._fast = None
            return self.function(*inputs)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warnings about its own compiler's choices and parts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\.")
        yield


class Captured:
    """One batch after the other, replayed from a graph on a GPU.

    ``function`` takes the number of a batch as a tensor ``[1]`` on the device, where the graph moves it on
    by itself: for the next batch in a row nothing is sent there. ``plain`` takes it as an int and is what
    runs on a CPU, for a batch of other shapes, and after a capture that failed (with a notice).

    Every call runs one of them exactly once: the first calls are the warm-up, and capturing records
    without running. A result is to be used before the next call, which may write over it.
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        plain: Callable[[int], Tensor],
        device: torch.device,
        *,
        fixed_shapes: bool = True,
    ) -> None:
        self.function, self.plain = function, plain
        self.capturable = fixed_shapes
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self._stands_at = 0  # what the number is on the device

    def __call__(self, number: int, *, regular: bool = True) -> Tensor:
        """The batch of this number, whose shapes are ``regular`` or not."""
        if not (regular and self.capturable and self.number.is_cuda):
            return self.plain(number)
        with torch.cuda.device(self.number.device):  # of another current device a capture would hold nothing
            return self._on_gpu(number)

    def _on_gpu(self, number: int) -> Tensor:
        self.calls += 1
        if self.calls > WARM_UP and self.graph is None and not self._capture():
            return self.plain(number)
        if self._stands_at != number:
            self.number.fill_(number)
        self._stands_at = -1  # unknown, should the step fail
        if self.graph is None:
            self.result = self._aside()
        else:
            self.graph.replay()
        self._stands_at = number + 1
        return self.result

    def _advance(self) -> Tensor:
        result = self.function(self.number)
        self.number += 1
        return result

    def _aside(self) -> Tensor:
        """A call without a graph, on a side stream, as a capture asks of its warm-up."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self._advance()
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self) -> bool:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                self.result = self._advance()
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # a capture that fails leaves its own stream as the current one
            self.capturable = False
            reason = str(error).strip().splitlines()[0]
            log.warning("This model's step cannot be captured as a CUDA graph and runs plainly: %s", reason)
            return False
        self.graph = graph
        return True
