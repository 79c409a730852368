"""Running a step as fast as the device allows, with the same numbers as the plain call.

On a GPU a step is hundreds of small kernels, and launching them costs more than running them. So a
function of a batch's event positions is captured once as a CUDA graph and replayed after that. The
function is written as if there were no graph; what it must keep to is that shapes depend on nothing
but the batch size and that it never waits for the device. A model that cannot says so with
``fixed_shapes`` and runs plainly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

log = logging.getLogger("contig")

WARM_UP = 3  # plain calls before the capture: libraries allocate their workspaces in them


class Captured:
    """``function(events) -> Tensor``, replayed from a graph for batches of ``size`` events on a GPU.

    Every call runs the function exactly once, whether plain or replayed: the first calls are the
    warm-up, and capturing records without running. Batches of any other size run plainly, and so
    does everything on a CPU or after a capture that failed (with a notice).
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        size: int,
        generators: tuple[torch.Generator, ...] = (),
        fixed_shapes: bool = True,
    ) -> None:
        self.function, self.size, self.generators = function, size, generators
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.plain = not fixed_shapes

    def __call__(self, events: Tensor) -> Tensor:
        if not events.is_cuda or len(events) != self.size or self.plain:
            return self.function(events)
        with torch.cuda.device(events.device):  # of another current device a capture would hold nothing
            return self._on_gpu(events)

    def _on_gpu(self, events: Tensor) -> Tensor:
        self.calls += 1
        if self.calls <= WARM_UP:
            return self._aside(events)
        if self.graph is None and not self._capture(events):
            return self.function(events)
        assert self.graph is not None
        self.events.copy_(events)
        self.graph.replay()
        return self.result.clone()

    def _aside(self, events: Tensor) -> Tensor:
        """A plain call on a side stream, as a capture asks of its warm-up."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self.function(events)
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self, events: Tensor) -> bool:
        self.events = events.clone()
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        stream = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph):
                self.result = self.function(self.events)
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # a capture that fails leaves its own stream as the current one
            self.plain = True
            reason = str(error).strip().splitlines()[0]
            log.warning("This model's step cannot be captured as a CUDA graph and runs plainly: %s", reason)
            return False
        self.graph = graph
        return True
