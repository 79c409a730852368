"""Labels from embeddings: what a decoder may know, what it finds, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from support.evaluation import context_of
from support.problems import CASES, COUPLED, case, embeds, random_stream, shape_of, with_events
from torch import Tensor

from contig.data.events import EventStream
from contig.data.splits import HOLDOUTS, Holdout, Split, chronological_split
from contig.errors import ConfigError, DataError, RunError
from contig.models.contract import EventBatch
from contig.tasks import label_decoding
from contig.tasks.classify import ClassifyResult, ClassifyTask, LabelMetrics, check_labels, classify_report
from contig.tasks.context import EvaluationContext
from contig.tasks.label_decoding import (
    decode_test_events,
    decoder_auc,
    decoder_logits,
    source_embeddings,
    standardised,
    train_decoder,
)

STREAM = random_stream(1, events=30)
EMBEDDING = [name for name in CASES if embeds(case(name, shape_of(STREAM)))]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders that take milliseconds."""
    for name, value in {"STEP_ROWS": 32, "STEPS": 12, "VALIDATIONS": 9, "PATIENCE": 3}.items():
        monkeypatch.setattr(label_decoding, name, value)


def labelled(seed: int, events: int = 300, share: float = 0.3) -> EventStream:
    stream = random_stream(seed, events=events, num_nodes=20)
    label = (np.random.default_rng(seed).random(events) < share).astype(np.int64)
    return replace(stream, label=label)


def context(stream: EventStream, name: str = "tgn", batch_size: int = 7) -> EvaluationContext:
    return context_of(case(name, shape_of(stream)), stream, batch_size)


def measure(given: EvaluationContext, seeds: int = 5) -> ClassifyResult:
    return ClassifyTask.of(seeds=seeds).measure(given)


# -- embeddings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMBEDDING)
def test_an_embedding_is_the_source_s_just_before_its_event(name: str) -> None:
    """With batches of one, the answer to a single question in the state after all earlier events."""
    stream = random_stream(1, events=30)
    asked = context(stream, name, batch_size=1)
    found = source_embeddings(asked)
    state, done = asked.model.new_state(stream.num_nodes), 0
    with torch.no_grad():
        for i in range(30):
            while stream.t[done] < stream.t[i]:
                end = int(np.searchsorted(stream.t, stream.t[done], side="right"))
                many = torch.arange(done, end)
                columns = asked.data.history.events
                batch = EventBatch(many, columns["src"][many], columns["dst"][many], columns["t"][many])
                asked.model.observe(state, asked.data.history, batch)
                done = end
            node, time = torch.tensor([stream.src[i]]), torch.tensor([stream.t[i]])
            expected = asked.model.embed(state, asked.data.history, node, time, time[0])[0]
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
        found = source_embeddings(context(other, name))
        np.testing.assert_allclose(found[:first], whole[:first], rtol=1e-5, atol=1e-6)


def test_a_rule_has_no_embeddings() -> None:
    with pytest.raises(ConfigError, match="no embeddings"):
        measure(context(labelled(1), "edgebank"))


# -- labels -------------------------------------------------------------------------------------------------


def test_no_label_of_the_test_is_seen_before_it_is_measured() -> None:
    """Other labels from the test on: the decoders and the scores are the same, bit by bit."""
    stream = labelled(2)
    asked = context(stream)
    assert stream.label is not None
    first = int(asked.data.split.test[0])
    other = stream.label.copy()
    other[first:] = 1 - other[first:]
    (before, found), (after, again) = (
        decode_test_events(context(replace(stream, label=label)), label == 1, 2)
        for label in (stream.label, other)
    )
    np.testing.assert_array_equal(found, again)
    assert [one.validation for one in before] == [one.validation for one in after]
    flipped = measure(context(replace(stream, label=other)), seeds=2).transductive.auc
    assert flipped == pytest.approx(1 - measure(asked, seeds=2).transductive.auc)


