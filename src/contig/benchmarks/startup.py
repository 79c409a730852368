"""Start-up time in fresh interpreters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.processes import run_python
from contig.benchmarks.timing import alternate

COMPARISONS = (
    ("import contig", ("-c", "import contig"), "import torch", ("-c", "import torch")),
    ("contig --help", ("-m", "contig", "--help"), "python -c pass", ("-c", "pass")),
)


def measure_startup(bench: Bench) -> Iterator[Measurement]:
    """Compare importing contig with importing torch, and ``contig --help`` with an idle interpreter."""
    for what, ours, peer_name, peer in COMPARISONS:
        own, theirs = alternate(
            [partial(run_python, *ours), partial(run_python, *peer)],
            bench.few_repeats,
            torch.device("cpu"),
        )
        yield Measurement.compare("startup", what, own, peer_name, theirs)
