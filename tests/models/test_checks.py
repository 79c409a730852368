"""Model classes with common mistakes: errors name the class and what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from support.trained import tiny_stream
from torch import Tensor, nn

import contig
from contig.errors import ConfigError
from contig.models import DataShape, Model, create_model
from contig.models.registry import REGISTRY


@dataclass(frozen=True)
class NoOptions:
    """Nothing to choose."""


class Plain(Model):
    """Embeds every node by the same trained row."""

    name = "plain"
    options = NoOptions
    embedded: Any = staticmethod(lambda row, nodes: row.expand(len(nodes), -1))
    scored: Any = staticmethod(lambda src, dst: (src * dst).sum(-1))

    def __init__(self, options: NoOptions, data: DataShape) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.ones(3))

    def embed(self, state: Any, history: Any, nodes: Tensor, times: Tensor, as_of: Tensor) -> Tensor:
        found: Tensor = self.embedded(self.row, nodes)
        return found

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        found: Tensor = self.scored(src, dst)
        return found


@pytest.fixture(autouse=True)
def only_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a training registers."""
    monkeypatch.setattr(REGISTRY, "_registered", {})


@pytest.mark.parametrize(
    ("method", "function", "message"),
    [
        ("embedded", lambda row, nodes: row, r"Wrong\.embed returned shape \[3\] for \d+ nodes; expected"),
        ("embedded", lambda row, nodes: row.expand(1, len(nodes), 3), r"embed returned shape \[1, \d+, 3\]"),
        (
            "embedded",
            lambda row, nodes: row.expand(len(nodes) + 1, 3),
            r"expected a tensor of shape \[\d+, d",
        ),
        ("embedded", lambda row, nodes: (row, nodes), r"embed returned a tuple"),
        ("scored", lambda src, dst: (src * dst).sum(-1, keepdim=True), r"score returned shape \[\d+, 2, 1\]"),
        ("scored", lambda src, dst: None, r"Wrong\.score returned a NoneType; expected a tensor of shape"),
    ],
)
def test_wrong_shapes_name_the_class(method: str, function: Any, message: str) -> None:
    wrong: type[Model] = type("Wrong", (Plain,), {method: staticmethod(function), "name": "wrong"})
    with pytest.raises(ConfigError, match=message):
        contig.fit(tiny_stream(), wrong, epochs=1, show=False, device="cpu", holdout="paper")


class Forgetful(Plain):
    """Assigns a layer without initializing the module."""

    def __init__(self, options: NoOptions, data: DataShape) -> None:
        self.layer = nn.Linear(2, 2)


class Idle(Plain):
    """Does nothing in its constructor."""

    def __init__(self, options: NoOptions, data: DataShape) -> None:
        pass


class Mistaken(Plain):
    """Has a mistake of its own, which must stay visible."""

    def __init__(self, options: NoOptions, data: DataShape) -> None:
        super().__init__(options, data)
        _ = options.dim  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Forgetful, Idle])
def test_a_constructor_must_initialize_the_module(kind: type[Model]) -> None:
    with pytest.raises(ConfigError, match=rf"{kind.__name__}.__init__ must call super\(\).__init__\(\)"):
        create_model(kind, NoOptions(), DataShape(0, None, 4))


def test_other_mistakes_of_a_constructor_are_not_hidden() -> None:
    with pytest.raises(AttributeError, match="dim"):
        create_model(Mistaken, NoOptions(), DataShape(0, None, 4))
