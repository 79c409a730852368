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

WARM_UP = 3  # plain calls before the capture: libraries allocate their workspaces in them


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
    """``function(*tensors) -> Tensor``, replayed from a graph for inputs of ``sizes`` rows on a GPU.

    Every call runs the function exactly once, whether plain or replayed: the first calls are the
    warm-up, and capturing records without running. Inputs of any other size run plainly, and so
    does everything on a CPU or after a capture that failed (with a notice). ``plain`` is what runs
    then, where it is not the function itself.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        sizes: tuple[int, ...],
        *,
        fixed_shapes: bool = True,
        plain: Callable[..., Tensor] | None = None,
    ) -> None:
        self.function, self.plain = function, plain or function
        self.sizes = sizes
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.capturable = fixed_shapes

    def __call__(self, *inputs: Tensor) -> Tensor:
        fits = self.capturable and tuple(map(len, inputs)) == self.sizes
        if not fits or not inputs[0].is_cuda:
            return self.plain(*inputs)
        with torch.cuda.device(inputs[0].device):  # of another current device a capture would hold nothing
            return self._on_gpu(*inputs)

    def _on_gpu(self, *inputs: Tensor) -> Tensor:
        self.calls += 1
        if self.calls <= WARM_UP:
            return self._aside(*inputs)
        if self.graph is None and not self._capture(*inputs):
            return self.plain(*inputs)
        assert self.graph is not None
        for kept, given in zip(self.inputs, inputs, strict=True):
            kept.copy_(given)
        self.graph.replay()
        return self.result.clone()

    def _aside(self, *inputs: Tensor) -> Tensor:
        """A plain call on a side stream, as a capture asks of its warm-up."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self.function(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self, *inputs: Tensor) -> bool:
        self.inputs = tuple(given.clone() for given in inputs)
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                self.result = self.function(*self.inputs)
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # a capture that fails leaves its own stream as the current one
            self.capturable = False
            reason = str(error).strip().splitlines()[0]
            log.warning("This model's step cannot be captured as a CUDA graph and runs plainly: %s", reason)
            return False
        self.graph = graph
        return True


def room_for(batch_size: int) -> int:
    """How many events a captured step observes: now and then a few are left over from the batch before."""
    return batch_size + batch_size // 4


def filled(events: Tensor, room: int) -> Tensor:
    """``events`` up to a fixed size by naming the last one again, which observing it does not notice.

    Only on a GPU, where shapes must not change; none at all, or more than ``room``, stay as they are.
    """
    if not events.is_cuda or not 0 < len(events) < room:
        return events
    return torch.cat([events, events[-1:].expand(room - len(events))])
