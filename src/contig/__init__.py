"""Learning on temporal interaction graphs, with embeddings that move continuously in time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from contig.data.datasets import load_dataset, open_stream
    from contig.data.events import EventStream
    from contig.data.negatives import Negatives
    from contig.data.readers import read_events
    from contig.data.splits import chronological_split
    from contig.errors import ContigError
    from contig.history import History
    from contig.runs.run import Run
    from contig.training.fit import fit, resume

# Names load on first use, so that `import contig` and `contig --help` do not wait for torch.
_HOME = {
    "ContigError": "errors",
    "EventStream": "data.events",
    "History": "history",
    "Negatives": "data.negatives",
    "chronological_split": "data.splits",
    "load_dataset": "data.datasets",
    "open_stream": "data.datasets",
    "read_events": "data.readers",
    "fit": "training.fit",
    "resume": "training.fit",
    "Run": "runs.run",
}

__all__ = [
    "ContigError",
    "EventStream",
    "History",
    "Negatives",
    "Run",
    "__version__",
    "chronological_split",
    "fit",
    "load_dataset",
    "open_stream",
    "read_events",
    "resume",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"contig.{_HOME[name]}"), name)
    raise AttributeError(f"module 'contig' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
