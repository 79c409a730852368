"""Our side of a race: sessions that train, scorers that walk, and both without what makes them fast."""

from __future__ import annotations

import numpy as np
import torch

from contig.benchmarks.timing import seconds
from contig.data.negatives import Negatives
from contig.models import NodeState
from contig.tasks.link import LinkScorer
from contig.training.session import Session


class Training:
    """Trains through the first epoch, again and again; what was compiled stays.

    A session draws the negatives of an epoch at once. So does ``rewind``, and every step is charged its
    share of the time that takes.
    """

    def __init__(self, session: Session, *, plain: bool = False) -> None:
        self.session, self.upfront = session, 0.0
        if plain:
            session.walker.captured.capturable = False  # nothing captured, nothing packed

    def rewind(self) -> None:
        self.session.begin_epoch()
        draw = self.session.draw_negatives
        draw()  # the first one allocates and compiles
        self.upfront = seconds(draw, self.session.data.device) / len(self.session.steps)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self.session.train_step()


class Scoring:
    """Scores and observes the whole stream from its first event on, up to ``last`` batches."""

    upfront = 0.0

    def __init__(self, session: Session, last: int) -> None:
        data, self.size = session.data, session.config.train.batch_size
        self.state: NodeState = session.model.new_state(data.stream.num_nodes)
        self.events = np.arange(min(last * self.size, len(data.stream)))
        at = torch.from_numpy(self.events).to(data.device)
        drawn = Negatives(data.stream, seed=0, device=data.device)
        self.negative = drawn.draw(at, data.history.events["src"][at])
        self.scorer = LinkScorer(session.model, self.state, data.history, self.size)
        self.step = 0
        if data.device.type == "cuda":  # one walk over all of it tells how much room the batches need
            self.scorer(self.events, self.negative)

    def rewind(self) -> None:
        self.step = 0
        self.state.reset()

    def advance(self, steps: int) -> None:
        part = slice(self.step * self.size, (self.step + steps) * self.size)
        self.scorer(self.events[part], self.negative[part])
        self.step += steps
