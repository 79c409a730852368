"""Everything that changes while a model trains, in one place that can be saved and restored."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contig.data.met_pairs import MetPairs
from contig.data.negatives import Negatives
from contig.errors import ConfigError
from contig.layers.losses import link_loss, met_pair_loss
from contig.models import EventBatch, Model, NodeState
from contig.ranks import Ranks, ranks
from contig.runs.config import RunConfig, build_model
from contig.runs.options import TrainOptions
from contig.runs.saved_model import check_tensors, restore_model
from contig.schema import encode
from contig.streaming.capture import has_fixed_shapes
from contig.streaming.packing import count_nodes
from contig.streaming.prepared import PreparedStream
from contig.streaming.schedule import Step
from contig.streaming.sharded import ShardedState, StateLayout
from contig.streaming.walker import Walker
from contig.tasks.link_scoring import LinkScorer, NegativePairs, score_batch
from contig.training.interruption import StopRequest
from contig.training.optimizer import FlatAdam
from contig.training.progress import Progress, read_generators, read_progress

log = logging.getLogger("contig")

COMPILING_PAYS_AFTER = 10_000  # steps
DRAWN_AT_ONCE = 2**16  # events whose negatives are drawn in one call; bounds its memory


class Session:
    """A model in training: weights, optimizer, state, generators and progress."""

    def __init__(self, data: PreparedStream, config: RunConfig, layout: StateLayout = "replicated") -> None:
        self.data, self.config, self.layout, self._ranks = data, config, layout, ranks()
        torch.manual_seed(config.train.seed)
        self.model = build_model(config, data.stream, data.time_scale).to(data.device)
        self.state = self._new_state(layout)
        self.progress = Progress()
        self.stop: StopRequest | None = None  # what the ranks agree on with the loss of each step
        self._save_due = self._save_agreed = False
        train, size = data.split.train, config.train.batch_size
        self.negatives = Negatives(
            data.stream,
            train=train if config.train.historical else None,
            destinations=data.stream.destinations_of(train),  # later ones must not be learned from
            events=train,
            seed=config.train.seed,
            device=data.device,
        )
        self._negative = torch.zeros(
            (data.training.num_events, _candidates(config.train)), dtype=torch.int64, device=data.device
        )
        self._met = _Met.of(data, train) if config.train.met_pairs and self.model.learns else None
        self._drawn = False  # whether those are the negatives of the current epoch
        compiled = should_compile(self.model, config.train, data.device, -(-len(train) // size))
        self.optimizer = _adam(self.model, config.train, compiled) if self.model.learns else None
        self.walker = Walker(
            self.model,
            self.state,
            data.training,
            size,
            read=self.loss,
            learn=self._learn,
            capacity=len(train),
            compiled=compiled,
        )
        self.walker.start(train)
        self.scorer = LinkScorer(self.model, self.state, data.history, size)

    def _new_state(self, layout: StateLayout) -> NodeState:
        """Create the state; a divided one lets each rank keep the rows of its own nodes only."""
        nodes, on_host = self.data.stream.num_nodes, self.data.history.on_host
        if layout == "sharded" and not self._ranks.alone:
            return ShardedState(self.model.blank(), nodes, self.model.device, self._ranks)
        on_disk = self.config.train.state_on_disk(self.data.device)
        if self.config.train.graph_in == "disk" and not on_disk:
            raise ConfigError("graph_in=disk is for training on a CPU; on a GPU use graph_in=host.")
        return self.model.new_state(nodes, on_host=on_host, on_disk=on_disk)

    def _separate_dropout(self) -> None:
        """Let each rank draw masks of its own; weights and negatives are the same on all of them."""
        if not self._ranks.first:
            torch.manual_seed(hash((self.config.train.seed, self._ranks.rank, self.progress.epoch)) % 2**63)

    @property
    def steps(self) -> list[Step]:
        """The batches of an epoch."""
        return self.walker.steps

    def begin_epoch(self) -> None:
        """Forget the observed events and the negatives; weights stay."""
        if self.progress.epoch == 0:
            self.model.prepare(self.data.training)  # may draw random numbers, the same on every rank
        self._separate_dropout()
        self.state.reset()
        self._drawn = False
        self.progress.step, self.progress.loss, self.progress.train_seconds = 0, 0.0, 0.0

    def draw_negatives(self) -> None:
        """Draw the negatives of a whole epoch, and count the nodes that its batches read."""
        self._generator_before_draw = self.negatives.generator.get_state()
        history, events, train = self.data.training, self.walker.schedule.events, self.config.train
        src, count, historical = history.events["src"], _candidates(train), train.historical
        for part in events.split(DRAWN_AT_ONCE):
            self._negative[part] = self.negatives.draw(part, src[part], count, historical=historical)
            if self._met is not None:
                self._met.draw(part, history.events["t"][part], self.negatives.generator)
        size, nodes = train.batch_size, self._negative[events]
        if self._met is not None:
            nodes = torch.cat([nodes, self._met.drawn.of(events).nodes], dim=1)
        # An epoch starts with a state that knows nothing; a resumed one must count the same nodes.
        self.walker.expect(count_nodes(self.model, None, history, events, nodes, size))
        self._drawn = True

    def train_step(self) -> Tensor:
        """Score the next batch, learn from it, then observe it.

        The loss stays on the device and is valid until the next step.
        """
        if not self._drawn:
            self.draw_negatives()
        self.model.train()
        loss = self.walker.step(self.progress.step)
        self.progress.step += 1
        return loss

    def loss(self, batch: EventBatch) -> Tensor:
        """Compute the cross-entropy of a batch's links and negatives, plus what options and the model add.

        Several ranks divide the batch; the sum of what they return is its loss.
        """
        batch, share = _own_part(batch, self._ranks)
        negative = self._negative[batch.event]
        logits = score_batch(self.model, self.state, self.data.training, batch, NegativePairs(negative))
        loss = link_loss(logits, self.config.train.loss)
        if self._met is not None:
            met = self._score_met(batch, self._met.drawn.of(batch.event))
            usable = self._met.usable[batch.event]
            loss = loss + self.config.train.met_pairs * met_pair_loss(logits[:, 0], met, usable)
        penalty = self.model.penalty(self.state, self.data.training, batch, negative)
        return share * (loss if penalty is None else loss + penalty)

    def _score_met(self, batch: EventBatch, met: NegativePairs) -> Tensor:
        """Return the logits ``[events]`` of the pairs that met before.

        They have a call of their own, because a call has as many candidates for each of its sources.
        """
        assert met.src is not None
        logits = self.model.link(
            self.state, self.data.training, met.src.squeeze(1), met.dst, batch.t, batch.as_of
        )
        return logits.squeeze(1)

    def _learn(self, loss: Tensor) -> Tensor:
        assert self.optimizer is not None
        self.optimizer.clear()
        loss.backward()
        if not self._ranks.alone:
            return self._learn_together(self.optimizer, loss.detach())
        self.optimizer.step()
        return loss.detach()

    def _learn_together(self, optimizer: FlatAdam, loss: Tensor) -> Tensor:
        """Take a step with the other ranks; agree on the loss, on stopping and on saving in one exchange."""
        flags = [float(self.stop is not None and self.stop.received), float(self._save_due)]
        values = torch.cat([loss.reshape(1), loss.new_tensor(flags)])
        total, stop, save = optimizer.step_and_sum(values).unbind()
        self._save_agreed = bool(save > 0)
        if self.stop is not None:
            self.stop.requested = bool(stop > 0)
        return total

    def should_save(self, due: bool) -> bool:
        """Return whether to save a checkpoint now; several ranks do so together, one step after it is due."""
        self._save_due = due and self._ranks.first
        return due if self._ranks.alone else self._save_agreed

    def averaged(self) -> AbstractContextManager[None]:
        """Return a context in which the model has the average of its weights, where one is kept."""
        return nullcontext() if self.optimizer is None else self.optimizer.averaged()

    # -- saving ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return everything that changes, as plain values and tensors."""
        on_gpu = self.data.device.type == "cuda"
        return {
            "weights": self.model.state_dict(),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "state": self.state.snapshot(),
            "generators": {
                "torch": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state(self.data.device) if on_gpu else None,
                "negatives": self._negatives_state(),
            },
            "progress": {**vars(self.progress), "log": encode(self.progress.log)},
        }

    def _negatives_state(self) -> Tensor:
        """Return the generator's state; within an epoch, the one before its draw, to repeat the draw."""
        return self._generator_before_draw if self.progress.step else self.negatives.generator.get_state()

    def restore(self, saved: dict[str, Any], path: Path = Path("checkpoint.pt")) -> None:
        """Continue from a snapshot; raise ``RunError`` if it does not fit. ``path`` names it in messages."""
        on_gpu = self.data.device.type == "cuda"
        parts = {"generators": dict, "progress": dict}
        restore_model(saved, self.model, self.state, len(self.data.stream), path, **parts)
        if self.optimizer is not None:
            check_tensors(self.optimizer.state_dict(), saved.get("optimizer"), path, "optimizer")
            self.optimizer.load_state_dict(saved["optimizer"])
        self.progress = read_progress(saved["progress"], len(self.steps), path)
        self._drawn = False
        generators = read_generators(saved["generators"], path)
        torch.set_rng_state(generators["torch"].cpu())
        if on_gpu != (generators["cuda"] is not None):
            log.warning("The run moves to another kind of device and continues with other random numbers.")
            self.negatives.generator.manual_seed(self.config.train.seed + 1 + self.progress.epoch)
            self._separate_dropout()
            return
        if on_gpu:
            torch.cuda.set_rng_state(generators["cuda"].cpu(), self.data.device)
        self._separate_dropout()
        self.negatives.generator.set_state(generators["negatives"].cpu())
        if self.progress.step:  # repeat the draw of the current epoch, which advances the generator
            self.draw_negatives()


