"""Checks of model classes from outside the package: what they are built into and what they return.

They look at shapes only, so they cost nothing on a GPU and may be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from contig.errors import ConfigError

if TYPE_CHECKING:
    from contig.models.contract import DataShape, Model


def create_model(kind: type[Model], options: Any, data: DataShape) -> Model:
    """Build a model; raise ``ConfigError`` if its constructor does not initialize ``torch.nn.Module``."""
    make: Any = kind
    try:
        model: Model = make(options, data)
    except AttributeError as error:
        if "Module.__init__()" not in str(error):
            raise
        raise _not_initialized(kind) from error
    if "_parameters" not in vars(model):
        raise _not_initialized(kind)
    return model


def _not_initialized(kind: type[Model]) -> ConfigError:
    return ConfigError(
        f"{kind.__qualname__}.__init__ must call super().__init__() before anything else: a model is a "
        "torch.nn.Module."
    )


def check_embeddings(model: Model, found: Any, queries: int) -> Tensor:
    """Return what ``embed`` returned; raise ``ConfigError`` unless it is one row for each query."""
    if isinstance(found, Tensor) and found.ndim == 2 and len(found) == queries:
        return found
    raise ConfigError(
        f"{type(model).__qualname__}.embed returned {_described(found)} for {queries} nodes; expected a "
        f"tensor of shape [{queries}, d], a row for each node."
    )


def check_scores(model: Model, found: Any, shape: tuple[int, ...]) -> Tensor:
    """Return what ``score`` returned; raise ``ConfigError`` unless it is one number for each pair."""
    if isinstance(found, Tensor) and found.shape == shape:
        return found
    raise ConfigError(
        f"{type(model).__qualname__}.score returned {_described(found)}; expected a tensor of shape "
        f"{list(shape)}, a number for each pair: embeddings [..., d] have scores [...]."
    )


def _described(found: Any) -> str:
    return f"shape {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
