"""Decoders that predict the labels of events from embeddings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.data.splits import Split
from contig.layers import NodeDecoder
from contig.models.contract import EventBatch
from contig.streaming.walker import Progress, Walker, no_progress
from contig.tasks.context import EvaluationContext
from contig.tasks.metrics import area_under_curve
from contig.tasks.selections import check_finite

STEP_ROWS = 256  # half of them positive
STEPS = 100  # between two validations
PATIENCE = 8  # validations without a better AUC
VALIDATIONS = 60  # at most
LR = 1e-3
WEIGHT_DECAY = 1e-4  # without it a few dozen positives are memorized


class TrainedDecoder(NamedTuple):
    """A decoder at its best validation, and the AUC there."""

    decoder: NodeDecoder
    validation: float


def decode_test_events(
    context: EvaluationContext, label: NDArray[np.bool_], seeds: int
) -> tuple[list[TrainedDecoder], NDArray[np.float32]]:
    """Train a decoder for each seed, and return their logits ``[seeds, test events]`` too."""
    stream, split = context.data.stream, context.data.split
    with context.progress_bar("embedding", len(stream)) as progress:
        embedded = source_embeddings(context, progress)
    check_finite(stream, np.arange(len(stream)), embedded)
    x = torch.from_numpy(standardized(embedded, split.train)).to(context.data.history.device)
    truth = torch.from_numpy(label).to(x.device)
    with context.progress_bar("decoders", seeds * VALIDATIONS) as progress:
        trained = [train_decoder(x, truth, split, seed, progress) for seed in range(seeds)]
    test = x[torch.from_numpy(split.test).to(x.device)]
    return trained, np.stack([decoder_logits(one.decoder, test) for one in trained])


def source_embeddings(context: EvaluationContext, progress: Progress = no_progress) -> NDArray[np.float32]:
    """Embed every event's source just before the event ``[events, d]``, walking the whole stream."""
    model, data = context.model, context.data
    history = data.history
    state = model.new_state(data.stream.num_nodes, on_host=history.on_host)

    def embed(batch: EventBatch) -> Tensor:
        return model.embed(state, history, batch.src, batch.t, batch.as_of)

    walker = Walker(model, state, history, context.batch_size, embed)
    return walker.read_all(np.arange(len(data.stream)), progress)


def standardized(x: NDArray[np.float32], train: NDArray[np.int64]) -> NDArray[np.float32]:
    """Scale columns to mean 0 and deviation 1 over the training rows; a constant column becomes 0."""
    mean, spread = x[train].mean(axis=0), x[train].std(axis=0)
    scaled: NDArray[np.float32] = (x - mean) / np.where(spread > 1e-6, spread, np.float32(np.inf))
    return scaled


def train_decoder(
    x: Tensor, label: Tensor, split: Split, seed: int, progress: Progress = no_progress
) -> TrainedDecoder:
    """Train a decoder of embeddings ``[events, d]`` on the training events; validation AUC stops it."""
    train, val = (torch.from_numpy(part).to(x.device) for part in (split.train, split.val))
    groups = [train[label[train]], train[~label[train]]]
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
        torch.manual_seed(seed)
        decoder = NodeDecoder(x.shape[1]).to(x.device)
        optimizer = torch.optim.Adam(decoder.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
        best, weights, waited = -np.inf, decoder.state_dict(), 0
        for _ in range(VALIDATIONS):
            for rows in _balanced_rows(groups, generator):
                logits = decoder(x[rows])
                loss = binary_cross_entropy_with_logits(logits, label[rows].float())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            reached = decoder_auc(decoder, x[val], label[val])
            waited += 1
            if reached > best:
                best, waited = reached, 0
                weights = {name: value.clone() for name, value in decoder.state_dict().items()}
            progress(1)
            if waited == PATIENCE:
                break
    decoder.load_state_dict(weights)
    return TrainedDecoder(decoder.eval(), best)


def _balanced_rows(groups: list[Tensor], generator: torch.Generator) -> Tensor:
    """Draw the rows of the next steps ``[steps, rows]``, half from each group."""
    size = (STEPS, STEP_ROWS // 2)
    halves = [g[torch.randint(len(g), size, generator=generator).to(g.device)] for g in groups]
    return torch.cat(halves, dim=1)


def decoder_auc(decoder: NodeDecoder, x: Tensor, label: Tensor) -> float:
    """Return the area under the ROC curve that a decoder reaches."""
    logits, truth = decoder_logits(decoder, x), label.cpu().numpy()
    return area_under_curve(logits[truth], logits[~truth])


@torch.no_grad()
def decoder_logits(decoder: NodeDecoder, x: Tensor) -> NDArray[np.float32]:
    """Return the logit of label 1 for embeddings ``[n, d]``, without dropout; the decoder keeps its mode."""
    was = decoder.training
    logits: NDArray[np.float32] = decoder.eval()(x).cpu().numpy()
    decoder.train(was)
    return logits
