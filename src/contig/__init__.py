"""Learning on temporal interaction graphs, with embeddings that move continuously in time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from contig.datasets import load_dataset, open_stream
    from contig.errors import ContigError
    from contig.events import EventStream
    from contig.history import History
    from contig.negatives import Negatives
    from contig.readers import read_events
    from contig.splits import chronological_split
    from contig.training.fit import fit, resume
    from contig.training.run import Run

# Names load on first use, so that `import contig` and `contig --help` do not wait for torch.
_HOME = {
    "ContigError": "errors",
    "EventStream": "events",
    "History": "history",
    "Negatives": "negatives",
    "chronological_split": "splits",
    "load_dataset": "datasets",
    "open_stream": "datasets",
    "read_events": "readers",
    "fit": "training.fit",
    "resume": "training.fit",
    "Run": "training.run",
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
