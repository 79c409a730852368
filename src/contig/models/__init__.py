"""The models, by name. A new one is a file here and a line in ``_HOME``."""

from __future__ import annotations

from importlib import import_module

from contig.errors import ConfigError, unknown
from contig.models.contract import DataShape, EventBatch, Model
from contig.models.state import NodeState

_HOME = {
    "contig": "contig.models.contig:ConTIG",
    "tgn": "contig.models.tgn:TGN",
    "jodie": "contig.models.jodie:JODIE",
    "dyrep": "contig.models.dyrep:DyRep",
    "tgat": "contig.models.tgat:TGAT",
    "gae": "contig.models.gae:GAE",
    "vgae": "contig.models.vgae:VGAE",
    "graphsage": "contig.models.graphsage:GraphSAGE",
    "gat": "contig.models.gat:GAT",
    "ctdne": "contig.models.ctdne:CTDNE",
    "edgebank": "contig.models.heuristics.edgebank:EdgeBank",
    "popularity": "contig.models.heuristics.popularity:Popularity",
    "recency": "contig.models.heuristics.recency:Recency",
}

MODELS: tuple[str, ...] = tuple(_HOME)
YARDSTICK = "edgebank"  # the rule that every model that learns must beat


def model_class(name: str) -> type[Model]:
    """The class registered under ``name``."""
    if name not in _HOME:
        raise ConfigError(unknown("model", name, _HOME))
    module, _, attribute = _HOME[name].partition(":")
    found: type[Model] = getattr(import_module(module), attribute)
    return found


__all__ = ["MODELS", "YARDSTICK", "DataShape", "EventBatch", "Model", "NodeState", "model_class"]
