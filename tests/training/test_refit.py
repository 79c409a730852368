"""Training a run once more: on everything, or with new events."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from support.trained import TINY, bit_identical, fast_training, text_id_stream

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError, RunError
from contig.models import DataShape
from contig.models.ctdne import CTDNE, CTDNEOptions
from contig.runs.run import Run
from contig.training.fit import fit, load_known
from contig.training.refit import refit


@pytest.fixture(scope="module", autouse=True)
def fast() -> Iterator[None]:
    with fast_training():
        yield


def part(start: int, stop: int) -> EventStream:
    stream = text_id_stream()
    cut, labels = stream[start:stop], stream.ids.labels
    return EventStream.from_arrays(
        labels[cut.src], labels[cut.dst], cut.t, bipartite=True, origin=stream.origin
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("refit") / "run"
    return fit(part(0, 200), out=out, show=False, epochs=3, patience=1, **TINY)


def test_everything_is_a_final_training_of_the_best_length(run: Run, tmp_path: Path) -> None:
    best = run.metrics.best_epoch
    found = refit(run.path, out=tmp_path / "new", show=False)
    options = {**TINY, "epochs": best, "final": True}
    expected = fit(part(0, 200), out=tmp_path / "same", show=False, **options)
    assert bit_identical(dict(found.model.state_dict()), dict(expected.model.state_dict()))
    assert len(found.metrics.epochs) == best
    assert found.folder.manifest().parts is not None
    assert found.folder.manifest().parts.train == 200  # type: ignore[union-attr]
    assert np.array_equal(found.embed(), expected.embed())


def test_another_run_is_replaced_on_request_alone(run: Run, tmp_path: Path) -> None:
    other = fit(part(0, 120), out=tmp_path / "other", show=False, **TINY)
    with pytest.raises(RunError, match=r"already holds a run.*overwrite=True \(--overwrite\)"):
        run.refit(out=other.path, show=False)
    assert len(Run.open(other.path).stream) == 120
    found = run.refit(out=other.path, overwrite=True, show=False)
    assert found.path == other.path
    assert len(Run.open(other.path).stream) == 200
    with pytest.raises(ConfigError, match="is the run itself"):
        run.refit(out=run.path, overwrite=True, show=False)


def test_everything_includes_what_was_observed(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    opened = Run.open(tmp_path / "run")
    opened.observe(part(200, 230))
    found = refit(opened, show=False, epochs=1)
    assert found.path == tmp_path / "run-refit"
    assert (len(found.trained_stream), found.stream.t[-1]) == (230, text_id_stream().t[229])
    assert refit(opened, show=False, epochs=1).path == tmp_path / "run-refit-2"


def test_nodes_that_were_added_and_those_before_them_are_found(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    opened = Run.open(tmp_path / "run")
    known, last = opened.stream.ids.labels.tolist(), int(opened.stream.t[-1])
    source, item = known[opened.stream.src[0]], known[opened.stream.dst[0]]
    names = pa.array([source + "+", source]), pa.array([item, item + "+"])
    opened.observe(pa.table({"src": names[0], "dst": names[1], "t": [last + 1, last + 2]}))
    refit(opened, out=tmp_path / "new", show=False, epochs=1)
    found = Run.open(tmp_path / "new")
    assert found.stream.ids.labels.tolist() == [*known, source + "+", item + "+"]
    sides = found.stream.ids.is_dst
    assert sides is not None
    for number, label in enumerate(found.stream.ids.labels.tolist()):
        assert found.stream.ids.find(label, "dst" if sides[number] else "src") == number
    found.observe(pa.table({"src": names[0], "dst": names[1], "t": [last + 3] * 2}))
    assert found.stream.num_nodes == len(known) + 2


def test_new_events_continue_from_the_weights(run: Run, tmp_path: Path) -> None:
    """With a learning rate of almost nothing the weights stay what they were; the run learns nothing else."""
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    labels = text_id_stream().ids.labels
    new = text_id_stream()[200:240]
    table = pa.table({"src": labels[new.src], "dst": labels[new.dst], "t": new.t})
    still = refit(run, table, out=tmp_path / "still", show=False, lr=1e-12)
    for name, weight in run.model.state_dict().items():
        torch.testing.assert_close(still.model.state_dict()[name], weight, rtol=0, atol=1e-7)
    moved = refit(run, table, out=tmp_path / "moved", show=False)
    assert not bit_identical(dict(moved.model.state_dict()), dict(run.model.state_dict()))
    assert len(moved.metrics.epochs) == 1
    assert len(moved.stream) == 240
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
    assert len(run.stream) == 200


def test_older_events_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"50 of 60 events are known\. To skip known events, use repeated='skip'"
    ):
        refit(run, part(150, 210), out=tmp_path / "new", show=False)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ConfigError, match="value for repeated 'accept'"):
        refit(run, part(150, 210), out=tmp_path / "new", show=False, repeated="accept")
    with pytest.raises(DataError, match="none is new"):
        refit(run, part(150, 200), out=tmp_path / "new", show=False, repeated="skip")


def test_known_events_are_skipped_on_request(run: Run, tmp_path: Path) -> None:
    found = refit(run, part(150, 210), out=tmp_path / "new", show=False, repeated="skip")
    assert found.stream.equals(part(0, 210))


def test_no_epochs_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="epochs=0 must be at least 1"):
        run.refit(epochs=0, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_run_in_training_is_refused(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "serving.pt").unlink()
    with pytest.raises(RunError, match="was not finished; continue it with 'contig resume"):
        refit(tmp_path / "run", show=False)


def test_weights_per_node_grow() -> None:
    old, new = torch.nn.Embedding(4, 3), torch.nn.Embedding(6, 3)
    later = new.weight[4:].detach().clone()
    new.blank_last = frozenset()
    load_known(new, old.state_dict())  # type: ignore[arg-type]
    assert torch.equal(new.weight[:4], old.weight)
    assert torch.equal(new.weight[4:], later)


def test_a_blank_row_stays_the_last_one() -> None:
    options = CTDNEOptions(dim=3)
    old, new = (CTDNE(options, DataShape(0, None, nodes)) for nodes in (4, 6))
    later = new.vectors[4:].clone()
    load_known(new, old.state_dict())
    assert torch.equal(new.vectors[:4], old.vectors[:4])
    assert torch.equal(new.vectors[4:], later)
    assert (new.vectors[4:6].abs().sum(1) > 0).all()  # new nodes start as they would in a new training
    assert (new.vectors[6] == 0).all()
