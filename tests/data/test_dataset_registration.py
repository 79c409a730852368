"""Datasets from outside the package."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import contig
from contig import registry
from contig.data.catalog import DATASETS, Dataset, register_dataset
from contig.data.datasets import find_dataset, load_dataset, open_stream
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("own_cache")


def visits(argument: str = "") -> EventStream:
    """As many visits as the text after the colon says, three by default."""
    count = int(argument or 3)
    return EventStream.from_arrays([1] * count, [2] * count, range(count), edge_features=np.ones((count, 2)))


VISITS = Dataset("visits", generate=visits)


@pytest.fixture
def visits_file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "who.txt"
    path.write_text("who;page;when\nann;home;3\nbob;home;5\n".replace(";", "\t"))
    return path


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file_can_be_registered(visits_file: Path, absolute: bool, restored_registries: None) -> None:
    reading = ReadOptions(src="who", dst="page", t="when", format="tsv")
    filename = str(visits_file) if absolute else visits_file.name
    contig.register_dataset(Dataset("visits", filename=filename, reading=reading, events=2))
    stream = open_stream("visits", data_dir=None if absolute else visits_file.parent)
    assert stream.ids.labels.tolist() == ["ann", "bob", "home"]
    assert (stream.origin, stream.notices) == ("visits", ())
    assert find_dataset("visits", visits_file.parent) == visits_file


def test_a_registered_file_is_checked_or_reported_missing(
    visits_file: Path, restored_registries: None, no_data_dir: None, own_cache: Path
) -> None:
    reading = ReadOptions(src="who", dst="page", t="when")
    register_dataset(Dataset("visits", filename="who.txt", reading=reading, nodes=7))
    stream = load_dataset("visits", data_dir=visits_file.parent)
    assert "visits as published: 3 nodes, expected 7" in stream.notices[-1]
    with pytest.raises(DataError, match=rf"Put who\.txt into {re.escape(str(own_cache))}"):
        load_dataset("visits")


def test_a_function_can_be_registered(restored_registries: None) -> None:
    register_dataset(VISITS)
    assert [len(open_stream(name)) for name in ("visits", "visits:5")] == [3, 5]
    register_dataset(Dataset("number", generate=len))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'number' returned an object of type int; expected an EventStream"):
        load_dataset("number:abc")
    assert list(DATASETS)[-1] == "number"
    assert load_dataset("visits", features=False).edge_width == 0
    with pytest.raises(ConfigError, match=r"A dataset named 'visits' already.*replace=True"):
        register_dataset(Dataset("visits", generate=lambda argument: visits("7")))
    register_dataset(Dataset("visits", generate=lambda argument: visits("7")), replace=True)
    assert len(load_dataset("visits")) == 7


def test_an_installed_package_can_add_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("visits", f"{__name__}:VISITS", "contig.datasets"),
        EntryPoint("misnamed", f"{__name__}:VISITS", "contig.datasets"),
        EntryPoint("function", f"{__name__}:visits", "contig.datasets"),
    ]
    monkeypatch.setitem(sys.modules, __name__, sys.modules[visits.__module__])
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "contig.datasets" else [])
    assert len(open_stream("visits:4")) == 4
    with pytest.raises(ConfigError, match="'visits' is registered as 'misnamed'"):
        open_stream("misnamed")
    with pytest.raises(ConfigError, match=r"'function' is of type function; expected a contig\.Dataset"):
        open_stream("function")


def test_a_dataset_can_be_named_by_its_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_streams.py").write_text(
        "from contig import Dataset, EventStream\n"
        "TWO = Dataset('two', generate=lambda _: EventStream.from_arrays([1, 2], [3, 3], [0, 1]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert len(open_stream("my_streams:TWO")) == 2
    assert len(load_dataset("my_streams:TWO")) == 2
    with pytest.raises(ConfigError, match="'my_streams:THREE' cannot be loaded"):
        open_stream("my_streams:THREE")


def test_a_dataset_is_a_file_or_a_function() -> None:
    for given in ({}, {"filename": "visits.csv", "generate": visits}):
        with pytest.raises(ConfigError, match="'visits' needs either filename= or generate="):
            Dataset("visits", **given)
