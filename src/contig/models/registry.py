"""Models by name: the built-in ones, those of installed packages, and those registered by a call."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from contig.errors import ConfigError
from contig.models.contract import Model
from contig.options import without_default
from contig.registry import Registry

log = logging.getLogger("contig")

M = TypeVar("M", bound=type[Model])

GROUP = "contig.models"  # the entry point group in which installed packages offer models

_BUILTIN = {
    "contig": "contig.models.contig:ConTIG",
    "contig-pair": "contig.models.contig_pair:ConTIGPair",
    "tgn": "contig.models.tgn:TGN",
    "jodie": "contig.models.jodie:JODIE",
    "dyrep": "contig.models.dyrep:DyRep",
    "tgat": "contig.models.tgat:TGAT",
    "graphmixer": "contig.models.graphmixer:GraphMixer",
    "dygformer": "contig.models.dygformer:DyGFormer",
    "tpnet": "contig.models.tpnet:TPNet",
    "gae": "contig.models.gae:GAE",
    "vgae": "contig.models.vgae:VGAE",
    "graphsage": "contig.models.graphsage:GraphSAGE",
    "gat": "contig.models.gat:GAT",
    "ctdne": "contig.models.ctdne:CTDNE",
    "edgebank": "contig.models.heuristics.edgebank:EdgeBank",
    "popularity": "contig.models.heuristics.popularity:Popularity",
    "recency": "contig.models.heuristics.recency:Recency",
    "transition": "contig.models.heuristics.transition:Transition",
}
MODELS: tuple[str, ...] = tuple(_BUILTIN)
DEFAULT_MODEL = "contig-pair"  # what is trained where no model is named


def check_model_class(name: str, found: Any) -> None:
    """Raise a ``ConfigError`` that says what ``found`` lacks to be used as the model ``name``."""
    if not isinstance(found, type) or not issubclass(found, Model):
        named = "" if name == repr(found) else f"{name}: "
        raise ConfigError(
            f"{named}{found!r} is not a model: expected the name of one (see contig models) or a subclass of "
            "contig.Model."
        )
    problem = _problem(found)
    if problem is None and ":" not in name and found.name != name:
        problem = (
            f"its attribute 'name' is {found.name!r}, but it is registered as {name!r}; use the same name"
        )
    if problem is not None:
        raise ConfigError(f"{found.__module__}.{found.__qualname__} cannot be used as a model: {problem}.")


def _problem(kind: type[Model]) -> str | None:
    name, options = getattr(kind, "name", None), getattr(kind, "options", None)
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        return f"it is abstract; implement {', '.join(missing)}"
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]+", name):  # it becomes part of a folder's name
        return "give it a class attribute 'name', a single word such as name = \"mymodel\""
    if not isinstance(options, type) or not dataclasses.is_dataclass(options):
        return "give it a class attribute 'options', a dataclass whose fields are made by contig.option"
    if without := without_default(options):
        return f"every option needs a default, and {', '.join(without)} of {options.__name__} has none"
    try:
        inspect.signature(kind).bind(object(), object())
    except TypeError:
        return f"its constructor must accept (options, data), not {inspect.signature(kind)}"
    return None


REGISTRY: Registry[type[Model]] = Registry("model", _BUILTIN, GROUP, check_model_class)


def model_names() -> list[str]:
    """List every model that has a name: built-in, registered, and of installed packages."""
    return list(REGISTRY)


def model_class(name: str) -> type[Model]:
    """Return the model of that name, or the one at ``package.module:Class``."""
    return REGISTRY[name]


@overload
def register_model(model: M, *, replace: bool = ...) -> M: ...
@overload
def register_model(model: None = ..., *, replace: bool = ...) -> Callable[[M], M]: ...


def register_model(model: M | None = None, *, replace: bool = False) -> M | Callable[[M], M]:
    """Make a model known by its ``name``, wherever a model's name is accepted.

    Use it as a call or as a decorator. A name that another class has needs ``replace=True``; running the
    same definition again, as notebooks do, replaces it anyway. Registration lasts for the process: a run
    records the name, so register the class before you reopen the run elsewhere. Packages can declare an
    entry point in the group ``contig.models`` instead.
    """
    if model is None:
        return lambda decorated: register_model(decorated, replace=replace)
    name = getattr(model, "name", repr(model))
    check_model_class(name, model)
    REGISTRY.register(name, model, replace=replace)
    return model


def model_name(model: str | type[Model]) -> str:
    """Return the name under which ``model_class`` finds a model, which is what a run records.

    For a class it is its registered name, or ``package.module:Class``. A class that cannot be imported
    (defined in a script, a notebook or a function) is registered for this process, with a notice.
    """
    if isinstance(model, str):
        return model
    if isinstance(model, Model):
        raise ConfigError(f"Pass the class {type(model).__name__} as the model, not an instance of it.")
    check_model_class(getattr(model, "name", repr(model)), model)
    if model.name in REGISTRY and REGISTRY[model.name] is model:
        return model.name
    if _is_importable(model):
        return _path(model)
    register_model(model)
    log.warning(
        f"{model.__qualname__} is defined in {model.__module__} and cannot be imported from there; the run "
        f"records it as {model.name!r}. Before you reopen the run in another process, call "
        f"contig.register_model({model.__name__}); or move the class to a module of its own."
    )
    return model.name


def model_label(name: str) -> str:
    """Return the name to show for a model: that of its class if it was given as ``package.module:Class``."""
    if ":" not in name:
        return name
    model = model_class(name)
    return model.name if model.name not in REGISTRY or REGISTRY[model.name] is model else name


def _path(model: type[Model]) -> str:
    return f"{model.__module__}:{model.__qualname__}"


def _is_importable(model: type[Model]) -> bool:
    module = sys.modules.get(model.__module__)
    return model.__module__ != "__main__" and getattr(module, model.__qualname__, None) is model
