"""The models, their contract and their names."""

from contig.models.checks import create_model
from contig.models.contract import DataShape, EventBatch, Model
from contig.models.registry import (
    DEFAULT_MODEL,
    MODELS,
    model_class,
    model_label,
    model_name,
    model_names,
    register_model,
)
from contig.models.state import NodeState

HEURISTIC_BASELINE = "edgebank"  # what every trained model should beat

__all__ = [
    "DEFAULT_MODEL",
    "HEURISTIC_BASELINE",
    "MODELS",
    "DataShape",
    "EventBatch",
    "Model",
    "NodeState",
    "create_model",
    "model_class",
    "model_label",
    "model_name",
    "model_names",
    "register_model",
]
