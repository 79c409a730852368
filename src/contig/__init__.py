"""Learning on temporal interaction graphs, with embeddings that evolve continuously in time.

``fit`` trains a model on a stream of events and returns a ``Run``, which answers for any node and time::

    import contig

    run = contig.fit("collegemsg", epochs=5)
    run.recommend(7, k=3)

To add a model, subclass ``Model`` and pass the class to ``fit``, or register it with ``register_model``. To
add a task, subclass ``Task`` and pass the class to ``Run.evaluate``, or register it with ``register_task``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# For torch, where it is not loaded yet: threads that spin while they wait make a step take several times as
# long if anything else is running.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from contig import layers, testing
    from contig.data.catalog import Dataset, register_dataset
    from contig.data.datasets import load_dataset, open_stream
    from contig.data.events import EventStream
    from contig.data.negatives import Negatives
    from contig.data.read_options import ReadOptions
    from contig.data.readers import read_events, register_reader
    from contig.data.shop import shop
    from contig.data.splits import Split, chronological_split
    from contig.data.synthetic import synthetic
    from contig.errors import ConfigError, ContigError, DataError, RunError
    from contig.estimators import ContigClassifier, ContigRecommender
    from contig.history import History, Neighbors, TimeScale
    from contig.history.building import build_index
    from contig.models import DataShape, EventBatch, Model, NodeState, register_model
    from contig.options import option
    from contig.runs.answers import (
        Classification,
        Embeddings,
        Recommendation,
        RecommendationList,
        Scores,
        SimilarNode,
        SimilarNodes,
        Trajectory,
    )
    from contig.runs.run import Run
    from contig.tasks import Evaluation, Protocol, ResultTable, Task, TaskResult, register_task
    from contig.tasks.context import EvaluationContext, read_test_events
    from contig.tasks.link_scoring import score_test_events
    from contig.tasks.predictions import Measured
    from contig.training.callbacks import Callback, TrainingStart
    from contig.training.fit import fit, resume
    from contig.training.refit import refit

# Names load on first use, so that `import contig` and `contig --help` do not wait for torch.
_HOME = {
    "Callback": "training.callbacks",
    "Classification": "runs.answers",
    "ConfigError": "errors",
    "ContigClassifier": "estimators",
    "ContigError": "errors",
    "ContigRecommender": "estimators",
    "DataError": "errors",
    "DataShape": "models",
    "Dataset": "data.catalog",
    "Embeddings": "runs.answers",
    "Evaluation": "tasks",
    "EvaluationContext": "tasks.context",
    "Measured": "tasks.predictions",
    "EventBatch": "models",
    "EventStream": "data.events",
    "History": "history",
    "Model": "models",
    "Negatives": "data.negatives",
    "Neighbors": "history",
    "NodeState": "models",
    "Protocol": "tasks",
    "ReadOptions": "data.read_options",
    "Recommendation": "runs.answers",
    "RecommendationList": "runs.answers",
    "ResultTable": "tasks",
    "Run": "runs.run",
    "RunError": "errors",
    "Scores": "runs.answers",
    "SimilarNode": "runs.answers",
    "SimilarNodes": "runs.answers",
    "Split": "data.splits",
    "Task": "tasks",
    "TaskResult": "tasks",
    "TimeScale": "history",
    "TrainingStart": "training.callbacks",
    "Trajectory": "runs.answers",
    "build_index": "history.building",
    "chronological_split": "data.splits",
    "fit": "training.fit",
    "load_dataset": "data.datasets",
    "open_stream": "data.datasets",
    "option": "options",
    "read_events": "data.readers",
    "read_test_events": "tasks.context",
    "refit": "training.refit",
    "register_dataset": "data.catalog",
    "register_model": "models",
    "register_reader": "data.readers",
    "register_task": "tasks",
    "resume": "training.fit",
    "score_test_events": "tasks.link_scoring",
    "shop": "data.shop",
    "synthetic": "data.synthetic",
}
_MODULES = ("layers", "testing")

__all__ = [
    "Callback",
    "Classification",
    "ConfigError",
    "ContigClassifier",
    "ContigError",
    "ContigRecommender",
    "DataError",
    "DataShape",
    "Dataset",
    "Embeddings",
    "Evaluation",
    "EvaluationContext",
    "EventBatch",
    "EventStream",
    "History",
    "Measured",
    "Model",
    "Negatives",
    "Neighbors",
    "NodeState",
    "Protocol",
    "ReadOptions",
    "Recommendation",
    "RecommendationList",
    "ResultTable",
    "Run",
    "RunError",
    "Scores",
    "SimilarNode",
    "SimilarNodes",
    "Split",
    "Task",
    "TaskResult",
    "TimeScale",
    "TrainingStart",
    "Trajectory",
    "__version__",
    "build_index",
    "chronological_split",
    "fit",
    "layers",
    "load_dataset",
    "open_stream",
    "option",
    "read_events",
    "read_test_events",
    "refit",
    "register_dataset",
    "register_model",
    "register_reader",
    "register_task",
    "resume",
    "score_test_events",
    "shop",
    "synthetic",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"contig.{_HOME[name]}"), name)
    if name in _MODULES:
        return import_module(f"contig.{name}")
    raise AttributeError(f"module 'contig' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
