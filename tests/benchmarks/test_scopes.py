"""Scopes are compared on graphs of the sizes that the settings allow, late in their streams."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from contig.benchmarks import scopes
from contig.benchmarks.bench import Bench, run_config
from contig.models.bases.memory import MemoryModel
from contig.training.session import Session


def test_each_size_is_compared_with_each_other_scope(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "NODES", (60, 200, 5000))
    small = Bench(bench.data, replace(bench.settings, events=2000))
    rows = list(scopes.measure_scopes(small))
    assert [(row.what.rpartition(", ")[2], row.peer_name) for row in rows] == [
        (f"{nodes} nodes", f"ours, scope {scope}") for nodes in (60, 200) for scope in ("pair", "all")
    ]
    assert all(row.ratio is not None and row.ratio > 0 for row in rows)


def test_near_is_compared_with_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def time_steps(sides: tuple[scopes.LateSteps, ...], *_: object) -> list[list[float]]:
        compared.extend(side.session.config.model_options.scope for side in sides)
        return [[1.0], [1.0]]

    monkeypatch.setattr(scopes, "NODES", (60,))
    monkeypatch.setattr(scopes, "time_steps", time_steps)
    list(scopes.measure_scopes(bench))
    assert compared == ["near", "pair", "near", "all"]


@pytest.mark.parametrize("scope", ["near", "all"])
def test_the_earlier_events_are_entered_as_if_they_had_been_observed(bench: Bench, scope: str) -> None:
    config = run_config("contig", bench.settings, scope=scope)
    entered, observed = Session(bench.data, config), Session(bench.data, config)
    steps = len(entered.steps) // 2
    for session in (entered, observed):
        session.begin_epoch()
    for _ in range(steps):
        observed.train_step()
    assert isinstance(entered.model, MemoryModel)
    earlier = entered.walker.schedule.events[: steps * config.train.batch_size]
    scopes.enter_latest(entered, entered.model, earlier)
    for name in {"last", "named"} & entered.state.rows.keys():
        assert torch.equal(entered.state[name], observed.state[name]), name


def test_the_last_steps_of_an_epoch_are_taken_by_a_state_that_knows_those_before(bench: Bench) -> None:
    config = run_config("contig", bench.settings, scope="near")
    late, whole = scopes.LateSteps(Session(bench.data, config), 3), Session(bench.data, config)
    whole.begin_epoch()
    for _ in range(late.start):
        whole.train_step()
    for _ in range(2):  # a second rewind starts from the same state
        late.rewind()
        for name in ("last", "named"):
            assert torch.equal(late.session.state[name], whole.state[name]), name
        late.advance(3)
        assert late.session.progress.step == len(bench.data.split.train) // config.train.batch_size
