"""Decoders of labels: the embeddings they read, what they may know, and what they learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.evaluation import context_of
from support.labels import labeled, short_decoders
from support.problems import CASES, COUPLED, case, random_stream, shape_of, with_events
from torch import Tensor

from contig.data.events import EventStream
from contig.data.splits import Split, chronological_split
from contig.models import model_class
from contig.models.contract import EventBatch
from contig.tasks import label_decoding
from contig.tasks.context import EvaluationContext
from contig.tasks.label_decoding import (
    decode_test_events,
    decoder_auc,
    decoder_logits,
    source_embeddings,
    standardized,
    train_decoder,
)

__all__ = ["short_decoders"]  # a fixture


STREAM = random_stream(1, events=30)
EMBEDDING = [name for name, tried in CASES.items() if model_class(tried.model).learns]


def context(
    stream: EventStream, name: str = "tgn", batch_size: int = 20, like: EventStream | None = None
) -> EvaluationContext:
    """An untrained model on a stream, built for that stream or for another ``like`` it."""
    return context_of(case(name, shape_of(like or stream)), stream, batch_size)


@pytest.mark.parametrize("name", EMBEDDING)
def test_embeddings_against_queries_one_by_one(name: str) -> None:
    """With batches of one, each in the state after all earlier events."""
    stream = random_stream(1, events=30)
    given = context(stream, name, batch_size=1)
    found = source_embeddings(given)
    state, done = given.model.new_state(stream.num_nodes), 0
    with torch.no_grad():
        for i in range(30):
            while stream.t[done] < stream.t[i]:
                end = int(np.searchsorted(stream.t, stream.t[done], side="right"))
                many = torch.arange(done, end)
                columns = given.data.history.events
                batch = EventBatch(many, columns["src"][many], columns["dst"][many], columns["t"][many])
                given.model.observe(state, given.data.history, batch)
                done = end
            node, time = torch.tensor([stream.src[i]]), torch.tensor([stream.t[i]])
            expected = given.model.embed(state, given.data.history, node, time, time[0])[0]
            np.testing.assert_allclose(found[i], expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in EMBEDDING if n not in COUPLED])
def test_the_future_changes_no_embedding(name: str) -> None:
    stream = random_stream(8, events=45)
    first = int(np.searchsorted(stream.t, stream.t[28]))
    rng = np.random.default_rng(0)
    whole = source_embeddings(context(stream, name))
    altered = with_events(stream, np.r_[np.arange(first), rng.permutation(np.arange(first, 45))])
    altered.t[first:] = stream.t[first:]
    for other in (with_events(stream, np.arange(first)), altered):
        found = source_embeddings(context(other, name, like=stream))  # scales of time come from training
        np.testing.assert_allclose(found[:first], whole[:first], rtol=1e-5, atol=1e-6)


def test_embeddings_do_not_depend_on_labels() -> None:
    stream = labeled(2)
    bare = source_embeddings(context(replace(stream, label=None)))
    np.testing.assert_array_equal(source_embeddings(context(stream)), bare)


def test_training_and_validation_labels_matter() -> None:
    """Unlike those of the test events."""
    stream = labeled(2)
    assert stream.label is not None
    split = chronological_split(stream)
    scores = []
    for part in (split.train, split.val, split.test):
        label = stream.label == 1
        label[part] = ~label[part]
        scores.append(decode_test_events(context(stream), label, 1)[1])
    assert not np.array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[1], scores[2])


def problem(seed: int, events: int = 2400) -> tuple[Tensor, Tensor, Split]:
    """A tenth of the rows is positive, in opposite corners of two of the seven columns."""
    rng = np.random.default_rng(seed)
    label = rng.random(events) < 0.1
    x = rng.normal(size=(events, 7)).astype(np.float32)
    x[label, :2] += 3 * rng.choice([-1, 1], size=(label.sum(), 1))
    rows = np.arange(events)
    split = Split(rows[:1600], rows[1600:2000], rows[2000:], np.zeros(1, bool), "paper", 0)
    return torch.from_numpy(x), torch.from_numpy(label), split


def test_a_decoder_learns_corners_but_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_decoding, "STEPS", 60)
    x, label, split = problem(0)
    learned = train_decoder(x, label, split, seed=0)
    test = torch.from_numpy(split.test)
    assert decoder_auc(learned.decoder, x[test], label[test]) > 0.9  # a linear decoder could not
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=x.shape).astype(np.float32))
    nothing = train_decoder(noise, label, split, seed=0).decoder
    assert abs(decoder_auc(nothing, noise[test], label[test]) - 0.5) < 0.2  # deviation 0.05


def test_the_best_validation_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    x, label, split = problem(1)
    validations: list[float] = []
    original = decoder_auc
    monkeypatch.setattr(
        label_decoding, "decoder_auc", lambda *a: validations.append(original(*a)) or validations[-1]
    )
    monkeypatch.setattr(label_decoding, "LR", 0.3)  # far too high: the decoder gets worse again
    steps: list[int] = []
    learned = train_decoder(x, label, split, seed=3, progress=steps.append)
    val = torch.from_numpy(split.val)
    assert len(validations) == len(steps)
    assert learned.validation == max(validations) == original(learned.decoder, x[val], label[val])
    best = validations.index(max(validations))
    assert len(validations) in (best + 1 + label_decoding.PATIENCE, label_decoding.VALIDATIONS)
    assert best + 1 < len(validations)


def test_steps_are_balanced() -> None:
    groups = [torch.tensor([3, 5]), torch.tensor([0, 1, 2, 4, 6])]
    drawn = label_decoding._balanced_rows(groups, torch.Generator().manual_seed(0))
    assert drawn.shape == (12, 32)
    positive = torch.isin(drawn, groups[0])
    assert (positive.sum(dim=1) == 16).all()
    assert set(drawn.flatten().tolist()) == set(range(7))


def test_decoders_depend_on_their_seed_alone() -> None:
    x, label, split = problem(2)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = train_decoder(x, label, split, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    again, other = train_decoder(x, label, split, seed=1), train_decoder(x, label, split, seed=2)
    np.testing.assert_array_equal(decoder_logits(one.decoder, x), decoder_logits(again.decoder, x))
    assert not np.array_equal(decoder_logits(one.decoder, x), decoder_logits(other.decoder, x))


def test_columns_are_scaled_by_the_training_rows() -> None:
    x = np.random.default_rng(0).normal(5, 3, (9, 4)).astype(np.float32)
    x[:, 2] = 7
    train = np.array([0, 1, 3, 4])
    found = standardized(x, train)
    for column in (0, 1, 3):
        mean = sum(x[i, column] for i in train) / 4
        spread = (sum((x[i, column] - mean) ** 2 for i in train) / 4) ** 0.5
        np.testing.assert_allclose(found[:, column], (x[:, column] - mean) / spread, rtol=1e-5)
    assert not found[:, 2].any()
