"""Splits that a user chooses, trainings on everything, and what is hidden by default."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from support.trained import TINY, identical_runs, train_tiny

from contig.data.events import EventStream
from contig.errors import ConfigError, RunError
from contig.runs.config import RunConfig
from contig.runs.run import Run
from contig.training import loop
from contig.training.fit import fit, resume
from contig.training.preparation import prepare
from contig.training.session import Session


class Crash(BaseException):
    """Ends a training at once."""


def middle_cuts(stream: EventStream) -> tuple[int, int]:
    """Times inside the stream at which validation and test shall begin."""
    return int(stream.t[190]), int(stream.t[300])


@pytest.fixture(scope="module")
def cut(trained: Callable[..., Run], stream: EventStream) -> Run:
    return trained("cut", stream, split=middle_cuts(stream), epochs=2)


@pytest.fixture(scope="module")
def final(trained: Callable[..., Run], stream: EventStream) -> Run:
    return trained("final", stream, final=True, epochs=2)


def test_a_run_keeps_its_split(cut: Run, stream: EventStream) -> None:
    val, test = middle_cuts(stream)
    assert cut.config.train.split == f"{val},{test}"
    assert cut.split.val.tolist() == [i for i, t in enumerate(stream.t) if val <= t < test]
    assert cut.split.test.tolist() == [i for i, t in enumerate(stream.t) if t >= test]
    protocol = cut.metrics.result.protocol
    assert protocol.split == f"validation from {val}, test from {test}"
    assert cut.metrics.transductive.events == len(cut.split.test)
    stored = json.loads((cut.path / "config.json").read_text())
    assert stored["train"]["split"] == f"{val},{test}"
    assert stored["parts"] == {
        "split": protocol.split,
        "train": len(cut.split.train),
        "validation": len(cut.split.val),
        "test": len(cut.split.test),
        "hidden": int(cut.split.val[0]) - len(cut.split.train),
    }


def test_an_evaluation_uses_the_split_of_the_run(cut: Run) -> None:
    found = cut.evaluate(show=False).result
    assert found.transductive == cut.metrics.transductive
    assert found.protocol.split == cut.metrics.result.protocol.split
    others = cut.evaluate_heuristics(names=["recency"], show=False)
    assert others["recency"].result.transductive.events == len(cut.split.test)


@pytest.mark.parametrize("name", ["cut", "final"])
def test_resuming_keeps_the_split(
    name: str,
    stream: EventStream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A crash after the first epoch, then the second: bit-identical to an uninterrupted training."""
    whole = request.getfixturevalue(name)
    options: dict[str, Any] = {"final": True} if name == "final" else {"split": middle_cuts(stream)}
    with monkeypatch.context() as patch:
        patch.setattr(loop, "training_is_over", lambda session: _crash_after(session.progress.epoch))
        with pytest.raises(Crash):
            train_tiny(stream, tmp_path / "run", epochs=2, **options)
    resume(tmp_path / "run", show=False)
    assert identical_runs(whole.path, tmp_path / "run")


def _crash_after(epoch: int) -> bool:
    if epoch:
        raise Crash
    return False


# -- final --------------------------------------------------------------------------------------------------


def test_a_final_training_learns_from_every_event(final: Run, stream: EventStream) -> None:
    """It equals the training of a longer stream that is cut where this one ends, until the validation."""
    assert final.split.train.tolist() == list(range(len(stream)))
    n = np.arange(60)
    later = EventStream.from_arrays(
        np.concatenate([stream.src, n % 23]),
        np.concatenate([stream.dst, 23 + n % 9]),
        np.concatenate([stream.t, stream.t[-1] + 1 + n]),
        bipartite=False,
    )
    same = EventStream.from_arrays(stream.src, stream.dst, stream.t, bipartite=False)
    longer = epoch_losses(later, split=(int(stream.t[-1]) + 1, int(stream.t[-1]) + 31))
    everything = epoch_losses(same, final=True, epochs=50)
    assert longer == everything


def epoch_losses(stream: EventStream, **settings: Any) -> list[float]:
    """The losses of the steps of an epoch."""
    config = RunConfig.of("contig", {**TINY, "dropout": 0.0, "holdout": "none", **settings})
    session = Session(prepare(stream, config, torch.device("cpu")), config)
    session.begin_epoch()
    return [float(session.train_step()) for _ in range(len(session.steps))]


def test_a_final_training_keeps_its_last_epoch_and_has_no_test(final: Run, stream: EventStream) -> None:
    metrics = final.metrics
    assert metrics.best_epoch == 2
    assert [epoch.epoch for epoch in metrics.epochs] == [1, 2]
    assert all(np.isnan(epoch.val_ap) for epoch in metrics.epochs)
    assert all(one.events == 0 and np.isnan(one.ap) for one in metrics.result.each().values())
    assert metrics.result.protocol.split == "every event is a training event"
    assert "learned from every event" in repr(final)
    assert final.embed().shape == (stream.num_nodes, 8)
    for measure in (final.evaluate, final.evaluate_heuristics):
        with pytest.raises(RunError, match="none is left to test on"):
            measure(show=False)


def test_a_final_training_can_be_extended(final: Run, stream: EventStream, tmp_path: Path) -> None:
    train_tiny(stream, tmp_path / "run", epochs=1, final=True)
    resume(tmp_path / "run", epochs=2, show=False)
    assert identical_runs(final.path, tmp_path / "run")


def test_a_final_heuristic_needs_no_epochs(stream: EventStream, tmp_path: Path) -> None:
    run = fit(stream, "recency", out=tmp_path / "run", final=True, show=False)
    assert run.metrics.transductive.events == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"final": True}, "final=true needs a number of epochs, such as epochs=10"),
        ({"final": True, "epochs": 1, "split": "0.8,0.1"}, "leave out one of the two"),
        ({"split": "0.8"}, "split='0.8': expected the shares"),
        ({"split": "9999999,99999999"}, "the test part is empty"),
    ],
)
def test_refused_before_anything_is_written(
    settings: dict[str, Any], message: str, stream: EventStream, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(stream, out=tmp_path / "run", show=False, **settings)
    assert not (tmp_path / "run" / "config.json").exists()


# -- what is hidden -----------------------------------------------------------------------------------------


def test_nothing_of_a_users_own_data_is_hidden_by_default(tmp_path: Path) -> None:
    """A dataset of the catalog is trained by the protocol of published figures."""
    lines = [f"u{n % 7},i{n % 4},{n}" for n in range(80)]
    (tmp_path / "visits.csv").write_text("src,dst,t\n" + "\n".join(lines))
    n = np.arange(80)
    columns = pa.table({"src": n % 7, "dst": n % 4, "t": n})
    for name, data in {"file": tmp_path / "visits.csv", "frame": columns, "set": "synthetic:300"}.items():
        run = fit(data, "recency", out=tmp_path / name, show=False)
        hidden = "tgn" if name == "set" else "none"
        assert run.config.train.holdout == hidden
        assert run.metrics.result.protocol.holdout == hidden
        assert bool(run.split.hidden_events) is (name == "set")
    asked = fit(tmp_path / "visits.csv", "recency", out=tmp_path / "asked", show=False, holdout="tgn")
    assert asked.split.hidden_events
