"""``fit``: its arguments, its data, its refusals, and what does not influence the result."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from support.trained import (
    TINY,
    bit_identical,
    load_saved,
    text_id_stream,
    tiny_stream,
    train_tiny,
    without_costs,
)

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError, RunError
from contig.kernels.devices import pick_device
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training import loop
from contig.training.fit import fit, resume
from contig.training.session import Session


def test_only_the_seed_decides_the_result(stream: EventStream, tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = train_tiny(stream, tmp_path / "one", seed=4)
    torch.manual_seed(2)
    two = train_tiny(stream, tmp_path / "two", seed=4)
    other = train_tiny(stream, tmp_path / "other", seed=5)
    assert without_costs(one.metrics.as_dict()) == without_costs(two.metrics.as_dict())
    assert bit_identical(load_saved(one.path, "serving.pt"), load_saved(two.path, "serving.pt"))
    assert one.metrics.transductive != other.metrics.transductive
    # every seed is measured on the same events
    for selection in ("transductive", "inductive", "new_new"):
        counts = [getattr(run.metrics.result, selection).events for run in (one, other)]
        assert counts[0] == counts[1]


def test_the_random_generators_of_the_caller_do_not_move(stream: EventStream, tmp_path: Path) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global generator is the one to check
    expected, place = torch.rand(3), np.random.get_state()[2]  # noqa: NPY002
    torch.manual_seed(5)
    run = train_tiny(stream, tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(5)
    resume(tmp_path / "run", show=False)
    Run.open(tmp_path / "run").evaluate()
    run.embed()
    assert torch.equal(torch.rand(3), expected)
    assert np.random.get_state()[2] == place  # noqa: NPY002


def test_a_run_that_cannot_be_created_leaves_nothing(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = RunFolder.create

    def disk_full(folder: RunFolder, *arguments: Any) -> None:
        create(folder, *arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "create", disk_full)
    with pytest.raises(OSError, match="No space left"):
        train_tiny(stream, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_training_works_outside_the_main_thread(stream: EventStream, tmp_path: Path) -> None:
    """Where no signal handler can be installed."""
    thread = threading.Thread(target=train_tiny, args=(stream, tmp_path / "run"))
    thread.start()
    thread.join()
    assert Run.open(tmp_path / "run").metrics.best_epoch == 1


# -- data --------------------------------------------------------------------------------------------------


def test_a_file_trains_like_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "events.csv"
    stream = tiny_stream()
    rows = zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True)
    path.write_text("src,dst,t\n" + "".join(f"{s},{d},{t}\n" for s, d, t in rows))
    run = fit(path, "contig", show=False, epochs=1, **TINY)
    assert run.metrics.facts.data.origin == str(path)
    assert run.path.parent == tmp_path  # the default is a temporary folder
    assert (
        run.metrics.transductive == train_tiny(stream, tmp_path / "run", holdout="none").metrics.transductive
    )


def test_columns_of_tables_and_files(tmp_path: Path) -> None:
    """Named as for ``read_events``."""
    stream = text_id_stream()
    labels = stream.ids.labels
    table = pd.DataFrame(
        {
            "when": stream.t,
            "who": labels[stream.src],
            "page": labels[stream.dst],
            "f1": np.arange(len(stream)),
        }
    )
    table.to_csv(tmp_path / "events.csv", index=False)
    columns: dict[str, Any] = {"src": "who", "dst": "page", "t": "when", "bipartite": True, "features": []}
    for number, data in enumerate((table, pa.Table.from_pandas(table), tmp_path / "events.csv")):
        run = fit(data, "edgebank", out=tmp_path / f"{number}", show=False, **columns)
        assert run.stream.equals(stream)
        assert run.stream.ids.labels.tolist() == labels.tolist()
    wide = fit(table, "edgebank", out=tmp_path / "wide", show=False, **columns | {"features": True})
    assert wide.stream.edge_width == 1
    with pytest.raises(ConfigError, match=r"src=\.\.\. is an option for reading files and tables"):
        fit(stream, "edgebank", out=tmp_path / "no", src="who")
    with pytest.raises(DataError, match="Cannot read events from an object of type list"):
        fit([1, 2], "edgebank", out=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_features_are_learned_from(tmp_path: Path) -> None:
    """Other features of events or nodes give another loss; equal features give the same."""
    plain = tiny_stream(edge_features=5)
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(plain.num_nodes, 4))
    one = plain.with_node_features(vectors)
    again = plain.with_node_features(vectors)
    nodes = plain.with_node_features(vectors[::-1])
    edges = EventStream.from_arrays(
        plain.src, plain.dst, plain.t, edge_features=plain.edge_features[::-1], bipartite=True, origin="tiny"
    ).with_node_features(vectors)
    losses = [
        train_tiny(s, tmp_path / f"{i}").metrics.epochs[0].loss
        for i, s in enumerate((one, again, nodes, edges))
    ]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3
    reopened = Run.open(tmp_path / "0")
    assert reopened.evaluate().result.transductive == reopened.metrics.transductive


def test_text_ids_and_real_times_are_kept(text_id_run: Run) -> None:
    stream = text_id_stream()
    assert text_id_run.metrics.facts.data.nodes == stream.num_nodes
    assert text_id_run.stream.equals(stream)
    assert text_id_run.stream.ids.labels.tolist() == stream.ids.labels.tolist()


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "contg"}, "Did you mean 'contig'"),
        ({"dims": 8}, "Did you mean 'dim'"),
        (
            {"learning_rate": 1e-3},
            "'learning_rate' of contig-pair .* Did you mean 'lr'.*contig models contig-pair",
        ),
        ({"time": "when"}, r"'time' of .* Name columns with src, dst, t, .*--time"),
        ({"spread": 1}, "Unknown option 'spread'.*Known: .*'contig models contig-pair' describes them"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"lr": -1.0}, r"lr=-1\.0"),
        ({"device": "gpux"}, "device='gpux'"),
        ({"holdout": "papr"}, "Did you mean 'paper'"),
    ],
)
def test_invalid_arguments_are_refused_before_a_folder_is_made(
    arguments: dict[str, Any], message: str, stream: EventStream, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(stream, out=tmp_path / "run", show=False, **arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu() -> None:
    assert pick_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"device='cuda:1'.*no GPU"):
        pick_device("cuda:1")


def test_an_existing_run_is_not_overwritten(tiny_run: Run, stream: EventStream) -> None:
    before = {path: path.read_bytes() for path in tiny_run.path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"already holds a run.*contig resume"):
        train_tiny(stream, tiny_run.path)
    assert {path: path.read_bytes() for path in tiny_run.path.rglob("*") if path.is_file()} == before


def test_a_failed_training_leaves_its_folder_free(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it has reached a checkpoint, from which it can be resumed."""

    def fail(*_: Any) -> None:
        raise RunError("The loss became NaN")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "train_step", fail)
        with pytest.raises(RunError, match="NaN"):
            train_tiny(stream, tmp_path)
    assert list(tmp_path.iterdir()) == []
    RunFolder(tmp_path).create(stream, RunConfig.of("edgebank"))  # as a killed training leaves it
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_finish", fail)
        with pytest.raises(RunError, match="NaN"):
            train_tiny(stream, tmp_path)
    assert (tmp_path / "checkpoint.pt").exists()
    with pytest.raises(RunError, match="already holds a run"):
        train_tiny(stream, tmp_path)
    assert train_tiny(stream, tmp_path, overwrite=True).metrics.best_epoch == 1
