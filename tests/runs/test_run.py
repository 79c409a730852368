"""Runs: opening them, and evaluating them by tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from support.sharing import ShareResult, ShareTask
from support.trained import TINY, tiny_stream

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.data.synthetic import synthetic
from contig.errors import ConfigError, DataError
from contig.history import History
from contig.kernels.devices import hardware
from contig.models import EventBatch, NodeState
from contig.runs.run import Run
from contig.tasks import label_decoding
from contig.tasks.context import EvaluationContext
from contig.tasks.link import LinkTask
from contig.tasks.link_negatives import draw_negatives
from contig.tasks.predictions import Measured
from contig.tasks.ranking import Ranker
from contig.tasks.recommend import recommend_report
from contig.training.fit import fit

FACTS = {"schema", "contig", "model", "data", "seed", "hardware", "protocol", "batch_size"}
SELECTIONS = {"transductive", "inductive", "old_old", "new_old", "new_new"}


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    stream = synthetic(600, sources=40, destinations=9, seed=3, dropout=0.9)
    return fit(stream, out=tmp_path_factory.mktemp("runs") / "labeled", epochs=1, show=False, **TINY)


def test_opening_restores_the_trained_model(run: Run) -> None:
    opened = Run.open(run.path)
    assert np.array_equal(opened.embed(), run.embed())
    assert not opened.model.training


def test_repr(run: Run) -> None:
    ap = 100 * run.metrics.transductive.ap
    assert repr(run) == f"Run('{run.path}': contig on tiny, 400 events, 32 nodes, test AP {ap:.2f})"


def test_tasks_continue_from_the_state_after_validation(run: Run) -> None:
    found = run.evaluate("recommend")
    split = chronological_split(run.stream)
    state = NodeState(run.model.blank(), run.stream.num_nodes)
    state.restore(run.folder.load("best.pt")["state"])
    assert state.position == split.test[0]
    ranker = Ranker(run.model, state, History.from_stream(run.stream), 30, Negatives(run.stream))
    expected = recommend_report(run.stream, split, split.test, ranker(split.test))
    assert found.result.each() == expected.each()
    assert set(found.as_dict()) == FACTS | SELECTIONS | {"all_events"}
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
    task: str, options: dict[str, Any], labeled: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_decoding, "VALIDATIONS", 3)
    monkeypatch.setattr(label_decoding, "STEPS", 5)
    before = labeled.embed()
    first = labeled.evaluate(task, **options)
    assert first.result.protocol.task == task
    assert set(first.as_dict()) >= FACTS
    assert Run.open(labeled.path).evaluate(task, **options) == first
    np.testing.assert_array_equal(labeled.embed(), before)


def test_ranks_depend_on_the_batch_size(run: Run) -> None:
    small = run.evaluate("recommend", batch_size=7)
    assert small.facts.batch_size == 7
    assert small.result.transductive != run.evaluate("recommend").result.transductive


@pytest.mark.parametrize("heuristic", ["edgebank", "popularity", "recency"])
def test_heuristics_are_measured_like_models(heuristic: str, run: Run, tmp_path: Path) -> None:
    protocol = {"batch_size": TINY["batch_size"], "holdout": "tgn"}
    one = fit(run.stream, heuristic, out=tmp_path / heuristic, show=False, **protocol)
    found, model = one.evaluate("recommend"), run.evaluate("recommend")
    assert found.facts.model == heuristic
    assert found.result.protocol == model.result.protocol
    assert found.result.transductive.events == model.result.transductive.events
    assert 0 < found.result.transductive.mrr < 1
    assert one.evaluate("intervals").result.intervals == run.evaluate("intervals").result.intervals
    with pytest.raises(DataError, match="no labels"):
        one.evaluate("classify")


def test_recency_ranks_a_fixed_habit_first() -> None:
    """Every source always meets the same destination."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, 12, 400)
    stream = EventStream.from_arrays(src, 100 + src, np.arange(400))
    recency = fit(stream, "recency", show=False, holdout="paper", batch_size=10)
    for as_of in ("event", "batch"):
        assert recency.evaluate("recommend", as_of=as_of).result.transductive.mrr == 1
    popular = fit(stream, "popularity", show=False, holdout="paper").evaluate("recommend")
    assert popular.result.transductive.mrr < 0.5


def test_options_of_another_task_are_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"Unknown option 'negatives' of the task recommend"):
        run.evaluate("recommend", negatives="random")
    assert tiny_stream().label is None
    with pytest.raises(DataError, match="tiny has no labels"):
        run.evaluate("classify")


def test_evaluation_repeats_the_result_of_training(run: Run, text_id_run: Run) -> None:
    for one in (run, text_id_run):
        metrics, again = one.metrics, Run.open(one.path).evaluate()
        assert (again.result, again.facts) == (metrics.result, metrics.facts)


