"""Peak memory of training."""

from __future__ import annotations

from collections.abc import Iterator

from contig.benchmarks import peers
from contig.benchmarks.bench import Bench, Settings
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.processes import in_new_process
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import Stepper
from contig.data.events import EventStream
from contig.kernels.devices import pick_device
from contig.training.memory_usage import PeakMeter, measured_on


def training_peak(stream: EventStream, settings: Settings, device: str, model: str | None) -> int:
    """Train up to step ``last`` and return the peak in bytes; ``model=None`` trains the peer.

    Meaningful in a fresh process only.
    """
    memory = PeakMeter(pick_device(device))
    bench = Bench.prepare(stream, settings, device)
    stepper: Stepper = bench.peer() if model is None else TrainingSteps(bench.session(model))
    stepper.rewind()
    stepper.advance(bench.settings.last)
    return int(memory.peak().bytes or 0)


def measure_memory(bench: Bench) -> Iterator[Measurement]:
    """Compare the peak memory of training with the peer's, each in its own process."""
    arguments = bench.stream, bench.settings, str(bench.device)
    theirs = float(in_new_process(training_peak, *arguments, None))
    for model in ("contig", "tgn"):
        own = float(in_new_process(training_peak, *arguments, model))
        what, note = f"peak memory of training, {model}", f"of {measured_on(bench.device)}"
        yield Measurement.compare("memory", what, [own], peers.NAME, [theirs], unit="bytes", note=note)
