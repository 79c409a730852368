"""What every test of the training shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from contig.data.events import EventStream
from contig.runs.run import Run
from contig.training import fit as fitting
from contig.training import loop
from support.trained import TINY, named_stream, tiny_stream


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors are slower with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """The learning curve takes longer than these trainings; test_fit draws one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "draw_curve", lambda session, folder: None)
        yield


@pytest.fixture(scope="module")
def stream() -> EventStream:
    return tiny_stream()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, stream: EventStream, undrawn: None) -> Run:
    """A finished run of two epochs."""
    return fitting.fit(stream, out=tmp_path_factory.mktemp("runs") / "tiny", epochs=2, show=False, **TINY)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory, undrawn: None) -> Run:
    """A finished run on text ids and real-valued times."""
    out: Path = tmp_path_factory.mktemp("runs") / "named"
    return fitting.fit(named_stream(), out=out, epochs=1, show=False, **TINY)
