"""``metrics.json`` and kept evaluations: typed in Python, the same keys in every file."""

from __future__ import annotations

import json
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest

from contig.errors import RunError
from contig.files import write_json
from contig.runs.metrics import Epoch, Throughput, read_metrics
from contig.runs.run import Run
from contig.tasks import read_evaluation
from contig.tasks.results import LinkMetrics

EPOCH = Epoch(
    epoch=5,
    loss=0.51239,
    val_ap=0.87654,
    val_auc=0.5,
    val_ap_inductive=0.5,
    train_seconds=2.0,
    events_per_second=12345.6,
)


def test_the_keys_of_the_file(run: Run) -> None:
    content = json.loads((run.path / "metrics.json").read_text())
    facts = {"schema", "contig", "model", "data", "protocol", "seed", "batch_size", "hardware"}
    training = {"parameters", "peak_memory", "best_epoch", "events_per_second", "epochs"}
    selections = {"transductive", "inductive", "inductive_dyglib", "old_old", "new_old", "new_new"}
    assert set(content) == facts | training | selections
    assert content["schema"] == 2
    assert set(content["transductive"]) == {"ap", "auc", "ap_overall", "auc_overall", "events"}
    assert content["transductive"]["ap"] == run.metrics.transductive.ap
    assert set(content["protocol"]) == {
        *("task", "split", "holdout", "transductive", "inductive", "negatives", "metrics"),
        "inductive_dyglib",
    }


def test_metrics_survive_the_file(run: Run, tmp_path: Path) -> None:
    empty = LinkMetrics(events=0)
    lonely = replace(EPOCH, val_ap_inductive=nan)
    written = replace(
        run.metrics,
        result=replace(run.metrics.result, inductive=empty, new_new=empty),
        epochs=(EPOCH, lonely),
    )
    write_json(tmp_path / "metrics.json", written.as_dict())
    assert read_metrics(tmp_path / "metrics.json") == written
    content = json.loads((tmp_path / "metrics.json").read_text())
    assert content["inductive"] == {"events": 0}
    assert content["epochs"][1]["val_ap_inductive"] is None


@pytest.mark.parametrize("task", ["link", "intervals", "recommend"])
def test_evaluations_survive_their_file(task: str, run: Run, tmp_path: Path) -> None:
    found = run.evaluate(task)
    write_json(tmp_path / "x.json", found.as_dict())
    assert read_evaluation(tmp_path / "x.json") == found


def old(content: dict[str, Any]) -> dict[str, Any]:
    """As files were before schemas had versions."""
    protocol = {"rule" if key == "holdout" else key: value for key, value in content["protocol"].items()}
    return {key: value for key, value in content.items() if key != "schema"} | {"protocol": protocol}


def schema_1(content: dict[str, Any]) -> dict[str, Any]:
    """As files were when inductive events were measured by one protocol."""
    protocol = {key: value for key, value in content["protocol"].items() if key != "inductive_dyglib"}
    kept = {key: value for key, value in content.items() if key != "inductive_dyglib"}
    return {**kept, "schema": 1, "protocol": protocol}


def test_older_files_are_read(run: Run, tmp_path: Path) -> None:
    """What they did not measure is missing; their kinds of negatives had other names."""
    events = run.metrics.inductive.events
    assert events > 0
    for before in (schema_1, lambda content: old(schema_1(content))):
        write_json(tmp_path / "metrics.json", before(run.metrics.as_dict()))
        found = read_metrics(tmp_path / "metrics.json")
        assert found.inductive_dyglib == LinkMetrics(events=events)
        assert found.result.protocol.inductive_dyglib.startswith("not measured")
        assert (found.transductive, found.inductive) == (run.metrics.transductive, run.metrics.inductive)
        assert found.epochs == run.metrics.epochs
    for task in ("link", "intervals"):
        content = schema_1(run.evaluate(task).as_dict())
        content["protocol"]["negatives"] = "historical"
        write_json(tmp_path / "kept.json", content)
        assert read_evaluation(tmp_path / "kept.json").result.protocol.negatives == "historical-source"
    ranked = run.evaluate("recommend")
    write_json(tmp_path / "ranked.json", old(ranked.as_dict()))
    assert read_evaluation(tmp_path / "ranked.json") == ranked


def test_a_file_that_does_not_fit_is_named_with_the_field(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    content = run.metrics.as_dict()
    write_json(path, {**content, "protocol": {**content["protocol"], "holdout": "half"}})
    with pytest.raises(
        RunError, match=rf"^{path}: the field protocol\.holdout must be 'tgn' or 'paper'.*contig resume"
    ):
        read_metrics(path)
    write_json(path, {**content, "protocol": {**content["protocol"], "task": "lnk"}})
    with pytest.raises(
        RunError, match=rf"^{path}: the field protocol\.task must be one of .*, not 'lnk'.*evaluate again"
    ):
        read_evaluation(path)


@pytest.mark.parametrize(
    ("speeds", "expected", "over"),
    [
        ([10.0], 10.0, "the first epoch"),
        ([10.0, 70.0], 70.0, "median of the epochs after the first"),
        ([10.0, 70.0, 20.0, 80.0], 70.0, "median of the epochs after the first"),  # 20: it was resumed
    ],
)
def test_the_first_epoch_does_not_count_for_the_speed(
    speeds: list[float], expected: float, over: str
) -> None:
    found = Throughput.of([replace(EPOCH, events_per_second=speed) for speed in speeds], score=5.0)
    assert found == Throughput(train=expected, train_over=over, score=5.0)


def test_the_line_of_an_epoch() -> None:
    line = "epoch   5  loss 0.5124  validation AP 87.65  inductive 50.00  12,346 events/s"
    assert EPOCH.summary(best=False) == line
    assert EPOCH.summary(best=True) == f"{line}  best so far"
    lonely = replace(EPOCH, val_ap_inductive=nan)
    assert lonely.summary(best=False) == line.replace("50.00", "-")
