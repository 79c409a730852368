"""A session: its snapshots, its epochs, its loss, and its steps as a GPU records them."""

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
from contig.tasks.link_scoring import NegativePairs, score_batch
from contig.training.preparation import prepare
from contig.training.session import Session

CPU = torch.device("cpu")


def new_session(stream: EventStream, model: str = "contig", **settings: Any) -> Session:
    known = {f.name for f in fields(model_class(model).options) + fields(TrainOptions)}
    config = RunConfig.of(model, {k: v for k, v in TINY.items() if k in known} | settings)
    return Session(prepare(stream, config, CPU), config)


def saved_and_loaded(snapshot: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(snapshot, file)
    file.seek(0)
    content: dict[str, Any] = torch.load(file, weights_only=True)
    return content


def losses(session: Session, steps: int) -> list[float]:
    """The losses of the next steps."""
    return [session.train_step().item() for _ in range(steps)]


def test_a_snapshot_holds_everything_that_changes(stream: EventStream) -> None:
    one = new_session(stream)
    losses(one, 4)
    snapshot = saved_and_loaded(one.snapshot())
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
    fresh = new_session(
        stream
    ).negatives.generator.get_state()  # the negatives of an epoch are drawn at its start
    assert torch.equal(snapshot["generators"]["negatives"], fresh)
    assert snapshot["progress"]["step"] == 4


@pytest.mark.parametrize("settings", [{}, {"historical": 1, "met_pairs": 0.3}])
def test_a_restored_session_takes_the_same_steps(settings: dict[str, Any], stream: EventStream) -> None:
    one = new_session(stream, **settings)
    losses(one, 3)
    snapshot = saved_and_loaded(one.snapshot())
    expected = losses(one, 4)
    end = saved_and_loaded(one.snapshot())
    two = new_session(stream, **settings)
    losses(two, 1)
    torch.manual_seed(99)
    two.restore(snapshot)
    assert losses(two, 4) == expected
    assert bit_identical(saved_and_loaded(two.snapshot()), end)


@pytest.mark.parametrize("part", ["weights", "optimizer", "state", "torch", "negatives", "progress"])
def test_every_part_of_a_snapshot_matters(part: str, stream: EventStream) -> None:
    """With any one part from another step the session continues differently."""
    one = new_session(stream)
    losses(one, 1)
    early = saved_and_loaded(one.snapshot())
    losses(one, 2)
    snapshot = saved_and_loaded(one.snapshot())
    expected = losses(one, 3)
    where = snapshot["generators"] if part in ("torch", "negatives") else snapshot
    where[part] = early["generators"]["torch"] if part == "torch" else early.get(part)
    if part == "negatives":  # the early snapshot has the same one, from before the epoch's draw
        where[part] = torch.Generator().manual_seed(99).get_state()
    two = new_session(stream)
    two.restore(snapshot)
    assert losses(two, 3) != expected


def test_held_out_nodes_are_not_learned_from(stream: EventStream) -> None:
    """An epoch leaves their states blank and draws none of them as a negative."""
    one = new_session(stream)
    new = torch.from_numpy(one.data.split.new_nodes)
    assert 0 < int(new.sum()) < stream.num_nodes
    assert not set(one.negatives.destinations.tolist()) & set(new.nonzero().flatten().tolist())
    one.begin_epoch()
    losses(one, len(one.steps))
    assert torch.all(one.state["last"][new] == -1)
    assert torch.all(one.state["h"][new] == 0)
    assert torch.all(one.state["last"][~new] >= 0)


def test_an_epoch_starts_from_a_blank_state(stream: EventStream) -> None:
    one = new_session(stream)
    losses(one, 3)
    one.begin_epoch()
    assert (one.progress.step, one.progress.loss, one.state.position) == (0, 0.0, 0)
    assert torch.all(one.state["last"] == -1)


def test_a_model_is_prepared_once_with_the_training_events(stream: EventStream) -> None:
    """Before the first epoch, and not again after an interruption."""
    prepared_with: list[Any] = []
    one, two = new_session(stream), new_session(stream)
    for each in (one, two):
        each.model.prepare = prepared_with.append  # type: ignore[method-assign, assignment]
    one.begin_epoch()
    losses(one, 2)
    two.restore(saved_and_loaded(one.snapshot()))
    losses(two, len(two.steps) - 2)
    two.progress.epoch = 1
    two.begin_epoch()
    assert prepared_with == [one.data.training]
    assert np.array_equal(prepared_with[0].event_indices().numpy(), chronological_split(stream).train)


def test_a_penalty_is_part_of_the_loss(stream: EventStream) -> None:
    """Loss and weights after a step equal those of a cross-entropy and a divergence computed separately."""
    one, twin = (new_session(stream, "vgae", divergence=500.0, split_seed=1) for _ in range(2))
    for each in (one, twin):
        each.begin_epoch()
        torch.manual_seed(0)
        losses(each, 3)
    history = one.data.training
    batch = EventBatch.of(history, torch.from_numpy(one.data.split.train[90:120]))
    generator = torch.get_rng_state()
    negative = twin._negative[batch.event]
    logits = score_batch(twin.model, twin.state, history, batch, NegativePairs(negative))
    truth = torch.tensor([1.0, 0.0]).expand_as(logits)
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits, truth)
    extra = twin.model.penalty(twin.state, history, batch, negative)
    assert extra is not None
    assert extra.item() > 0.01
    torch.set_rng_state(generator)
    torch.testing.assert_close(one.train_step(), (cross_entropy + extra).detach())
    assert twin.optimizer is not None
    (cross_entropy + extra).backward()
    twin.optimizer.step()
    for a, b in zip(one.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_pairs_that_met_before_are_part_of_the_loss(stream: EventStream) -> None:
    """The loss with them, minus the loss without, is a cross-entropy computed one pair at a time."""
    plain, one = (new_session(stream, "tgn", met_pairs=weight, dropout=0.0) for weight in (0.0, 0.7))
    for each in (plain, one):
        each.begin_epoch()
        each.draw_negatives()
    events = torch.from_numpy(one.data.split.train)
    met = one._met
    assert met is not None
    sources = met.drawn.src
    assert sources is not None
    history = one.data.training
    seen: set[tuple[int, int]] = set()
    columns = [history.events[name][events].tolist() for name in ("src", "dst", "t")]
    rows = list(zip(*columns, strict=True))
    later = list(rows)
    for event, (_, _, t) in zip(events.tolist(), rows, strict=True):
        while later[0][2] < t:
            seen.add(later.pop(0)[:2])
        pair = int(sources[event]), int(met.drawn.dst[event])
        assert bool(met.usable[event]) == (bool(seen) and (*pair, t) not in rows)
        assert pair in seen or not seen
    one.model.load_state_dict(plain.model.state_dict())
    plain._negative.copy_(one._negative)
    for number, (start, stop) in enumerate([(0, 30), (30, 60), (60, 90)]):
        batch = EventBatch.of(history, events[start:stop])
        terms = []
        for row, event in enumerate(batch.event.tolist()):
            when, own = batch.t[row : row + 1], batch.dst[row : row + 1, None]
            wrong = one.model.link(
                one.state, history, sources[event], met.drawn.dst[event, None], when, batch.as_of
            )
            right = one.model.link(one.state, history, batch.src[row : row + 1], own, when, batch.as_of)
            usable = float(met.usable[event])
            terms.append(-right.sigmoid().log() - usable * (1 - wrong.sigmoid()).log())
        extra = torch.stack(terms).mean() / 2
        difference = one.loss(batch) - plain.loss(batch)
        torch.testing.assert_close(difference, 0.7 * extra, rtol=1e-4, atol=1e-5)
        for each in (plain, one):
            each.model.observe(each.state, history, EventBatch.of(history, events[:stop][30 * number :]))


@pytest.mark.parametrize("model", ["contig", "tgn", "jodie", "dyrep", "tgat", "graphsage"])
def test_a_step_looked_up_by_a_tensor_equals_the_step_of_that_number(model: str, stream: EventStream) -> None:
    """What a GPU records and replays, here on a CPU, for every batch of a regular shape.

    Both take each step from the same snapshot. A step looked up by a tensor observes its last event several
    times, in a batch of another shape, so its numbers agree up to rounding.
    """
    one, twin = (new_session(stream, model) for _ in range(2))
    one.begin_epoch()
    one.draw_negatives()
    by_tensor = 0
    for number in range(len(one.steps)):
        twin.restore(saved_and_loaded(one.snapshot()))
        twin._negative.copy_(one._negative)
        torch.manual_seed(number)
        expected = one.train_step()
        torch.manual_seed(number)
        if twin.walker.schedule.is_regular(number):
            found, by_tensor = twin.walker._fast_step(torch.tensor([number])), by_tensor + 1
        else:
            found = twin.walker._eager_step(number)
        torch.testing.assert_close(found, expected)
        for name, rows in one.state.rows.items():
            torch.testing.assert_close(twin.state[name], rows)
    assert by_tensor > 3


@pytest.mark.parametrize(("threads", "name"), [(1, "CPU, 1 thread"), (4, "CPU, 4 threads")])
def test_the_name_of_a_cpu(threads: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert hardware(CPU).endswith(name)


@pytest.mark.gpu
@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")])
def test_a_run_can_be_resumed_on_another_device(first: str, second: str, tmp_path: Any) -> None:
    from contig.training.fit import fit, resume

    settings = {**TINY, "batch_size": 10}  # enough steps to capture a graph
    fit(tiny_stream(), out=tmp_path / "run", device=first, epochs=1, show=False, **settings)
    before = torch.load(tmp_path / "run" / "checkpoint.pt", map_location="cpu", weights_only=True)
    run = resume(tmp_path / "run", device=second, epochs=3, show=False)
    assert [row.epoch for row in run.metrics.epochs] == [1, 2, 3]
    after = torch.load(tmp_path / "run" / "checkpoint.pt", map_location="cpu", weights_only=True)
    assert after["optimizer"]["count"] == 3 * before["optimizer"]["count"]
