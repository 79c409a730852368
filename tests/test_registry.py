"""Names from the package, from a call, from an installed plugin and from a path."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from contig import registry as module
from contig.errors import ConfigError
from contig.registry import Registry


def must_be_callable(name: str, found: Any) -> None:
    if not callable(found):
        raise ConfigError(f"{name} is not callable.")


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> Registry[Any]:
    plugin = EntryPoint("outside", "math:hypot", "contig.shapes")
    monkeypatch.setattr(module, "entry_points", lambda group: [plugin] if group == "contig.shapes" else [])
    return Registry("shape", {"inside": "math:sin"}, "contig.shapes", must_be_callable)


def test_every_source_of_names(shapes: Registry[Any]) -> None:
    import math

    shapes.register("given", math.tan)
    assert list(shapes) == ["inside", "given", "outside"]
    found = [shapes[name] for name in (*shapes, "math:cos")]
    assert found == [math.sin, math.tan, math.hypot, math.cos]
    assert "math:cos" not in shapes


def test_a_taken_name_is_not_overwritten_by_accident(shapes: Registry[Any]) -> None:
    for name in ("inside", "outside"):
        with pytest.raises(ConfigError, match=f"A shape named '{name}' already"):
            shapes.register(name, len)
    shapes.register("inside", len, replace=True)
    assert shapes["inside"] is len
    shapes.register("inside", len)  # the same again changes nothing


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("insied", r"Unknown shape 'insied'. Did you mean 'inside'\?"),
        (
            "no.such.module:thing",
            r"cannot be loaded .No module named 'no'\). Start in the folder of the module",
        ),
        ("math:nothing", "cannot be loaded .module 'math' has no attribute 'nothing'"),
        ("math:pi", "math:pi is not callable"),
        (":pi", "cannot be loaded"),
    ],
)
def test_what_cannot_be_found(shapes: Registry[Any], name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        shapes[name]


@pytest.mark.parametrize("name", ["", " ", "a:b"])
def test_what_cannot_be_a_name(shapes: Registry[Any], name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a shape"):
        shapes.register(name, len)


@pytest.mark.parametrize(
    ("source", "reason"), [("def broken(:\n", "SyntaxError"), ("1 / 0\n", "ZeroDivisionError")]
)
def test_a_module_that_fails_to_import_is_reported(
    shapes: Registry[Any], source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"fails_{reason.lower()}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=rf"cannot be loaded .{reason}"):
        shapes[f"fails_{reason.lower()}:thing"]
    with pytest.raises(ConfigError, match=r"\. Fix the module, or uninstall the package that offers it\."):
        shapes[f"fails_{reason.lower()}:thing"]


def test_the_advice_names_the_function_that_registers(shapes: Registry[Any]) -> None:
    with pytest.raises(ConfigError, match=r"call contig\.register_shape first"):
        shapes["round"]
    files: Registry[Any] = Registry("format", {}, "contig.shapes", function="reader")
    with pytest.raises(ConfigError, match=r"call contig\.register_reader first"):
        files["xlsx"]


def test_the_same_definition_again_replaces_the_first(shapes: Registry[Any]) -> None:
    """As a notebook does when a cell runs twice."""

    def define() -> Any:
        def triangle() -> None: ...

        return triangle

    first, second = define(), define()
    shapes.register("triangle", first)
    shapes.register("triangle", second)
    assert shapes["triangle"] is second
    shapes.register("line", lambda: 1)
    with pytest.raises(ConfigError, match="A shape named 'line' already"):
        shapes.register("line", lambda: 2)
