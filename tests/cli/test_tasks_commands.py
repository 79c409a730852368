"""``contig evaluate --task``: the library's numbers, as JSON and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.commands import Answer
from support.trained import TINY

from contig.data.synthetic import synthetic
from contig.runs.run import Run
from contig.tasks import classify
from contig.tasks.results import IntervalProtocol, IntervalResult, LinkMetrics
from contig.training import fit as fitting
from contig.training import loop


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    """One thread, no learning curves, decoders of a few steps."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "draw_curve", lambda session, folder: None)
        patch.setattr(classify, "LOOKS", 3)
        patch.setattr(classify, "STEPS", 10)
        yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables must fit a usual terminal."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, light: None) -> Path:
    """A run with labels."""
    stream = synthetic(600, sources=40, destinations=9, seed=3, dropout=0.9)
    out = tmp_path_factory.mktemp("runs") / "labelled"
    fitting.fit(stream, out=out, epochs=1, show=False, **TINY)
    return out


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory, light: None) -> Path:
    """A rule on a stream without labels."""
    stream = synthetic(300, sources=20, destinations=9, seed=3)
    columns = type(stream).from_arrays(stream.src, stream.dst, stream.t, origin="bare")
    out = tmp_path_factory.mktemp("runs") / "holdout"
    fitting.fit(columns, "recency", out=out, show=False)
    return out


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["recommend"], {}),
        (["recommend", "--as-of", "batch"], {"as_of": "batch"}),
        (["recommend", "--candidates", 4, "--batch-size", 11], {"candidates": 4, "batch_size": 11}),
        (["intervals", "--negatives", "historical"], {"negatives": "historical"}),
        (["classify", "--seeds", 2], {"seeds": 2}),
    ],
)
def test_json_is_the_evaluation_and_nothing_else(
    options: list[object], settings: dict[str, Any], run: Path
) -> None:
    found = Answer("evaluate", run, "--task", *options, "--json").json
    assert found == Run.open(run).evaluate(str(options[0]), **settings).as_dict()
    assert {"protocol", "seed", "batch_size", "hardware"} <= set(found)


def test_ranks_for_people(run: Path) -> None:
    found = Run.open(run).evaluate("recommend").as_dict()["transductive"]
    answer = Answer("evaluate", run, "--task", "recommend")
    recalls = " ".join(f"{100 * found[f'recall@{k}']:.2f}" for k in (5, 10, 15, 20))
    assert "MRR R@5 R@10 R@15 R@20 events" in answer.words
    assert f"transductive contig {100 * found['mrr']:.2f} {recalls} {found['events']}" in answer.words
    assert "all 9 destinations but the other true ones" in answer.words
    assert "at each event's own time" in answer.words
    assert (
        "ties: mean of the best and the worst rank; batches of 30, new nodes by holdout tgn" in answer.words
    )


def test_intervals_for_people(run: Path) -> None:
    found = Run.open(run).evaluate("intervals").as_dict()
    answer = Answer("evaluate", run, "--task", "intervals")
    assert "away ≤ AP AUC events new AP new AUC new" in answer.words
    for name, span in found["intervals"].items():
        seen = found["transductive"][name]
        row = f"{name} {span[1]:,.0f} {100 * seen['ap']:.2f} {100 * seen['auc']:.2f} {seen['events']} "
        assert row in answer.words
    assert "random negatives, batches of 30" in answer.words


def test_labels_for_people(run: Path) -> None:
    found = Run.open(run).evaluate("classify", seeds=2).as_dict()
    told, parts = found["transductive"], found["labels"]
    answer = Answer("evaluate", run, "--task", "classify", "--seeds", 2)
    auc = f"{100 * told['auc']:.2f} ± {100 * told['auc_std']:.2f}"
    assert f"transductive contig {auc} {told['positives']} {told['events']}" in answer.words
    assert f"label 1: {parts['train']['positives']} of {parts['train']['events']} in train" in answer.words
    assert "over 2 decoders; each step draws as many positives as others" in answer.words


def test_nothing_to_show_is_a_dash(rule: Path) -> None:
    """A set without events, as intervals that are nearly all equal leave them."""
    from contig.cli import results as measures

    none = LinkMetrics(events=0)
    empty = {"0-20%": none, "20-40%": none}
    protocol = IntervalProtocol.of(
        "intervals", "tgn", inductive=True, negatives="random", metrics="m", sets="s"
    )
    result = IntervalResult(
        protocol=protocol,
        intervals={"0-20%": (0, 0.25), "20-40%": None},
        transductive={**empty, "0-20%": LinkMetrics(ap=0.5, auc=0.25, events=3)},
        inductive=empty,
        old_old=empty,
        new_old=empty,
        new_new=empty,
    )
    table, *_ = measures.told(replace(Run.open(rule).evaluate(), result=result))
    rows = list(zip(*(column.cells for column in table.columns), strict=True))  # type: ignore[union-attr]
    assert rows == [
        ("0-20%", "0.25", "50.00", "25.00", "3", "-", "-", "0"),
        ("20-40%", "-", "-", "-", "0", "-", "-", "0"),
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--task", "recomend"], "Unknown task 'recomend'. Did you mean 'recommend'"),
        (["--task", "recommend", "--as-of", "evnt"], "Did you mean 'event'"),
        (["--task", "recommend", "--negatives", "random"], "option of the task recommend 'negatives'"),
        (["--as-of", "batch"], "option of the task link 'as_of'"),
        (["--task", "recommend", "--candidates", "0"], "--candidates"),
        (["--task", "classify"], "bare has no labels"),
    ],
)
def test_what_does_not_fit_is_refused(options: list[str], told: str, rule: Path) -> None:
    answer = Answer("evaluate", rule, *options)
    assert answer.code == 2
    assert told in answer.err
    assert answer.out == ""


def test_a_rule_is_ranked_too(rule: Path) -> None:
    found = Answer("evaluate", rule, "--task", "recommend", "--json").json
    assert found["model"] == "recency"
    assert found["transductive"]["mrr"] > 1 / 9
