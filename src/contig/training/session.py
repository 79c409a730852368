"""Everything that moves while a model trains, in one place that can be saved and restored."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import Split, chronological_split
from contig.errors import RunError
from contig.history import History
from contig.models import EventBatch, Model, model_class
from contig.runs.config import RunConfig, build_model
from contig.runs.options import TrainOptions
from contig.streaming.capture import Captured, Compiled
from contig.streaming.packing import crowds, fits, room_above
from contig.streaming.schedule import Course, Step
from contig.tasks.link import LinkScorer, score_batch
from contig.training.optimizer import FlatAdam

log = logging.getLogger("contig")

PAYS_AFTER = 10_000  # steps
DRAWN_AT_ONCE = 2**16  # events whose negatives are drawn in one call; bounds its memory


@dataclass(frozen=True)
class Data:
    """A stream made ready for training on one device."""

    stream: EventStream
    split: Split
    history: History  # of the whole stream
    training: History  # of the training events alone
    device: torch.device

    @classmethod
    def prepare(cls, stream: EventStream, config: RunConfig, device: torch.device) -> Data:
        split = chronological_split(stream, holdout=config.train.holdout, seed=config.train.split_seed)
        for name, part in (("training", split.train), ("validation", split.val), ("test", split.test)):
            if not len(part):
                hidden = name == "training" and split.holdout == "tgn"
                cure = ", or holdout=paper to keep every early event for training" if hidden else ""
                raise RunError(
                    f"{stream.origin}: the {name} part is empty ({len(stream):,} events in all); "
                    f"give a longer stream{cure}."
                )
        known = ~split.new_nodes
        needed = split.holdout == "paper" or not model_class(config.model).inductive
        if needed and not np.any(known[stream.src[split.val]] & known[stream.dst[split.val]]):
            cure = "use holdout=tgn, which counts every validation event"
            if split.holdout == "tgn":
                cure = f"{config.model} knows no others; use holdout=paper or another model"
            raise RunError(
                f"{stream.origin}: no validation event is between two nodes seen in training, so no epoch "
                f"can be told from another; {cure}."
            )
        on_host = config.train.graph_on_host(device)
        history = History.from_stream(stream, "cpu" if on_host else device)
        training = history.only(split.train)
        if on_host:
            history = history.pinned(device)
            training = training.pinned(device, history.events)
        return cls(stream, split, history, training, device)


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0  # epochs that are done
    step: int = 0  # steps of the one under way that are done
    loss: float = 0.0  # summed over those steps
    train_seconds: float = 0.0  # spent on them, before an interruption too
    best_ap: float = -math.inf
    best_epoch: int = 0  # counted from 1, as people and files do; 0 before the first is done
    patience_from: int = 0  # the epoch in which it was last asked to go on
    log: list[dict[str, Any]] = field(default_factory=list)  # one row per finished epoch


class Session:
    """A model in training: weights, optimizer, state, generators and progress."""

    def __init__(self, data: Data, config: RunConfig) -> None:
        self.data, self.config = data, config
        torch.manual_seed(config.train.seed)
        self.model = build_model(config, data.stream).to(data.device)
        self.state = self.model.new_state(data.stream.num_nodes, on_host=data.history.on_host)
        self.progress = Progress()
        # Known destinations only: one that first appears later must not be learned from.
        train = data.split.train
        known = np.unique(data.stream.dst[train])
        self.negatives = Negatives(
            data.stream, destinations=known, events=train, seed=config.train.seed, device=data.device
        )
        size = config.train.batch_size
        self._course = Course(len(train), size, data.device)
        self._course.lay(train, data.training)
        self._negative = torch.zeros((len(train), 1), dtype=torch.int64, device=data.device)
        self._drawn = False  # whether those are the negatives of the epoch under way
        fixed = self.model.fixed_shapes
        fast = fixed and compiling(config.train, data.device, len(self.steps))
        self.optimizer = _adam(self.model, config.train, fast) if self.model.learns else None
        self._loss, self._observe = Compiled(self._loss_of, fast), Compiled(self._observe_events, fast)
        self._crowd: int | None = None
        self._step = Captured(
            self._learn_and_observe, self._learn_and_observe_plainly, data.device, fixed_shapes=fixed
        )
        self.scorer = LinkScorer(self.model, self.state, data.history, size)

    @property
    def steps(self) -> list[Step]:
        """The batches of an epoch."""
        return self._course.steps

    def begin_epoch(self) -> None:
        """Forget what was observed, and the negatives; weights stay."""
        if self.progress.epoch == 0:
            self.model.prepare(self.data.training)
        self.state.reset()
        self._drawn = False
        self.progress.step, self.progress.loss, self.progress.train_seconds = 0, 0.0, 0.0

    def draw_negatives(self) -> None:
        """Draw the negatives of a whole epoch: on a GPU that tells how much room its batches need."""
        self._before_draw = self.negatives.generator.get_state()
        history, course = self.data.training, self._course
        src, places = history.events["src"], self._negative.split(DRAWN_AT_ONCE)
        for part, place in zip(course.events.split(DRAWN_AT_ONCE), places, strict=True):
            place.copy_(self.negatives.draw(part, src[part]))
        self._counts = crowds(self.model, history, course.events, self._negative, course.batch_size)
        self._crowd = self._crowd or room_above(self._counts)
        self._drawn = True

    def train_step(self) -> Tensor:
        """Score the next batch, learn from it, then observe it.

        Gives the loss, still on the device and only until the next step.
        """
        if not self._drawn:
            self.draw_negatives()
        number = self.progress.step
        self.model.train()
        regular = self._course.regular(number) and fits(self._counts, number, self._crowd)
        loss = self._step(number, regular=regular)
        see = self.steps[number].see
        self.state.position = int(self.data.split.train[see - 1]) + 1 if see else 0
        self.progress.step += 1
        return loss

    def _learn_and_observe(self, number: Tensor) -> Tensor:
        with self.model.within(self._crowd):
            return self._walk(self._loss, self._observe, number)

    def _learn_and_observe_plainly(self, number: int) -> Tensor:
        return self._walk(self._loss_of, self._observe_events, number)

    def _walk(
        self,
        loss_of: Callable[[Any], Tensor],
        observe: Callable[[Any], Tensor],
        number: int | Tensor,
    ) -> Tensor:
        """Learn from the batch of this number, and then observe what lies before the next one."""
        assert self.optimizer is not None
        self.optimizer.clear()
        loss = loss_of(number)
        loss.backward()
        self.optimizer.step()
        observe(number)
        return loss.detach()

    @torch.no_grad()
    def _observe_events(self, number: int | Tensor) -> Tensor:
        seen = self._course.seen(number)
        self.model.observe(self.state, self.data.training, EventBatch.of(self.data.training, seen))
        return seen

    def _loss_of(self, number: int | Tensor) -> Tensor:
        places = self._course.asked(number)
        batch = EventBatch.of(self.data.training, self._course.events[places])
        negative = self._negative[places]
        logits = score_batch(self.model, self.state, self.data.training, batch, negative)
        truth = torch.zeros_like(logits)
        truth[:, 0] = 1
        loss = binary_cross_entropy_with_logits(logits, truth)
        penalty = self.model.penalty(self.state, self.data.training, batch.t[0])
        return loss if penalty is None else loss + penalty

    # -- saving ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain values and tensors."""
        return {
            "weights": self.model.state_dict(),
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "state": self.state.snapshot(),
            "generators": {
                "torch": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state(self.data.device)
                if self.data.device.type == "cuda"
                else None,
                "negatives": self._negatives_state(),
            },
            "progress": vars(self.progress).copy(),
        }

    def _negatives_state(self) -> Tensor:
        """Inside an epoch the generator as it was before the epoch's draw, which is then done again."""
        return self._before_draw if self.progress.step else self.negatives.generator.get_state()

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from a snapshot as if nothing had happened."""
        on_gpu = self.data.device.type == "cuda"
        self.model.load_state_dict(saved["weights"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(saved["optimizer"])
        self.state.restore(saved["state"])
        self.progress, self._drawn = Progress(**saved["progress"]), False
        generators = saved["generators"]
        torch.set_rng_state(generators["torch"].cpu())
        if on_gpu != (generators["cuda"] is not None):
            log.warning("The run changes its kind of device: it goes on with other random numbers.")
            self.negatives.generator.manual_seed(self.config.train.seed + 1 + self.progress.epoch)
            return
        if on_gpu:
            torch.cuda.set_rng_state(generators["cuda"].cpu(), self.data.device)
        self.negatives.generator.set_state(generators["negatives"].cpu())
        if self.progress.step:  # the draw of the epoch under way, which moves the generator on
            self.draw_negatives()


def _adam(model: Model, options: TrainOptions, compiled: bool) -> FlatAdam:
    return FlatAdam(
        model, lr=options.lr, weight_decay=options.weight_decay, clip=options.clip, compiled=compiled
    )


def compiling(options: TrainOptions, device: torch.device, steps: int) -> bool:
    """Whether this training gains from compiling: it costs about as much as ``PAYS_AFTER`` steps save."""
    if device.type != "cuda":
        return False
    if options.compile == "auto":
        return steps * options.epochs >= PAYS_AFTER
    return options.compile == "on"
