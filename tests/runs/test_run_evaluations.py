"""Tasks asked of a run: they walk on from its validation, and say how they measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trained import TINY, tiny_stream

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.data.synthetic import synthetic
from contig.errors import ConfigError, DataError
from contig.history import History
from contig.kernels.devices import hardware
from contig.models import NodeState
from contig.runs.run import Run
from contig.tasks import label_decoding
from contig.tasks.ranking import Ranker
from contig.tasks.recommend import recommend_report
from contig.training.fit import fit

ABOUT = {"schema", "contig", "model", "data", "seed", "hardware", "protocol", "batch_size"}
SELECTIONS = {"transductive", "inductive", "old_old", "new_old", "new_new"}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    stream = synthetic(600, sources=40, destinations=9, seed=3, dropout=0.9)
    return fit(stream, out=tmp_path_factory.mktemp("runs") / "labelled", epochs=1, show=False, **TINY)


def test_ranks_walk_on_from_validation(run: Run) -> None:
    found = run.evaluate("recommend")
    split = chronological_split(run.stream)
    state = NodeState(run.model.blank(), run.stream.num_nodes)
    state.restore(run.folder.load("best.pt")["state"])
    assert state.position == split.test[0]
    ranker = Ranker(run.model, state, History.from_stream(run.stream), 30, Negatives(run.stream))
    expected = recommend_report(run.stream, split, split.test, ranker(split.test))
    assert found.result.each() == expected.each()
    assert set(found.as_dict()) == ABOUT | SELECTIONS
    assert found.result.protocol.holdout == "tgn"
    assert found.facts.seed == run.config.train.seed
    assert found.facts.hardware == hardware(run.history.device)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("recommend", {}),
        ("recommend", {"as_of": "batch"}),
        ("recommend", {"candidates": 3}),
        ("intervals", {"negatives": "historical"}),
        ("classify", {"seeds": 2}),
    ],
)
def test_evaluations_are_deterministic_and_change_nothing(
    task: str, options: dict[str, Any], labelled: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_decoding, "VALIDATIONS", 3)
    before = labelled.embed()
    first = labelled.evaluate(task, **options)
    assert first.result.protocol.task == task
    assert set(first.as_dict()) >= ABOUT
    assert Run.open(labelled.path).evaluate(task, **options) == first
    np.testing.assert_array_equal(labelled.embed(), before)


def test_batches_are_part_of_the_result(run: Run) -> None:
    small = run.evaluate("recommend", batch_size=7)
    assert small.facts.batch_size == 7
    assert small.result.transductive != run.evaluate("recommend").result.transductive


@pytest.mark.parametrize("rule", ["edgebank", "popularity", "recency"])
def test_rules_are_measured_beside_models(rule: str, run: Run, tmp_path: Path) -> None:
    one = fit(run.stream, rule, out=tmp_path / rule, show=False, batch_size=TINY["batch_size"])
    found, model = one.evaluate("recommend"), run.evaluate("recommend")
    assert found.facts.model == rule
    assert found.result.protocol == model.result.protocol
    assert found.result.transductive.events == model.result.transductive.events
    assert 0 < found.result.transductive.mrr < 1
    assert one.evaluate("intervals").result.intervals == run.evaluate("intervals").result.intervals
    with pytest.raises(DataError, match="no labels"):
        one.evaluate("classify")


def test_a_planted_habit_is_found() -> None:
    """Everybody has one destination for good: the rule of recency ranks it first once it is known."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, 12, 400)
    stream = EventStream.from_arrays(src, 100 + src, np.arange(400))
    found = fit(stream, "recency", show=False, holdout="paper", batch_size=10).evaluate("recommend")
    assert found.result.transductive.mrr == 1
    shared = fit(stream, "recency", show=False, holdout="paper", batch_size=10)
    assert shared.evaluate("recommend", as_of="batch").result.transductive.mrr == 1
    popular = fit(stream, "popularity", show=False, holdout="paper").evaluate("recommend")
    assert popular.result.transductive.mrr < 0.5


def test_options_of_another_task_are_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match="option of the task recommend 'negatives'"):
        run.evaluate("recommend", negatives="random")
    assert tiny_stream().label is None
    with pytest.raises(DataError, match="tiny has no labels"):
        run.evaluate("classify")