class _Met(NamedTuple):
    """The pairs that met before, and those drawn for every event of the stream in the current epoch."""

    pairs: MetPairs
    drawn: NegativePairs
    usable: Tensor

    @classmethod
    def of(cls, data: PreparedStream, train: NDArray[np.int64]) -> _Met:
        """Let the training events be the meetings."""
        drawn = NegativePairs.blank(data.training, replace_source=True)
        usable = torch.zeros(len(drawn.dst), dtype=torch.bool, device=drawn.dst.device)
        return cls(MetPairs(data.stream, train, data.device), drawn, usable)

    def draw(self, events: Tensor, t: Tensor, generator: torch.Generator) -> None:
        """Draw those of some events."""
        uniform = torch.rand(len(t), dtype=torch.float64, device=t.device, generator=generator)
        found = self.pairs.draw(t, uniform)
        self.drawn.set(events, NegativePairs(found.dst.unsqueeze(1), found.src.unsqueeze(1)))
        self.usable[events] = found.usable


def _own_part(batch: EventBatch, here: Ranks) -> tuple[EventBatch, float]:
    """Return the part of a batch that this rank learns from, and its share of the batch."""
    if here.alone:
        return batch, 1.0
    count = len(batch.event)
    begin, end = here.bounds(count)
    return batch.part(slice(begin, end) if end > begin else slice(0, 1)), (end - begin) / count


def _candidates(options: TrainOptions) -> int:
    return options.negatives + options.historical


def _adam(model: Model, options: TrainOptions, compiled: bool) -> FlatAdam:
    if next(model.parameters(), None) is None:
        raise ConfigError(
            f"{type(model).__qualname__} has no parameters to train. Give it some, or set learns = False if "
            "it has nothing to learn."
        )
    return FlatAdam(
        model,
        lr=options.lr,
        weight_decay=options.weight_decay,
        clip=options.clip,
        averaging=options.averaging,
        compiled=compiled,
    )


def should_compile(model: Model, options: TrainOptions, device: torch.device, steps: int) -> bool:
    """Return whether to compile this training; by default where it saves more time than it takes."""
    if device.type != "cuda" or not has_fixed_shapes(model) or not ranks().alone:
        return False
    if options.compile == "auto":
        return steps * options.epochs >= COMPILING_PAYS_AFTER
    return options.compile == "on"
