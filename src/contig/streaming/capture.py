"""Running a step as fast as the device allows, with the same numbers up to rounding.

Only dropout draws other numbers where it is compiled.

On a GPU a step is hundreds of small kernels, and launching them costs more than running them. Two things
help, and neither needs a model to be written differently:

- ``Compiled``: torch fuses the kernels of a function into few. That takes some seconds once.
- ``Captured``: a whole step is recorded as a CUDA graph, which the device then replays by itself.

Both need shapes that depend on nothing but the batch size, and a step that never waits for the device. A
model promises that with an attribute ``fixed_shapes = True``; without it a step runs eagerly.
"""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

log = logging.getLogger("contig")

WARM_UP = 3  # calls before the capture: libraries allocate their workspaces in them


def has_fixed_shapes(model: object) -> bool:
    """Return whether a model promises that its shapes depend on the batch size alone."""
    return bool(getattr(model, "fixed_shapes", False))


class Compiled:
    """``function(*tensors)``, compiled by torch if ``enabled``; if that fails, eager with a warning.

    The first call is eager: what a function builds once and keeps is not for the compiler to trace.
    """

    def __init__(self, function: Callable[..., Tensor], enabled: bool = True) -> None:
        self.function = function
        self.compiled: Callable[..., Tensor] | None = None
        self._called = False
        if enabled:
            with _without_compiler_warnings():
                self.compiled = torch.compile(function, dynamic=False)

    def __call__(self, *inputs: Tensor) -> Tensor:
        if self.compiled is None or not self._called:
            self._called = True
            return self.function(*inputs)
        try:
            with _without_compiler_warnings():
                return self.compiled(*inputs)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            log.warning("The step of this model cannot be compiled and runs eagerly: %s", reason)
            self.compiled = None
            return self.function(*inputs)


@contextmanager
def _without_compiler_warnings() -> Iterator[None]:
    """Hide torch's warnings about choices inside its own compiler."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\.")
        yield


class Captured:
    """A function of the batch number, replayed from a CUDA graph on a GPU.

    ``function`` takes the number as a tensor ``[1]`` on the device, where the graph increments it by itself:
    for consecutive batches nothing is sent to the device. ``eager`` takes it as an int and runs on a CPU, for
    a batch of other shapes, and after a failed capture (with a warning).

    Every call runs one of them exactly once: the first calls are the warm-up, and capturing records without
    running. Use a result before the next call, which may overwrite it.
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        eager: Callable[[int], Tensor],
        device: torch.device,
        *,
        capturable: bool = True,
    ) -> None:
        self.function, self.eager = function, eager
        self.capturable = capturable
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self._number_on_device = 0

    def __call__(self, number: int, *, regular: bool = True) -> Tensor:
        """Run the batch of this number; ``regular`` says whether it has the shapes of the capture."""
        if not (regular and self.capturable and self.number.is_cuda):
            return self.eager(number)
        with torch.cuda.device(self.number.device):  # a capture on another current device records nothing
            return self._on_gpu(number)

    def _on_gpu(self, number: int) -> Tensor:
        self.calls += 1
        if self.calls > WARM_UP and self.graph is None and not self._capture():
            return self.eager(number)
        if self._number_on_device != number:
            self.number.fill_(number)
        self._number_on_device = -1  # unknown, should the step fail
        if self.graph is None:
            self.result = self._on_side_stream()
        else:
            self.graph.replay()
        self._number_on_device = number + 1
        return self.result

    def _advance(self) -> Tensor:
        result = self.function(self.number)
        self.number += 1
        return result

    def _on_side_stream(self) -> Tensor:
        """Run without a graph on a side stream, as torch requires of the warm-up."""
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
            with _uncollected(), torch.cuda.graph(graph):
                self.result = self._advance()
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # a failed capture leaves its own stream as the current one
            _end_capture_of_random_numbers()
            self.capturable = False
            reason = str(error).strip().splitlines()[0]
            log.warning(
                "The step of this model cannot be captured as a CUDA graph and runs eagerly: %s", reason
            )
            return False
        self.graph = graph
        return True


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector away: freeing the graph of a former walk would break a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _end_capture_of_random_numbers() -> None:
    """Let the generator of the current device draw outside a graph again, where it stopped."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())  # the clone does not belong to any capture
