"""Losses to heuristics, found by their definition."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from types import SimpleNamespace
from typing import Any

from contig.tasks.baselines import losses
from contig.tasks.link import LinkProtocol, LinkResult, LinkTask
from contig.tasks.results import LinkMetrics


def result(transductive: float, inductive: float, dyglib: float, old_old: float = 0.0) -> LinkResult:
    protocol = LinkProtocol.of(
        "link", "tgn", inductive=True, negatives="random", metrics="m", inductive_dyglib="d"
    )
    empty = LinkMetrics(events=0)
    return LinkResult(
        protocol=protocol,
        transductive=LinkMetrics(ap=transductive, events=9),
        inductive=LinkMetrics(ap=inductive, events=5),
        inductive_dyglib=LinkMetrics(ap=dyglib, events=5),
        old_old=LinkMetrics(ap=old_old, events=4),
        new_old=empty,
        new_new=empty,
    )


OURS = result(0.80, 0.70, 0.60)
OTHERS = {"recency": result(0.79, 0.75, 0.60), "popularity": result(0.5, 0.725, 0.61, old_old=0.82)}


def test_the_best_heuristic_of_each_selection_that_is_better() -> None:
    found = losses(LinkTask, OURS, OTHERS)
    assert [(loss.selection, loss.heuristic) for loss in found] == [
        ("ind. ours", "recency"),
        ("ind. dyglib", "popularity"),
    ]
    assert found[0].text("contig") == (
        "contig loses to recency by 5.00 points of AP, ind. ours (70.00 against 75.00, on only 5 events)"
    )
    many = found[0]._replace(events=100)
    assert many.text("contig").endswith("(70.00 against 75.00)")
    assert found[1].as_dict() == {
        **{"selection": "ind. dyglib", "heuristic": "popularity", "metric": "ap"},
        **{"model": 0.60, "better": 0.61, "events": 5},
    }
    assert losses(LinkTask, OURS, {}) == []


def test_a_model_without_new_nodes_is_compared_on_known_ones() -> None:
    unmeasured = LinkMetrics(events=5)
    ours = replace(OURS, inductive=unmeasured, inductive_dyglib=unmeasured)
    [loss] = losses(LinkTask, ours, OTHERS, inductive=False)
    assert (loss.selection, loss.heuristic, loss.better) == ("transductive", "popularity", 0.82)


def test_a_result_that_does_not_separate_known_nodes_is_compared_as_it_is() -> None:
    task: Any = SimpleNamespace(selections={"all": "every"}, headline="ap")
    ours, theirs = (SimpleNamespace(every=SimpleNamespace(ap=ap)) for ap in (0.3, 0.4))
    [loss] = losses(task, ours, {"recency": theirs}, inductive=False)  # type: ignore[arg-type, dict-item]
    assert (loss.selection, loss.model, loss.better) == ("all", 0.3, 0.4)


def test_heuristics_without_a_number_are_not_better() -> None:
    assert losses(LinkTask, OURS, {"recency": result(nan, nan, nan)}) == []
    both = {"recency": result(nan, nan, nan), **OTHERS}
    assert losses(LinkTask, OURS, both) == losses(LinkTask, OURS, OTHERS)
