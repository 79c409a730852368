"""Imports point one way, stay within the declared dependencies, and are lazy where they are heavy."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
MODULES = sorted((SRC / "contig").rglob("*.py"))

# A module may import from those above it and from its own package only.
ORDER = (
    "errors",
    "numerics",
    "files",
    "file_locks",
    "locks",
    "wording",
    "caches",
    "options",
    "schema",
    "registry",
    "progress",
    "rendezvous",
    "ranks",
    "markup",
    "data",
    "kernels",
    "history",
    "plots",
    "layers",
    "models",
    "streaming",
    "tasks",
    "runs",
    "training",
    "estimators",
    "live",
    "serve",
    "experiments",
    "reproduction",
    "benchmarks",
    "testing",
    "cli",
    "__main__",
)
PROVIDED_BY_TORCH = {"triton"}  # on platforms that have it
OPTIONAL = {"serve": "serve"}  # packages that are imported only where their extra is installed
HEAVY = {"torch", "numba", "matplotlib", "sklearn", "scipy", "pandas", "torch_geometric", "torchdiffeq"}


def dotted(path: Path) -> str:
    """src/contig/layers/ode.py -> contig.layers.ode; a package is contig.layers.__init__."""
    return ".".join(path.relative_to(SRC).with_suffix("").parts)


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Every dotted name that ``module`` imports, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*up, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def misdirected(source: str, module: str) -> list[str]:
    """The imports of ``module`` from packages below its own."""
    layer = module.split(".")[1]
    assert layer in ORDER, f"{module}: add contig.{layer} to ORDER"
    allowed = {"__version__", *ORDER[: ORDER.index(layer) + 1]}
    own = [name for name in imported(ast.parse(source), module) if name.split(".")[0] == "contig"]
    return [name for name in own if name.split(".")[1:2] == [] or name.split(".")[1] not in allowed]


@pytest.mark.parametrize("path", [p for p in MODULES if p != SRC / "contig/__init__.py"], ids=dotted)
def test_imports_point_one_way(path: Path) -> None:
    assert misdirected(path.read_text("utf-8"), dotted(path)) == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("contig.data.events", "from contig.history import History", ["contig.history.History"]),
        ("contig.data.events", "def f():\n    import contig.cli", ["contig.cli"]),
        ("contig.data.events", "import contig", ["contig"]),
        ("contig.layers.ode", "from contig import History, errors", ["contig.History"]),
        ("contig.layers.ode", "from ..models import registry", ["contig.models.registry"]),
        ("contig.layers.__init__", "from .ode import solve\nfrom ..data import events", []),
        ("contig.cli.main", "from contig import __version__\nfrom . import table\nimport numpy", []),
    ],
)
def test_the_direction_check_sees_every_form_of_import(module: str, source: str, wrong: list[str]) -> None:
    assert misdirected(source, module) == wrong


def distributions(*extras: str) -> set[str]:
    """The distributions that pyproject.toml requires, in the core and in some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [*project["dependencies"], *(r for e in extras for r in project["optional-dependencies"][e])]
    return {normal(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in required}


def normal(name: str) -> str:
    """The name of a distribution as indexes compare it."""
    return name.lower().replace("_", "-")


@cache
def distributions_of_packages() -> dict[str, set[str]]:
    """The distributions that provide each top-level package."""
    return {top: {normal(name) for name in names} for top, names in packages_distributions().items()}


def undeclared(nodes: list[ast.stmt], module: str, known: set[str]) -> set[str]:
    """Third-party packages imported in ``nodes`` that no distribution in ``known`` provides."""
    tops = {name.split(".")[0] for name in imported(ast.Module(nodes, []), module)}
    others = tops - set(sys.stdlib_module_names) - {"contig"} - PROVIDED_BY_TORCH
    return {top for top in others if not known & distributions_of_packages().get(top, set())}


def runtime(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module without its ``if TYPE_CHECKING`` blocks."""
    return [n for n in tree.body if not (isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test))]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_third_party_imports_are_declared(path: Path) -> None:
    """Top-level imports need core dependencies only; imports inside functions may use the extras.

    An optional package also has its own extra at the top level, except in its ``__init__``.
    """
    body = runtime(ast.parse(path.read_text("utf-8")))
    at_import = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
    package = dotted(path).split(".")[1]
    own = OPTIONAL.get(package) if path.name != "__init__.py" else None
    assert undeclared(at_import, dotted(path), distributions(*filter(None, [own]))) == set()
    assert (
        undeclared(
            body,
            dotted(path),
            distributions("samples", "solvers", "baselines", "bench", "index", "tune", "serve"),
        )
        == set()
    )


# -- what is loaded --------------------------------------------------------------------------------------


def interpreter(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter that imports contig from this source tree."""
    command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": str(SRC)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def loaded_by(*arguments: str) -> set[str]:
    """The top-level packages that a fresh interpreter imports to run this."""
    names = re.findall(
        r"^import time:.*\|\s*([\w.]+)$", interpreter("-X", "importtime", *arguments).stderr, re.MULTILINE
    )
    return {name.split(".")[0] for name in names}


def test_the_load_check_sees_what_is_loaded() -> None:
    assert "sqlite3" in loaded_by("-c", "import sqlite3.dbapi2")


def test_the_data_layer_loads_no_heavy_package() -> None:
    modules = "import contig.data.events, contig.data.readers, contig.data.datasets, contig.data.summary"
    assert loaded_by("-c", modules) & HEAVY == set()


def test_the_installed_script_loads_no_heavy_package() -> None:
    script = Path(sys.executable).with_name("contig")
    assert loaded_by(str(script), "--help") & HEAVY == set()


SHOW_EVERY_HELP = """
import json, sys
from typer.main import get_command
from typer.testing import CliRunner
from contig.cli import app

commands = [[], *([name] for name in get_command(app).commands)]
failed = [c for c in commands if CliRunner().invoke(app, [*c, "--help"]).exit_code]
print(json.dumps([len(commands), failed, list(sys.modules)]))
"""


def test_no_help_page_loads_a_heavy_package() -> None:
    commands, failed, modules = json.loads(interpreter("-c", SHOW_EVERY_HELP).stdout)
    assert commands > 10
    assert failed == []
    assert {name.split(".")[0] for name in modules} & HEAVY == set()
