"""Classification: the label of an event from its source's embedding just before it.

The trained model is frozen. One walk over the whole stream, from a blank state and in the run's batches,
gives the source's embedding at every event's time; a three-layer decoder learns the labels of the training
events from these embeddings and nothing else, stops by the AUC of the validation events, and is measured on
the test events. It starts from several seeds, since there are few positives and so the spread is part of
the result.

Positives are rare (1 event in 700 in wikipedia), so a step sees as many of them as of the others, drawn
anew each time. Embeddings are brought to mean 0 and deviation 1 over the training events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.data.events import EventStream
from contig.data.splits import Split
from contig.errors import ConfigError, DataError
from contig.layers import NodeDecoder
from contig.models.contract import EventBatch
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.link import check_scores
from contig.tasks.metrics import area_under_curve
from contig.tasks.results import (
    ClassifyProtocol,
    ClassifyResult,
    LabelCounts,
    LabelMetrics,
    LabelParts,
    SeedMetrics,
    only_known_nodes,
)
from contig.tasks.setting import Setting

STEP_ROWS = 256  # half of them positives
STEPS = 100  # between two looks at the validation events
PATIENCE = 8  # looks without a better AUC
LOOKS = 60  # at most
LR = 1e-3
WEIGHT_DECAY = 1e-4  # a few dozen positives are learned by heart otherwise

BALANCE = "each step draws as many positives as others"


class Learned(NamedTuple):
    """A decoder at its best look, and the AUC of the validation events there."""

    decoder: NodeDecoder
    validation: float


def source_embeddings(setting: Setting, progress: Progress = no_progress) -> NDArray[np.float32]:
    """The embedding ``[events, d]`` of every event's source just before it, walking the whole stream."""
    model, history = setting.model, setting.history
    state = model.new_state(setting.stream.num_nodes, on_host=history.on_host)

    def ask(batch: EventBatch) -> Tensor:
        return model.embed(state, history, batch.src, batch.t, batch.t[0])

    walker = Walker(model, state, history, setting.batch_size, ask)
    return walker.read_all(np.arange(len(setting.stream)), progress)


def check_labels(stream: EventStream, split: Split) -> NDArray[np.bool_]:
    """The labels as true and false, refused where there is nothing to learn or to measure."""
    if stream.label is None:
        raise DataError(
            f"{stream.origin} has no labels, so there is nothing to classify; train on a stream that has "
            "them, and name their column: label=, or contig train FILE --label COLUMN."
        )
    if strange := np.setdiff1d(stream.label, [0, 1]).tolist():
        raise DataError(
            f"{stream.origin}: label {strange[0]} is neither 0 nor 1; make the labels say what is to be told "
            "from everything else."
        )
    label: NDArray[np.bool_] = stream.label == 1
    for name, part in (("training", split.train), ("validation", split.val), ("test", split.test)):
        positives = int(label[part].sum())
        if positives in (0, len(part)):
            raise DataError(
                f"{stream.origin}: {positives:,} of the {len(part):,} {name} events have label 1; "
                "classification needs both labels in every part. Give a longer stream."
            )
    return label


