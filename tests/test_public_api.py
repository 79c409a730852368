"""Every name of ``contig.__all__`` resolves, is documented, and costs nothing before it is used."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import contig
from contig.data.readers.registry import READERS

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


STREAM = contig.synthetic(60, seed=1)
TWO = [0, 1]


def unreadable(path: Path, reading: contig.ReadOptions) -> None:
    raise KeyError("no such key")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contig.Run.open(3), "run=3: expected a path"),
        (lambda: contig.resume(None), "run=None: expected a path"),
        (lambda: contig.fit(STREAM, "edgebank", out=3), "out=3: expected a path"),
        (lambda: contig.fit(STREAM, 5), "5 is not a model"),
        (lambda: contig.load_dataset(3), "name=3: expected the name of a dataset"),
        (lambda: contig.open_stream("synthetic:50", "x"), "reading='x': expected contig.ReadOptions"),
        (lambda: contig.ReadOptions(src=3.5), "src=3.5: expected the name of a column"),
        (lambda: contig.ReadOptions(bipartite="yes"), "bipartite='yes': expected True or False"),
        (lambda: contig.ReadOptions(data_dir=3), "data_dir=3: expected a path"),
        (lambda: contig.ReadOptions(features=3), "features=3: expected True, False or a list"),
        (lambda: contig.register_dataset("x"), "'x' is not a dataset"),
        (lambda: contig.register_reader(3, unreadable), "3 cannot name a format"),
        (lambda: contig.option(0, "width", low=1), "default=0 must be at least 1"),
        (lambda: contig.chronological_split(3), "stream=3: expected an EventStream"),
        (lambda: contig.chronological_split(STREAM, "x"), "split='x': expected the shares"),
        (lambda: contig.chronological_split(STREAM, holdout=3), "Unknown holdout '3'"),
        (lambda: contig.synthetic(60, span="x"), "span='x' must be a finite number"),
        (lambda: contig.History.from_stream(3), "stream=3: expected an EventStream"),
        (lambda: contig.History.load(3), "folder=3: expected a path"),
        (lambda: contig.History.from_stream(STREAM).only("x"), "only: expected distinct event positions"),
        (lambda: contig.History.from_stream(STREAM).only([0.5]), "only: expected distinct event positions"),
        (lambda: contig.History.empty(-1), "num_nodes=-1 must be a whole number of at least 0"),
        (lambda: contig.History.empty(edge_width=1.5), "edge_width=1.5 must be a whole number"),
        (lambda: contig.Negatives(3), "stream=3: expected an EventStream"),
        (lambda: contig.Negatives(STREAM, 3), "Unknown kind of negatives '3'"),
        (lambda: contig.NodeState(3, 4), "blank=3: expected tensors by name"),
        (lambda: contig.NodeState({"count": 0}, 4), "blank={'count': 0}: expected tensors by name"),
        (lambda: contig.NodeState({}, -1), "num_nodes=-1 must be a whole number of at least 0"),
        (lambda: contig.Dataset(), "name='': a dataset needs a name"),
        (lambda: contig.Dataset(name=3), "name=3: a dataset needs a name"),
        (lambda: contig.testing.check_model("edgebank", 3), "settings=3: expected options of the model"),
        (lambda: contig.testing.check_model("edgebank", joint=True), "Unknown departure 'joint'"),
        (
            lambda: contig.EventStream.from_arrays(TWO, TWO, TWO, bipartite="x"),
            "bipartite='x': expected True",
        ),
        (lambda: contig.fit(STREAM, "edgebank", show="x"), "show='x': expected True, False or None"),
        (lambda: contig.resume("x", show="x"), "show='x': expected True, False or None"),
        (lambda: contig.History.empty(4).count_before(TWO, TWO), "nodes is a list; expected a tensor"),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(contig.ContigError, match=re.escape(message)):
        call()


def test_a_reader_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(READERS, "_registered", {})
    contig.register_reader("zzz", unreadable)
    (tmp_path / "x.zzz").write_text("")
    with pytest.raises(contig.DataError, match="reader for 'zzz' failed with KeyError: 'no such key'"):
        contig.read_events(tmp_path / "x.zzz")