def test_evaluation_does_not_depend_on_random_state(run: Run) -> None:
    torch.manual_seed(1)
    first = run.evaluate(negatives="historical")
    torch.manual_seed(2)
    run.embed(at=run.stream.t[77].item())
    assert run.evaluate(negatives="historical") == first
    assert first.result.protocol.negatives == "historical"
    assert first.result.transductive != run.evaluate().result.transductive


def test_scores_depend_on_the_batch_size(run: Run) -> None:
    """A batch does not see its own events."""
    small = run.evaluate(batch_size=7)
    assert small.facts.batch_size == 7
    assert small.result.transductive.ap_overall != run.metrics.transductive.ap_overall


def test_batches_of_one_against_scores_computed_one_by_one(run: Run) -> None:
    """With batch size 1 a score is that of the state after all strictly earlier events."""
    stream = run.stream
    split = chronological_split(stream)
    negatives = draw_negatives(stream, split, split.test).ours.dst
    state = NodeState(run.model.blank(), stream.num_nodes)
    state.restore(torch.load(run.path / "best.pt", weights_only=True)["state"])
    done = int(split.test[0])
    positive, negative = [], []
    for event, other in zip(split.test.tolist(), negatives.tolist(), strict=True):
        earlier = int(np.count_nonzero(stream.t < stream.t[event]))
        while done < earlier:  # events of one time are observed together
            end = int(np.count_nonzero(stream.t <= stream.t[done]))
            run.model.observe(state, run.history, EventBatch.of(run.history, torch.arange(done, end)))
            done = end
        with torch.no_grad():
            t = torch.tensor([stream.t[event]])
            pair = torch.tensor([[int(stream.dst[event]), other]])
            logits = run.model.link(state, run.history, torch.tensor([stream.src[event]]), pair, t, t[0])
        positive.append(logits[0, 0].item())
        negative.append(logits[0, 1].item())
    truth = [1] * len(positive) + [0] * len(negative)
    expected = average_precision_score(truth, positive + negative)
    assert run.evaluate(batch_size=1).result.transductive.ap_overall == pytest.approx(expected, abs=1e-6)


def test_unknown_names_get_suggestions(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"Unknown task 'lnk'. Did you mean 'link'"):
        run.evaluate("lnk")
    with pytest.raises(ConfigError, match="Did you mean 'historical'"):
        run.evaluate(negatives="historic")  # type: ignore[arg-type]


def test_a_task_can_be_passed_as_an_object(run: Run) -> None:
    found = run.evaluate(ShareTask.of(power=2))
    assert found.result.share == pytest.approx((len(chronological_split(run.stream).test) / 400) ** 2)
    assert found.facts == run.metrics.facts
    with pytest.raises(ConfigError, match="Set the option power when you create the task share"):
        run.evaluate(ShareTask(), power=2)  # type: ignore[call-overload]


class LeadTask(ShareTask):
    """The share, with a prediction for each event."""

    def measure_each(self, context: EvaluationContext) -> Measured[ShareResult]:
        return Measured(self.measure(context), {"position": np.arange(len(context.data.split.test))})


def test_the_predictions_of_a_task_of_your_own(run: Run) -> None:
    found = run.evaluate_each(LeadTask)
    assert found.table()["position"].to_pylist() == list(range(len(run.split.test)))


def test_an_incomplete_task_is_refused(run: Run) -> None:
    nameless = type("Nameless", (ShareTask,), {"options": dict})
    with pytest.raises(ConfigError, match="Nameless cannot be used as a task: options must be a dataclass"):
        run.evaluate(nameless)
    odd = type("Odd", (ShareTask,), {"measure": lambda self, context: 3})
    with pytest.raises(ConfigError, match=r"Odd\.measure returned an object of type int; .* ShareResult"):
        run.evaluate(odd)


def test_a_task_is_given_by_name_by_class_or_as_an_object(run: Run) -> None:
    expected = run.evaluate("link", negatives="historical").result
    assert run.evaluate(LinkTask, negatives="historical").result == expected
    assert run.evaluate(LinkTask.of(negatives="historical")).result == expected
    with pytest.raises(ConfigError, match="task=5: expected the name of a task"):
        run.evaluate(5)  # type: ignore[call-overload]


def test_a_summary_has_the_test_result(tiny_run: Run) -> None:
    text, metrics = tiny_run.summary(), tiny_run.metrics
    assert f"AP {100 * metrics.transductive.ap:.2f}" in text
    assert f"{metrics.parameters:,}" in text
    assert str(tiny_run.path) in text
    html = tiny_run._repr_html_()
    assert all(line.split("  ")[0] in html for line in text.splitlines() if not line.startswith("note: "))
