"""Every check passes on a sound model and fails on one that breaks its part of the contract."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import contig
from contig.errors import ConfigError
from contig.history import History
from contig.models import DataShape, EventBatch, Model, NodeState
from contig.runs.folder import RunFolder
from contig.testing import CHECKS, Check, ModelCase, check_model, contract, training
from contig.training import loop

OUTSIDE = Path(__file__).parents[1] / "outside"
CHECK_OF = {check.__name__.removeprefix("check_"): check for check in CHECKS}


@pytest.fixture(autouse=True)
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "draw_curve", lambda session, folder: None)


@dataclass(frozen=True)
class SoundOptions:
    """Options of Sound."""

    dim: int = contig.option(4, "width of embeddings", low=1)


class Sound(Model):
    """Counts events per node and embeds the count and the ages of the last events."""

    name = "sound"
    options = SoundOptions

    def __init__(self, options: SoundOptions, data: DataShape) -> None:
        super().__init__()
        self.layer = nn.Linear(4, options.dim)
        self.dropout = nn.Dropout(0.5)

    def blank(self) -> Mapping[str, Tensor]:
        return {"count": torch.zeros(1)}

    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        near = history.before(nodes, times, 3)
        ages = torch.where(near.mask, 1 / (1 + times.unsqueeze(1) - near.time), 0).float()
        embedded: Tensor = self.layer(self.dropout(torch.cat([ages, state["count"][nodes].log1p()], dim=1)))
        return embedded

    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        ends = torch.cat([batch.src, batch.dst])
        state["count"].index_add_(0, ends, torch.ones(len(ends), 1))


# -- models that break one thing each ------------------------------------------------------------------------


class NeedsEdgeFeatures(Sound):
    def __init__(self, options: SoundOptions, data: DataShape) -> None:
        super().__init__(options, data)
        self.log_width = torch.tensor(float(data.edge_width)).log()

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        return super().score(src, dst) + self.log_width


class Detached(Sound):
    def embed(self, *arguments: Any) -> Tensor:
        return super().embed(*arguments).detach()


class Unreachable(Sound):
    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        return 0 * super().score(src, dst)


class LearnsInSecret(Sound):
    learns = False


class NothingToLearn(Sound):
    def __init__(self, options: SoundOptions, data: DataShape) -> None:
        super().__init__(options, data)
        self.requires_grad_(False)


class CountsReads(Sound):
    def embed(self, state: NodeState, history: History, nodes: Tensor, *rest: Any) -> Tensor:
        found = super().embed(state, history, nodes, *rest)
        state["count"][nodes] += 1
        return found


class CachesInTheHistory(Sound):
    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        history.events["features"].add_(1)
        return super().embed(state, history, *rest)


class CountsQueries(Sound):
    def __init__(self, options: SoundOptions, data: DataShape) -> None:
        super().__init__(options, data)
        self.register_buffer("queries", torch.tensor(0))

    def embed(self, *arguments: Any) -> Tensor:
        self.queries += 1  # type: ignore[operator]
        return super().embed(*arguments)


class DrawsAtRandom(Sound):
    def embed(self, *arguments: Any) -> Tensor:
        found = super().embed(*arguments)
        return found + torch.rand_like(found)


class WastesRandomNumbers(Sound):
    def embed(self, *arguments: Any) -> Tensor:
        torch.rand(1)
        return super().embed(*arguments)


class LinksDifferently(Sound):
    def link(self, *arguments: Any) -> Tensor:
        return super().link(*arguments) + 1


class RanksDifferently(Sound):
    def score_all(self, src: Tensor, dst: Tensor) -> Tensor:
        return super().score_all(src, dst).flip(1)


class NumbersQueries(Sound):
    def embed(self, *arguments: Any) -> Tensor:
        found = super().embed(*arguments)
        return found + torch.arange(len(found)).unsqueeze(1)


class NeedsQueries(Sound):
    def embed(self, state: NodeState, history: History, nodes: Tensor, *rest: Any) -> Tensor:
        return super().embed(state, history, nodes, *rest) - nodes.min()


class Divides(Sound):
    def embed(self, state: NodeState, history: History, nodes: Tensor, *rest: Any) -> Tensor:
        return super().embed(state, history, nodes, *rest) / state["count"][nodes]


class KnowsNumbers(Sound):
    def embed(self, state: NodeState, history: History, nodes: Tensor, *rest: Any) -> Tensor:
        return super().embed(state, history, nodes, *rest) + nodes.unsqueeze(1)


class WritesToTheHistory(Sound):
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        super().observe(state, history, batch)
        history.events["features"][batch.event] = 0


class KeepsGradients(Sound):
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        ends = torch.cat([batch.src, batch.dst])
        added = self.layer.bias.sum().expand(len(ends), 1)
        state.rows["count"] = state["count"].index_add(0, ends, added)


class LearnsWhileObserving(Sound):
    @torch.no_grad()
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        super().observe(state, history, batch)
        self.layer.bias += 0.1


class HasAnUnusedRow(Sound):
    def blank(self) -> Mapping[str, Tensor]:
        return {**super().blank(), "unused": torch.zeros(2)}


class CountsBatches(Sound):
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        state["count"].add_(1)


class DropsOutOfTheState(Sound):
    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        super().observe(state, history, batch)
        state["count"].copy_(self.dropout(state["count"]))


class CountsPadding(Sound):
    fixed_shapes = True


class SeesTheLengthOfTheStream(Sound):
    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        return super().embed(state, history, *rest) * history.num_events


class RemembersInAnAttribute(Sound):
    observed = 0

    def observe(self, state: NodeState, history: History, batch: EventBatch) -> None:
        super().observe(state, history, batch)
        self.observed += len(batch.event)

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        return super().score(src, dst) + self.observed


class AveragesOverNodes(Sound):
    def embed(self, state: NodeState, history: History, *rest: Any) -> Tensor:
        return super().embed(state, history, *rest) - state["count"].mean()


class Table(Sound):
    def __init__(self, options: SoundOptions, data: DataShape) -> None:
        super().__init__(options, data)
        self.table = nn.Embedding(data.num_nodes, options.dim)

    def embed(self, state: NodeState, history: History, nodes: Tensor, *rest: Any) -> Tensor:
        return super().embed(state, history, nodes, *rest) + self.table(nodes)


class NeverLearnsOfNewNodes(Sound):
    def embed(self, state: NodeState, history: History, nodes: Tensor, *rest: Any) -> Tensor:
        return super().embed(state, history, nodes, *rest) * (nodes < 3).unsqueeze(1)


class LooksAtTimeAlone(Sound):
    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        return self.layer(times.float().unsqueeze(1).expand(-1, 4))


class ReadsTheQueryTime(Sound):
    def embed(
        self, state: NodeState, history: History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        return super().embed(state, history, nodes, times + 1, as_of)


class CountsEpochs(Sound):
    """Starts over when a run is resumed."""

    steps = 0

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        self.steps += self.training
        return super().score(src, dst) * (1 + self.steps)


BROKEN: list[tuple[type[Model], str, str]] = [
    (NeedsEdgeFeatures, "builds_for_any_data", "With 0 edge features .* not finite"),
    (Detached, "trainable_parameters", "Scores carry no gradient"),
    (Unreachable, "trainable_parameters", "The gradients of all parameters are zero"),
    (LearnsInSecret, "trainable_parameters", r"learns is False, .* layer\.weight, layer\.bias"),
    (NothingToLearn, "trainable_parameters", "There are no parameters to train"),
    (CountsReads, "reading_changes_nothing", "answered differently the second time"),
    (CachesInTheHistory, "reading_changes_nothing", "changed the history"),
    (CountsQueries, "reading_changes_nothing", "changed the weights"),
    (DrawsAtRandom, "reading_changes_nothing", "answered differently the second time"),
    (WastesRandomNumbers, "reading_changes_nothing", "drew random numbers"),
    (LinksDifferently, "link_scores_embeddings", "link does not agree with score"),
    (RanksDifferently, "rank_agrees_with_link", "rank does not agree with link"),
    (NumbersQueries, "query_order_does_not_matter", "depend on the order of the queries"),
    (NeedsQueries, "no_queries", r"min\(\)"),
    (Divides, "empty_history", "some scores are not finite"),
    (KnowsNumbers, "empty_history", "pass identifies_nodes=True"),
    (WritesToTheHistory, "observing_changes_only_the_state", "observe changed the history"),
    (LearnsWhileObserving, "observing_changes_only_the_state", "observe changed the weights"),
    (KeepsGradients, "observing_changes_only_the_state", "carries gradients .count."),
    (HasAnUnusedRow, "observing_changes_only_the_state", "never changes these rows of the state: unused"),
    (CountsBatches, "observing_changes_declared_rows", "count of nodes that nodes_observed leaves out"),
    (CountsBatches, "observing_nothing", "Observing no events changed the state"),
    (DropsOutOfTheState, "training_mode_does_not_reach_the_state", "observe depends on the mode"),
    (CountsPadding, "padded_batches", "Observing the last event repeatedly changes count"),
    (SeesTheLengthOfTheStream, "live_events", "Live events are scored differently"),
    (CountsBatches, "events_in_pieces", "Events in pieces lead to another state .count."),
    (RemembersInAnAttribute, "saved_and_loaded", "A loaded model answers differently"),
    (AveragesOverNodes, "unseen_nodes", "changed when new nodes appeared"),
    (KnowsNumbers, "unseen_nodes", "unlike a node without events"),
    (Table, "unseen_nodes", "index out of range"),
    (NeverLearnsOfNewNodes, "new_node_takes_part", "pass frozen=True"),
    (LooksAtTimeAlone, "new_node_takes_part", "pass frozen=True"),
    (ReadsTheQueryTime, "future_changes_nothing", "answers changed"),
    (CountsEpochs, "training_resumes", "A resumed run ends with other weights"),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_sound_model_passes(check: Check) -> None:
    check(ModelCase(Sound))


@pytest.mark.parametrize(
    ("broken", "name", "problem"), BROKEN, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_model_is_found_out(broken: type[Model], name: str, problem: str) -> None:
    with pytest.raises((AssertionError, IndexError, RuntimeError), match=problem):
        CHECK_OF[name](ModelCase(broken))


def test_other_weights_after_the_last_epoch_are_found_out(tmp_path: Path) -> None:
    """The best epoch may be an earlier one, whose weights agree."""
    stream = contig.synthetic(200, seed=2)
    for name in ("whole", "part"):
        contig.fit(stream, Sound, out=tmp_path / name, epochs=1, show=False, device="cpu")
    training._check_last_weights(tmp_path / "whole", tmp_path / "part")
    folder = RunFolder(tmp_path / "part")
    saved = folder.load("checkpoint.pt")
    next(iter(saved["weights"].values())).view(-1)[0] += 1
    folder.save("checkpoint.pt", saved)
    with pytest.raises(AssertionError, match="last epoch"):
        training._check_last_weights(tmp_path / "whole", tmp_path / "part")


def test_a_model_from_outside_the_package_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(OUTSIDE)
    monkeypatch.delitem(sys.modules, "rhythm", raising=False)
    check_model("rhythm:Rhythm", {"dim": 6, "neighbors": 3})


def test_every_check_can_fail() -> None:
    assert {name for _, name, _ in BROKEN} == set(CHECK_OF)


def test_every_check_is_listed() -> None:
    defined = {name for name in vars(contract) if name.startswith("check_")}
    assert defined <= {check.__name__ for check in CHECKS}
    assert all(check.__doc__ for check in CHECKS)


def test_all_problems_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fast: tuple[Callable[[ModelCase], None], ...] = CHECKS[:-2]
    monkeypatch.setattr(contig.testing, "CHECKS", fast)
    check_model(Sound, {"dim": 3})
    with pytest.raises(AssertionError) as caught:
        check_model(Table)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"sound fails 3 of {len(fast)} checks:"
    assert [line.partition(":")[0] for line in lines[1:] if line.startswith("- ")] == [
        "- check_empty_history",
        "- check_unseen_nodes",
        "- check_new_node_takes_part",
    ]
    assert "IndexError: index out of range" in str(caught.value)


def test_a_wrong_option_is_reported_once_and_before_any_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contig.testing.CHECKS", (lambda case: pytest.fail("a check ran"),))
    with pytest.raises(contig.ConfigError, match="dim=0 must be at least 1"):
        check_model(Sound, {"dim": 0})


def test_a_failed_check_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_it(case: ModelCase) -> None:
        raise ValueError("first\nsecond")

    monkeypatch.setattr("contig.testing.CHECKS", (check_it,))
    with pytest.raises(AssertionError, match=r"checks:\n- check_it: ValueError: first$"):
        check_model(Sound)


def test_departures_are_declared() -> None:
    check = CHECK_OF["empty_history"]
    check(ModelCase(KnowsNumbers, identifies_nodes=True))
    CHECK_OF["new_node_takes_part"](ModelCase(NeverLearnsOfNewNodes, frozen=True))
    with pytest.raises(ConfigError, match="Unknown departure 'fixed'"):
        check_model(Sound, fixed=True)
