"""Readers from outside the package are used like the built-in ones."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import contig
from contig import registry
from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.data.readers import READERS, read_events
from contig.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("restored_registries")


def read_arrows(path: Path, reading: ReadOptions) -> pa.Table:
    """Read lines such as ``ann -> bob @ 3``."""
    rows = [line.replace("->", " ").replace("@", " ").split() for line in path.read_text().splitlines()]
    return pa.table(dict(zip(("who", "whom", "t"), map(list, zip(*rows, strict=True)), strict=True)))


@pytest.fixture
def arrows(tmp_path: Path) -> Path:
    path = tmp_path / "visits.arrows"
    path.write_text("ann -> bob @ 3\nbob -> ann @ 5\ncy -> ann @ 9\n")
    return path


def expected() -> EventStream:
    return EventStream.from_arrays(["ann", "bob", "cy"], ["bob", "ann", "ann"], [3, 5, 9])


def test_a_table_has_its_columns_found_and_checked(arrows: Path) -> None:
    contig.register_reader("arrows", read_arrows)
    stream = read_events(arrows, src="who", dst="whom")  # by the extension
    assert stream.equals(expected())
    assert stream.origin == str(arrows)
    renamed = arrows.rename(arrows.with_suffix(".log"))
    assert contig.open_stream(str(renamed), format="arrows", src="who", dst="whom").equals(expected())
    with pytest.raises(
        DataError, match=r"visits\.log: no column is recognized for the sources.*'who', 'whom', 't'"
    ):
        read_events(renamed, format="arrows")
    renamed.write_text("ann -> bob @ 3\nbob -> ann @ soon\n")
    with pytest.raises(
        DataError, match=r"visits\.log, row 1 .counted from 0., column 't': 'soon' is not a time"
    ):
        read_events(renamed, format="arrows", src="who", dst="whom")


def test_a_stream_is_taken_as_it_is_and_options_reach_the_reader(arrows: Path) -> None:
    seen: list[Any] = []

    def read(path: Path, reading: ReadOptions) -> EventStream:
        seen.append((path, reading))
        return expected()

    contig.register_reader("arrows", read)
    assert read_events(arrows, t="when", bipartite=False).equals(expected())
    assert seen == [(arrows, ReadOptions(t="when", bipartite=False))]
    with pytest.raises(DataError, match="has no edge features"):
        read_events(arrows, features=True)


def test_a_folder_can_be_read(arrows: Path) -> None:
    contig.register_reader("arrows", lambda path, reading: read_arrows(next(path.iterdir()), reading))
    assert read_events(arrows.parent, format="arrows", src="who", dst="whom").equals(expected())


def test_an_installed_package_can_add_a_reader(arrows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("arrows", "arrow_files:read", "contig.readers")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "contig.readers" else [])
    monkeypatch.setitem(sys.modules, "arrow_files", type("module", (), {"read": staticmethod(read_arrows)}))
    assert read_events(arrows, src="who", dst="whom").equals(expected())
    builtin = ["parquet", "arrow", "feather", "csv", "tsv", "jodie", "snap", "jsonl", "dyglib", "index"]
    assert list(READERS) == [*builtin, "arrows"]


def test_what_is_not_a_reader_is_rejected(arrows: Path) -> None:
    with pytest.raises(ConfigError, match="The reader 'arrows' is of type list; expected a function"):
        contig.register_reader("arrows", [1, 2])  # type: ignore[arg-type]
    contig.register_reader("arrows", lambda path, reading: path.read_text())
    with pytest.raises(
        ConfigError, match="The reader 'arrows' returned an object of type str; expected an EventStream"
    ):
        read_events(arrows)
    with pytest.raises(ConfigError, match="A format named 'csv' already"):
        contig.register_reader("csv", read_arrows)


def test_failures_of_a_reader_name_the_file(arrows: Path) -> None:
    def fail(path: Path, reading: ReadOptions) -> Any:
        raise ValueError("line 3 is cut off")

    contig.register_reader("arrows", fail)
    with pytest.raises(DataError, match=r"visits\.arrows: cannot be read \(line 3 is cut off\)"):
        read_events(arrows)