def learn(x: Tensor, label: Tensor, split: Split, seed: int, progress: Progress = no_progress) -> Learned:
    """A decoder of embeddings ``[events, d]``, trained on one part and stopped by another."""
    train, val = (torch.from_numpy(part).to(x.device) for part in (split.train, split.val))
    groups = [train[label[train]], train[~label[train]]]
    luck = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        torch.manual_seed(seed)
        decoder = NodeDecoder(x.shape[1]).to(x.device)
        optimizer = torch.optim.Adam(decoder.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
        best, weights, waited = -np.inf, decoder.state_dict(), 0
        for _ in range(LOOKS):
            for drawn in _draws(groups, luck):
                logits = decoder(x[drawn])
                loss = binary_cross_entropy_with_logits(logits, label[drawn].float())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            reached = auc(decoder, x[val], label[val])
            waited += 1
            if reached > best:
                best, waited = reached, 0
                weights = {name: value.clone() for name, value in decoder.state_dict().items()}
            progress(1)
            if waited == PATIENCE:
                break
    decoder.load_state_dict(weights)
    return Learned(decoder.eval(), best)


def _draws(groups: list[Tensor], luck: torch.Generator) -> Tensor:
    """The rows of the next steps ``[steps, rows]``, half from each group."""
    size = (STEPS, STEP_ROWS // 2)
    halves = [g[torch.randint(len(g), size, generator=luck).to(g.device)] for g in groups]
    return torch.cat(halves, dim=1)


def auc(decoder: NodeDecoder, x: Tensor, label: Tensor) -> float:
    """The area under the curve that a decoder reaches."""
    found, truth = scores(decoder, x), label.cpu().numpy()
    return area_under_curve(found[truth], found[~truth])


@torch.no_grad()
def scores(decoder: NodeDecoder, x: Tensor) -> NDArray[np.float32]:
    """The logit of label 1 for embeddings ``[n, d]``, without dropout; the decoder stays in its mode."""
    was = decoder.training
    found: NDArray[np.float32] = decoder.eval()(x).cpu().numpy()
    decoder.train(was)
    return found


def standardised(x: NDArray[np.float32], train: NDArray[np.int64]) -> NDArray[np.float32]:
    """Columns with mean 0 and deviation 1 over the training rows; a constant column becomes 0."""
    mean, spread = x[train].mean(axis=0), x[train].std(axis=0)
    scaled: NDArray[np.float32] = (x - mean) / np.where(spread > 1e-6, spread, np.float32(np.inf))
    return scaled


def decode(
    setting: Setting, label: NDArray[np.bool_], seeds: int
) -> tuple[list[Learned], NDArray[np.float32]]:
    """A decoder for each seed, and their logits of the test events ``[seeds, test events]``."""
    stream, split = setting.stream, setting.split
    with setting.bar("embedding", len(stream)) as progress:
        embedded = source_embeddings(setting, progress)
    check_scores(stream, np.arange(len(stream)), embedded)
    x = torch.from_numpy(standardised(embedded, split.train)).to(setting.history.device)
    truth = torch.from_numpy(label).to(x.device)
    with setting.bar("decoders", seeds * LOOKS) as progress:
        learned = [learn(x, truth, split, seed, progress) for seed in range(seeds)]
    test = x[torch.from_numpy(split.test).to(x.device)]
    return learned, np.stack([scores(one.decoder, test) for one in learned])


def measure(setting: Setting, seeds: int = 5) -> ClassifyResult:
    """AUC of the test events' labels, mean and deviation over ``seeds`` decoders."""
    if seeds < 1:
        raise ConfigError(f"seeds={seeds}: at least one decoder must be trained.")
    stream, split = setting.stream, setting.split
    label = check_labels(stream, split)
    learned, found = decode(setting, label, seeds)
    inductive = setting.model.inductive
    protocol = ClassifyProtocol.of(
        "classify",
        split.holdout,
        inductive=inductive,
        decoder="three layers on the source's embedding just before the event, the model frozen",
        balance=BALANCE,
        decoder_seeds=seeds,
        stopped_by="AUC of the validation events",
    )
    report = classify_report(stream, split, label, found, inductive=inductive)
    return ClassifyResult(
        protocol=protocol,
        labels=_label_parts(split, label),
        validation=_over_seeds(tuple(one.validation for one in learned)),
        transductive=report.transductive,
        inductive=report.inductive,
    )


class LabelReport(NamedTuple):
    """AUC of the events of known and of new sources."""

    transductive: LabelMetrics
    inductive: LabelMetrics


def classify_report(
    stream: EventStream,
    split: Split,
    label: NDArray[np.bool_],
    found: NDArray[np.float32],
    *,
    inductive: bool = True,
) -> LabelReport:
    """AUC over seeds ``[seeds, test events]`` of the protocol's selections, by what is known of the source.

    ``transductive`` is every event under the rule ``tgn`` and those of sources seen in training under the
    rule ``paper``; ``inductive`` are those of new sources. Where one label is missing there is no AUC.
    Of a model that is not ``inductive`` the events of new sources are left out, and only counted.
    """
    new, truth = split.new_nodes[stream.src[split.test]], label[split.test]
    known = only_known_nodes(split.holdout, inductive)

    def metrics(rows: NDArray[np.bool_], measured: bool = True) -> LabelMetrics:
        counts = _counts(truth[rows])
        if not measured or counts.positives in (0, counts.events):
            return LabelMetrics(**vars(counts))
        each = tuple(area_under_curve(one[rows & truth], one[rows & ~truth]) for one in found)
        return LabelMetrics(**vars(_over_seeds(each)), **vars(counts))

    return LabelReport(metrics(~new if known else np.ones_like(new)), metrics(new, measured=inductive))


def _label_parts(split: Split, label: NDArray[np.bool_]) -> LabelParts:
    return LabelParts(
        train=_counts(label[split.train]),
        validation=_counts(label[split.val]),
        test=_counts(label[split.test]),
    )


def _counts(label: NDArray[np.bool_]) -> LabelCounts:
    return LabelCounts(events=len(label), positives=int(label.sum()))


def _over_seeds(values: tuple[float, ...]) -> SeedMetrics:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return SeedMetrics(auc=float(np.mean(values)), auc_std=deviation, auc_seeds=values)
