"""The models, their contract and their names."""

from contig.models.contract import DataShape, EventBatch, Model
from contig.models.registry import MODELS, model_class, model_name, model_names, register_model
from contig.models.state import NodeState

YARDSTICK = "edgebank"  # the rule that every model that learns must beat

__all__ = [
    "MODELS",
    "YARDSTICK",
    "DataShape",
    "EventBatch",
    "Model",
    "NodeState",
    "model_class",
    "model_name",
    "model_names",
    "register_model",
]
