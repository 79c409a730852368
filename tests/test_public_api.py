"""Every name of ``contig.__all__`` resolves, is documented, and costs nothing before it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import contig

NAMES = [name for name in contig.__all__ if name != "__version__"]


def static_names() -> set[str]:
    """The names that type checkers see: those imported under ``if TYPE_CHECKING``."""
    tree = ast.parse(Path(contig.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_resolves_and_is_documented(name: str) -> None:
    found = getattr(contig, name)
    assert inspect.ismodule(found) or found.__name__ == name
    text = vars(found)["__doc__"] if isinstance(found, type) else found.__doc__
    assert text
    assert not text.startswith(f"{name}(")  # what a dataclass or a named tuple writes by itself


def test_type_checkers_see_the_same_names() -> None:
    assert static_names() == set(NAMES)
    assert dir(contig) == sorted(contig.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'contig' has no attribute 'fti'"):
        contig.fti  # noqa: B018


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, contig; print(*(m for m in sys.modules if m.split('.')[0] == 'contig' or m == 'torch'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["contig"]