def test_labels_are_no_part_of_an_embedding() -> None:
    stream = labelled(2)
    bare = source_embeddings(context(replace(stream, label=None)))
    np.testing.assert_array_equal(source_embeddings(context(stream)), bare)


def test_training_and_validation_labels_matter() -> None:
    """Or the test above would show nothing."""
    stream = labelled(2)
    assert stream.label is not None
    split = chronological_split(stream)
    scores = []
    for part in (split.train, split.val, split.test):
        label = stream.label == 1
        label[part] = ~label[part]
        scores.append(decode_test_events(context(stream), label, 1)[1])
    assert not np.array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[1], scores[2])


def by_part(train: int, val: int, test: int) -> NDArray[np.int64]:
    """100 labels of which so many of each part are 1."""
    parts = ((train, 70), (val, 15), (test, 15))
    return np.concatenate([np.arange(size) < ones for ones, size in parts]).astype(np.int64)


@pytest.mark.parametrize(
    ("label", "told"),
    [
        (None, "has no labels.*--label"),
        (np.arange(100) % 3, "label 2 is neither 0 nor 1"),
        (by_part(0, 3, 2), "0 of the 70 training events have label 1"),
        (by_part(9, 0, 2), "0 of the 15 validation events have label 1"),
        (by_part(9, 3, 15), "15 of the 15 test events have label 1"),
    ],
)
def test_what_cannot_be_classified_is_told(label: NDArray[np.int64] | None, told: str) -> None:
    stream = replace(random_stream(4, events=100), label=label, t=np.arange(100))
    with pytest.raises(DataError, match=told):
        check_labels(stream, chronological_split(stream, holdout="paper"))


# -- the decoder --------------------------------------------------------------------------------------------


def problem(seed: int, events: int = 2400) -> tuple[Tensor, Tensor, Split]:
    """A tenth of the rows is positive and stands out in two columns of seven, as corners do."""
    rng = np.random.default_rng(seed)
    label = rng.random(events) < 0.1
    x = rng.normal(size=(events, 7)).astype(np.float32)
    x[label, :2] += 3 * rng.choice([-1, 1], size=(label.sum(), 1))
    rows = np.arange(events)
    split = Split(rows[:1600], rows[1600:2000], rows[2000:], np.zeros(1, bool), "paper", 0)
    return torch.from_numpy(x), torch.from_numpy(label), split


def test_a_decoder_learns_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_decoding, "STEPS", 60)
    x, label, split = problem(0)
    learned = train_decoder(x, label, split, seed=0)
    test = torch.from_numpy(split.test)
    assert decoder_auc(learned.decoder, x[test], label[test]) > 0.9  # no straight line could
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=x.shape).astype(np.float32))
    nothing = train_decoder(noise, label, split, seed=0).decoder
    assert abs(decoder_auc(nothing, noise[test], label[test]) - 0.5) < 0.2  # deviation 0.05


def test_the_best_look_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    x, label, split = problem(1)
    looks: list[float] = []
    original = decoder_auc
    monkeypatch.setattr(label_decoding, "decoder_auc", lambda *a: looks.append(original(*a)) or looks[-1])
    monkeypatch.setattr(label_decoding, "LR", 0.3)  # far too much: it gets worse again
    steps: list[int] = []
    learned = train_decoder(x, label, split, seed=3, progress=steps.append)
    val = torch.from_numpy(split.val)
    assert len(looks) == len(steps)
    assert learned.validation == max(looks) == original(learned.decoder, x[val], label[val])
    best = looks.index(max(looks))
    assert len(looks) in (best + 1 + label_decoding.PATIENCE, label_decoding.VALIDATIONS)
    assert best + 1 < len(looks)


