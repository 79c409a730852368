from __future__ import annotations

import io
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, bit_identical, tiny_stream

from contig.data.events import EventStream
from contig.data.splits import chronological_split
from contig.kernels.devices import hardware
from contig.models import EventBatch, model_class
from contig.runs.config import RunConfig
from contig.runs.options import TrainOptions
from contig.tasks.link_scoring import score_batch
from contig.training.preparation import prepare
from contig.training.session import Session

CPU = torch.device("cpu")


def session(stream: EventStream, model: str = "contig", **settings: Any) -> Session:
    known = {f.name for f in fields(model_class(model).options) + fields(TrainOptions)}
    config = RunConfig.of(model, {k: v for k, v in TINY.items() if k in known} | settings)
    return Session(prepare(stream, config, CPU), config)


def through_a_file(snapshot: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(snapshot, file)
    file.seek(0)
    content: dict[str, Any] = torch.load(file, weights_only=True)
    return content


def steps(of: Session, count: int) -> list[float]:
    return [of.train_step().item() for _ in range(count)]


def test_a_snapshot_holds_everything_that_moves(stream: EventStream) -> None:
    one = session(stream)
    steps(one, 4)
    snapshot = through_a_file(one.snapshot())
    assert set(snapshot) == {"weights", "optimizer", "state", "generators", "progress"}
    assert bit_identical(snapshot["weights"], dict(one.model.state_dict()))
    moments = snapshot["optimizer"]
    assert moments["count"] == 4
    assert int((moments["square"] > 0).sum()) > 0.9 * sum(p.numel() for p in one.model.parameters())
    assert bit_identical(snapshot["state"]["rows"], dict(one.state.rows))
    train = chronological_split(stream).train
    observed = int(np.count_nonzero(stream.t[train] < stream.t[train[4 * 30]]))
    assert snapshot["state"]["position"] == train[observed - 1] + 1
    assert torch.equal(snapshot["generators"]["torch"], torch.get_rng_state())
    fresh = session(stream).negatives.generator.get_state()  # those of an epoch are drawn at its beginning
    assert torch.equal(snapshot["generators"]["negatives"], fresh)
    assert snapshot["progress"]["step"] == 4


def test_a_restored_session_goes_on_as_the_first(stream: EventStream) -> None:
    one = session(stream)
    steps(one, 3)
    snapshot = through_a_file(one.snapshot())
    expected = steps(one, 4)
    end = through_a_file(one.snapshot())
    two = session(stream)
    steps(two, 1)
    torch.manual_seed(99)
    two.restore(snapshot)
    assert steps(two, 4) == expected
    assert bit_identical(through_a_file(two.snapshot()), end)


@pytest.mark.parametrize("part", ["weights", "optimizer", "state", "torch", "negatives", "progress"])
def test_no_part_of_a_snapshot_could_be_left_out(part: str, stream: EventStream) -> None:
    """With any one part of another moment the session goes on differently."""
    one = session(stream)
    steps(one, 1)
    early = through_a_file(one.snapshot())
    steps(one, 2)
    snapshot = through_a_file(one.snapshot())
    expected = steps(one, 3)
    where = snapshot["generators"] if part in ("torch", "negatives") else snapshot
    where[part] = early["generators"]["torch"] if part == "torch" else early.get(part)
    if part == "negatives":  # within an epoch its state is that before the epoch's draw
        where[part] = torch.Generator().manual_seed(99).get_state()
    two = session(stream)
    two.restore(snapshot)
    assert steps(two, 3) != expected


def test_hidden_nodes_are_not_learned_from(stream: EventStream) -> None:
    """A whole epoch leaves the states of new nodes blank and draws no destination that is one."""
    one = session(stream)
    new = torch.from_numpy(one.data.split.new_nodes)
    assert 0 < int(new.sum()) < stream.num_nodes
    assert not set(one.negatives.destinations.tolist()) & set(new.nonzero().flatten().tolist())
    one.begin_epoch()
    steps(one, len(one.steps))
    assert torch.all(one.state["last"][new] == -1)
    assert torch.all(one.state["h"][new] == 0)
    assert torch.all(one.state["last"][~new] >= 0)


def test_an_epoch_begins_with_nothing_observed(stream: EventStream) -> None:
    one = session(stream)
    steps(one, 3)
    one.begin_epoch()
    assert (one.progress.step, one.progress.loss, one.state.position) == (0, 0.0, 0)
    assert torch.all(one.state["last"] == -1)


def test_a_model_is_prepared_once_with_the_training_events(stream: EventStream) -> None:
    """Before the first epoch, and not again after an interruption."""
    shown: list[Any] = []
    one, two = session(stream), session(stream)
    for each in (one, two):
        each.model.prepare = shown.append  # type: ignore[method-assign, assignment]
    one.begin_epoch()
    steps(one, 2)
    two.restore(through_a_file(one.snapshot()))
    steps(two, len(two.steps) - 2)
    two.progress.epoch = 1
    two.begin_epoch()
    assert shown == [one.data.training]
    assert np.array_equal(shown[0].event_indices().numpy(), chronological_split(stream).train)


def test_a_penalty_is_part_of_the_loss(stream: EventStream) -> None:
    """Step for step the loss and the gradients of a cross-entropy and a divergence, worked out apart."""
    one, twin = (session(stream, "vgae", divergence=500.0, split_seed=1) for _ in range(2))
    for each in (one, twin):
        each.begin_epoch()
        torch.manual_seed(0)
        steps(each, 3)
    history = one.data.training
    batch = EventBatch.of(history, torch.from_numpy(one.data.split.train[90:120]))
    luck = torch.get_rng_state()
    negative = twin._negative[batch.event]
    logits = score_batch(twin.model, twin.state, history, batch, negative)
    truth = torch.tensor([1.0, 0.0]).expand_as(logits)
    fit = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth)
    extra = twin.model.penalty(twin.state, history, batch.t[0])
    assert extra is not None
    assert extra.item() > 0.01
    torch.set_rng_state(luck)
    torch.testing.assert_close(one.train_step(), (fit + extra).detach())
    assert twin.optimizer is not None
    (fit + extra).backward()
    twin.optimizer.step()
    for a, b in zip(one.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("model", ["contig", "tgn", "jodie", "dyrep", "tgat", "graphsage"])
def test_a_step_found_by_a_tensor_is_the_step_of_that_number(model: str, stream: EventStream) -> None:
    """What a GPU records and replays, here without one: wherever the shapes are those it is made for."""
    one, twin = (session(stream, model) for _ in range(2))
    tensors = 0
    for each in (one, twin):
        each.begin_epoch()
    for number in range(len(one.steps)):
        torch.manual_seed(number)
        expected = one.train_step()
        torch.manual_seed(number)
        if not twin._drawn:
            twin.draw_negatives()
        if twin.walker.schedule.is_regular(number):
            found, tensors = twin.walker._fast_step(torch.tensor([number])), tensors + 1
        else:
            found = twin.walker._eager_step(number)
        torch.testing.assert_close(found, expected)
        assert bit_identical(dict(one.state.rows), dict(twin.state.rows))
    assert tensors > 3


@pytest.mark.parametrize(("threads", "words"), [(1, "CPU, 1 thread"), (4, "CPU, 4 threads")])
def test_the_device_in_words(threads: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert hardware(CPU).endswith(words)


@pytest.mark.gpu
@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")])
def test_a_run_may_change_its_device(first: str, second: str, tmp_path: Any) -> None:
    from contig.training.fit import fit, resume

    settings = {**TINY, "batch_size": 10}  # many steps, so that graphs are captured
    fit(tiny_stream(), out=tmp_path / "run", device=first, epochs=1, show=False, **settings)
    before = torch.load(tmp_path / "run" / "checkpoint.pt", map_location="cpu", weights_only=True)
    run = resume(tmp_path / "run", device=second, epochs=3, show=False)
    assert [row.epoch for row in run.metrics.epochs] == [1, 2, 3]
    after = torch.load(tmp_path / "run" / "checkpoint.pt", map_location="cpu", weights_only=True)
    assert after["optimizer"]["count"] == 3 * before["optimizer"]["count"]