def test_a_step_sees_as_many_positives_as_others() -> None:
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
    found = standardised(x, train)
    for column in (0, 1, 3):
        mean = sum(x[i, column] for i in train) / 4
        spread = (sum((x[i, column] - mean) ** 2 for i in train) / 4) ** 0.5
        np.testing.assert_allclose(found[:, column], (x[:, column] - mean) / spread, rtol=1e-5)
    assert not found[:, 2].any()


# -- what is said of it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("holdout", HOLDOUTS)
def test_the_report_against_sktrain_decoder(holdout: Holdout) -> None:
    stream = replace(random_stream(5, events=400, num_nodes=300), label=np.arange(400) % 3 // 2)
    split = chronological_split(stream, holdout=holdout)
    assert stream.label is not None
    label = stream.label == 1
    found = np.random.default_rng(0).integers(0, 9, (3, len(split.test))).astype(np.float32)  # with ties
    report = classify_report(stream, split, label, found)
    trained = {int(v) for i in split.train for v in (stream.src[i], stream.dst[i])}
    new = [i for i, event in enumerate(split.test) if int(stream.src[event]) not in trained]
    old = [i for i in range(len(split.test)) if i not in new]
    kept = old if holdout == "paper" else [*range(len(split.test))]
    for name, rows in (("transductive", kept), ("inductive", new)):
        truth = label[split.test][rows]
        each = [roc_auc_score(truth, one[rows]) for one in found]
        measured = getattr(report, name)
        assert measured.auc_seeds == pytest.approx(each)
        assert measured.auc == pytest.approx(sum(each) / 3)
        assert measured.auc_std == pytest.approx(np.std(each, ddof=1))
        assert (measured.events, measured.positives) == (len(rows), truth.sum())


def test_one_label_alone_has_no_auc() -> None:
    stream = labelled(3)
    split = chronological_split(stream)
    split.new_nodes[:] = False
    found = np.zeros((2, len(split.test)), np.float32)
    report = classify_report(stream, split, np.ones(len(stream), bool), found)
    assert report.inductive == LabelMetrics(events=0, positives=0)
    assert report.transductive == LabelMetrics(events=len(split.test), positives=len(split.test))
    assert "auc" not in report.transductive.as_dict()


def test_the_whole_task() -> None:
    stream = labelled(2)
    asked = context(stream)
    found = measure(asked, seeds=3)
    assert stream.label is not None
    for name, part in (
        ("train", asked.data.split.train),
        ("validation", asked.data.split.val),
        ("test", asked.data.split.test),
    ):
        counts = getattr(found.labels, name)
        assert (counts.events, counts.positives) == (len(part), stream.label[part].sum())
    assert len(set(found.transductive.auc_seeds)) > 1
    assert len(found.validation.auc_seeds) == found.protocol.decoder_seeds == 3
    assert measure(asked, seeds=3) == found
    assert measure(asked, seeds=1).transductive.auc_std == 0
    with pytest.raises(ConfigError, match="seeds=0"):
        measure(asked, seeds=0)


def test_lost_states_are_told() -> None:
    asked = context(labelled(2))
    with torch.no_grad():
        next(asked.model.parameters()).fill_(torch.nan)
    with pytest.raises(RunError, match="are NaN or infinite"):
        measure(asked)


def test_a_model_that_knows_no_new_nodes_is_not_measured_on_them() -> None:
    stream = labelled(3)
    split = chronological_split(stream, holdout="tgn")
    label = stream.label == 1
    found = np.random.default_rng(0).normal(size=(2, len(split.test))).astype(np.float32)
    report = classify_report(stream, split, label, found, inductive=False)
    new = split.new_nodes[stream.src[split.test]]
    assert 0 < new.sum() < len(new)
    positives = int(label[split.test][new].sum())
    assert report.inductive == LabelMetrics(events=int(new.sum()), positives=positives)
    truth = label[split.test][~new]
    expected = [roc_auc_score(truth, one[~new]) for one in found]
    assert report.transductive.auc_seeds == pytest.approx(expected)
    assert report.transductive.events == int((~new).sum())
