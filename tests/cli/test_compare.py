"""``contig compare`` and ``contig repeat``: what is trained, printed and written."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any, cast

import numpy as np
import pytest
from support.commands import Answer
from support.finished import finish
from support.inline import run_inline

from contig.data.read_options import ReadOptions
from contig.experiments.jobs import Job
from contig.models import MODELS, model_class
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.tasks.baselines import HEURISTICS


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("CONTIG_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Finish jobs without training: AP grows with the seed, dyrep always fails, contig with seed 1."""

    def run(job: Job, device: str) -> str | None:
        if job.recipe.model == "dyrep" or (job.recipe.model, job.seed) == ("contig", 1):
            return "The loss became NaN."
        finish(job, 0.8 + 0.01 * job.seed + 0.002 * len(job.recipe.model))
        return None

    return cast("list[Job]", run_inline(monkeypatch, run))


def test_compare_trains_and_writes_results(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_inline(monkeypatch, lambda job, device: job.run(device))  # a worker gives the same numbers: test_jobs
    command = [
        *("compare", "synthetic:300", "--models", "jodie", "--no-heuristics", "--seeds", 2, "--out", "kept")
    ]
    command += ["--epochs", 1, "--set", "dim=6", "--set", "jodie.batch_size=50"]
    command += ["--device", "cpu", "--csv", "own.csv", "--plot", "own.png"]
    answer = Answer(*command)
    assert answer.code == 0, answer.err
    runs = [RunFolder(*(here / "kept/runs").glob(f"synthetic-300-jodie-{seed}-*/")) for seed in (0, 1)]
    assert [(run.config().train.batch_size, run.config().model_options.dim) for run in runs] == [(50, 6)] * 2
    found = [run.metrics() for run in runs]
    [content] = json.loads((here / "kept/compare.json").read_text())
    [row] = content["rows"]
    for selection in ("transductive", "inductive", "inductive_dyglib"):
        for measure in ("ap", "auc"):
            values = [getattr(getattr(metrics, selection), measure) for metrics in found]
            expected = {"mean": mean(values), "std": stdev(values)}
            assert row[selection][measure] == pytest.approx(expected)
    assert row["peak_memory"] == max(metrics.peak_memory.bytes for metrics in found)
    assert row["train_speed"] == pytest.approx(mean(m.events_per_second.train for m in found))
    ap = [100 * metrics.transductive.ap for metrics in found]
    line = next(line for line in answer.lines if line[0] == "jodie")
    assert line[1:4] == [f"{mean(ap):.2f}", "±", f"{stdev(ap):.2f}*"]  # 45 events are few
    assert row["transductive"]["events"] == found[0].transductive.events == 45
    assert (here / "kept/compare.txt").read_text().strip() == answer.out.strip()
    assert (here / "own.csv").read_text() == (here / "kept/compare.csv").read_text()
    assert (here / "own.png").read_bytes()[:4] == (here / "kept/compare.png").read_bytes()[:4] == b"\x89PNG"
    run_inline(monkeypatch, lambda job, device: pytest.fail("finished runs must be kept"))
    again = Answer(*command, "--json")
    assert json.loads(again.out) == [content]


def test_a_run_that_fails_in_its_worker(here: Path) -> None:
    (here / "short.csv").write_text("src,dst,t\n1,2,1\n2,3,2\n")
    answer = Answer(
        *("compare", "short.csv", "--models", "jodie", "--no-heuristics", "--seeds", 1, "--device", "cpu"),
        *("--plot", "own.svg"),
    )
    assert answer.code == 2
    assert "jodie failed with seed 0: " in answer.err
    assert "the validation part is empty" in answer.err
    assert answer.lines[-1][:2] == ["jodie", "failed"]
    assert not (here / "runs/compare/compare.png").exists()  # nothing to draw
    assert ".png" not in answer.err
    assert "own.svg was not drawn" in answer.err


def test_all_models_and_heuristics(trained: list[Job], here: Path) -> None:
    answer = Answer("compare", "synthetic:300", "--seeds", 3)
    learning = [name for name in MODELS if model_class(name).learns]
    learned = {(job.recipe.model, job.seed) for job in trained if job.recipe.model in learning}
    assert learned == {(name, seed) for name in learning for seed in range(3)}
    heuristics = [
        (job.recipe.model, job.recipe.variant) for job in trained if job.recipe.model not in learning
    ]
    assert len(set(heuristics)) == len(heuristics)  # one seed
    assert {("edgebank", "as given"), ("edgebank", "window"), ("recency", "as given")} <= set(heuristics)
    first = [line[0] for line in answer.lines]
    start = first.index("contig")
    assert first[start : start + len(learning)] == learning
    assert first[start + len(learning)] == "heuristics"
    assert first.index("recency") > first.index("heuristics")


def test_a_failure_does_not_hide_other_results(trained: list[Job], here: Path) -> None:
    answer = Answer("compare", "synthetic:300", "--models", "contig,dyrep,tgn", "--seeds", 3)
    assert answer.code == 2
    lines = {line[0]: line for line in answer.lines}
    assert lines["dyrep"][1] == "failed"
    assert lines["tgn"][1:4] == ["81.60", "±", "1.00"]
    assert lines["contig"][1:4] == ["82.20", "±", "1.41"]  # of the two finished seeds
    assert "contig failed with seed 1: The loss became NaN." in answer.err
    kept = (here / "runs/compare/compare.txt").read_text()
    assert "dyrep failed with seed 2: The loss became NaN." in kept
    with (here / "runs/compare/compare.csv").open(newline="") as file:
        found = {row["model"]: row for row in csv.DictReader(file)}
    assert found["contig"]["seeds"] == "2"
    assert float(found["contig"]["ap_transductive_std"]) == pytest.approx(stdev([0.812, 0.832]))
    assert found["dyrep"]["ap_transductive_mean"] == ""
    assert (here / "runs/compare/compare.png").exists()


def test_failed_runs_are_repeated_and_finished_runs_kept(trained: list[Job]) -> None:
    command = ("compare", "synthetic:300", "--models", "contig,tgn", "--no-heuristics", "--seeds", 2)
    Answer(*command)
    assert len(trained) == 4
    Answer(*command)
    assert [(job.recipe.model, job.seed) for job in trained[4:]] == [("contig", 1)]


def test_runs_that_shared_the_machine_are_noted(trained: list[Job]) -> None:
    command = ("compare", "synthetic:300", "--models", "tgn", "--no-heuristics", "--seeds", 2, "--at-once", 2)
    assert "2 runs at a time" in Answer(*command).out
    assert "at a time" not in Answer(*command).out  # how earlier runs were trained is not known


def test_one_seed_has_no_deviation(trained: list[Job]) -> None:
    out = Answer("compare", "synthetic:300", "--models", "tgn", "--seeds", 1).out
    assert "±" not in out
    assert "one seed" in out


def test_a_table_for_each_dataset(trained: list[Job], here: Path) -> None:
    command = ("compare", "synthetic:300", "synthetic:200", "--models", "jodie", "--seeds", 1)
    answer = Answer(*command, "--no-heuristics")
    titles = [line[0] for line in answer.lines if line[0].startswith("synthetic")]
    assert titles == ["synthetic:300:", "synthetic:200:"]
    content = json.loads(Answer(*command, "--no-heuristics", "--json").out)
    assert [(one["data"], one["events"]) for one in content] == [
        ("synthetic:300", 300),
        ("synthetic:200", 200),
    ]


@pytest.fixture
def visits(here: Path) -> Path:
    rng = np.random.default_rng(4)
    lines = [f"{rng.integers(0, 9)},{rng.integers(5, 16)},{t}" for t in range(100)]
    path = here / "visits.csv"
    path.write_text("who,page,when\n" + "\n".join(lines) + "\n")
    return path


def test_every_run_reads_a_file_with_the_given_columns(visits: Path, trained: list[Job]) -> None:
    columns = ["--src", "who", "--dst", "page", "--time", "when", "--bipartite"]
    answer = Answer("compare", "visits.csv", *columns, "--models", "tgn", "--seeds", 1)
    assert answer.lines[0][:5] == ["visits.csv:", "100", "events,", "20", "nodes"]
    reading = ReadOptions(src="who", dst="page", t="when", bipartite=True)
    assert all(job.recipe.reading == reading for job in trained)
    visits.write_text(visits.read_text() + "3,7,101\n")
    before = len(trained)
    Answer("compare", "visits.csv", *columns, "--models", "tgn", "--seeds", 1)
    assert len(trained) == 2 * before  # other events, other runs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--models", "tng"], "Did you mean 'tgn'"),
        (["--set", "dimm=3"], "Did you mean 'dim'"),
        (["--epochs", 0], "epochs=0"),
        (["--plot", "x.gif"], "Unknown image format 'gif'"),
        (["--csv", "."], "--csv: . is a folder"),
        (["--out", "file"], "--out file: file is a file"),
    ],
)
def test_wrong_arguments_are_rejected_before_training(
    options: list[Any], message: str, trained: list[Job], here: Path
) -> None:
    (here / "file").touch()
    answer = Answer("compare", "synthetic:300", *options)
    assert answer.code == 2
    assert message in answer.err
    assert trained == []


def test_repeat_prints_its_table_if_a_recipe_fails(trained: list[Job], here: Path) -> None:
    for model in ("dyrep", "tgn"):
        (here / f"{model}.json").write_text(json.dumps({"data": "synthetic:300", "model": model}))
    answer = Answer("repeat", "dyrep.json", "tgn.json", "tgn.json", "--seeds", 2)
    assert answer.code == 2
    lines = {line[1]: line for line in answer.lines if line[0] == "synthetic:300"}
    assert len(trained) == 4  # listed twice, trained once
    assert lines["dyrep"][4:6] == ["0", "failed"]
    assert lines["tgn"][4:8] == ["2", "81.10", "±", "0.71"]
    assert "dyrep failed with seed 1: The loss became NaN." in answer.err
    content = json.loads(Answer("repeat", "tgn.json", "--seeds", 1, "--json").out)
    assert content[0]["transductive"]["ap"]["std"] is None
    assert "81" not in Answer("repeat", "tgn.json", "--seeds", 1).out.replace("80.60", "")


def test_repeat_evaluates_tasks_beside_heuristics(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_inline(monkeypatch, lambda work, device: work.run("cpu"))
    recipe = {
        "data": "synthetic:300",
        "model": "jodie",
        "settings": {"dim": 6, "epochs": 1, "holdout": "paper"},
    }
    (here / "jodie.json").write_text(json.dumps(recipe))
    command = ["repeat", "jodie.json", "--seeds", 2, "--out", "kept", "--device", "cpu", "--heuristics"]
    tasks = ["--evaluate", "recommend", "--evaluate", "link:negatives=historical"]
    answer = Answer(*command, *tasks, "--json")
    assert answer.code == 0, answer.err
    content = json.loads(answer.out)
    assert [row["model"] for row in content["runs"]] == ["jodie", *HEURISTICS]
    ranked, links = content["evaluations"]["recommend"], content["evaluations"]["link, negatives=historical"]
    assert [row["seeds"] for row in ranked] == [2] + [1] * len(HEURISTICS)
    folders = [next((here / "kept/runs").glob(f"synthetic-300-jodie-{seed}-*/")) for seed in (0, 1)]
    expected = [Run.open(folder).evaluate("recommend").result for folder in folders]
    for name, field in {"transductive": "transductive", "all (TGB)": "all_events"}.items():
        values = [getattr(one, field).mrr for one in expected]
        assert ranked[0][name] == pytest.approx({"mean": mean(values), "std": stdev(values)})
    [recency] = [row for row in links if row["model"] == "recency"]
    alone = Run.open(next((here / "kept/runs").glob("synthetic-300-recency-*/")))
    assert (
        recency["transductive"]["mean"]
        == alone.evaluate("link", negatives="historical").result.transductive.ap
    )
    text = Answer(*command, *tasks).out
    assert "link, negatives=historical" in text
    assert "MRR on the test events" in text


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("lnk", "lnk"),
        ("link:negatives", "link:negatives=historical"),
        ("link:negative=random", "negatives"),
        ("link:negatives=none", "negatives"),
        ("classify", "no single metric"),
    ],
)
def test_repeat_rejects_evaluations_before_training(spec: str, words: str, here: Path) -> None:
    (here / "tgn.json").write_text('{"data": "synthetic:300", "model": "tgn"}')
    answer = Answer("repeat", "tgn.json", "--evaluate", spec)
    assert answer.code == 2
    assert words in answer.err
    assert not (here / "runs").exists()


def test_repeat_and_compare_share_runs_on_the_same_events(trained: list[Job], here: Path) -> None:
    rows = [f"{i % 7},{20 + i % 5},{i}" for i in range(100)]
    visits, recipe = here / "visits.csv", here / "visits.json"
    visits.write_text("\n".join(["src,dst,t", *rows]))
    recipe.write_text(json.dumps({"data": "visits.csv", "model": "tgn", "settings": {"epochs": 50}}))
    Answer("repeat", "visits.json", "--seeds", 2, "--out", "kept")
    assert (
        Answer(
            "compare", "visits.csv", "--models", "tgn", "--no-heuristics", "--seeds", 2, "--out", "kept"
        ).code
        == 0
    )
    assert len(trained) == 2  # 50 epochs are the default
    visits.write_text("\n".join(["src,dst,t", *rows[:-1]]))
    Answer("repeat", "visits.json", "--seeds", 2, "--out", "kept")
    assert len(trained) == 4


@pytest.mark.parametrize("command", ["repeat", "compare"])
def test_help_has_examples(command: str) -> None:
    answer = Answer(command, "--help")
    assert answer.code == 0
    assert answer.out.count(f"contig {command}") >= 2


# --- tasks ---------------------------------------------------------------------------------------------


def test_compare_by_a_task_and_its_options(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means over the seeds of what the library measures, in the table, in JSON and as LaTeX."""
    run_inline(monkeypatch, lambda work, device: work.run("cpu"))
    command = ["compare", "synthetic:300", "--models", "jodie", "--seeds", 2, "--out", "kept", "--epochs", 1]
    command += ["--device", "cpu", "--set", "dim=6", "--task", "recommend", "--candidates", 4]
    answer = Answer(*command, "--latex", "table.tex", "--csv", "own.csv")
    assert answer.code == 0, answer.err
    folders = sorted((here / "kept" / "runs").glob("*jodie*/"))
    found = [Run.open(one).evaluate("recommend", candidates=4, show=False).result for one in folders]
    values = [100 * one.transductive.mrr for one in found]
    cell = f"{mean(values):.2f} ± {stdev(values):.2f}"
    assert f"transductive jodie {cell}" in answer.words
    assert "transductive recency" in answer.words
    assert "mean ± standard deviation over 1 or 2 seeds" in answer.words
    in_latex = cell.replace("±", r"$\pm$")
    assert f"transductive: jodie & {in_latex} & " in (here / "table.tex").read_text()
    assert f"transductive  jodie  {cell}".split() == next(
        line.split()[:5]
        for line in (here / "kept/compare.txt").read_text().splitlines()
        if line.split()[:2] == ["transductive", "jodie"]
    )
    (content,) = json.loads(Answer(*command, "--json").out)
    assert content["evaluation"]["task"] == "recommend, candidates=4"
    assert content["evaluation"]["results"]["jodie"] == [one.as_dict() for one in found]
    assert (here / "own.csv").read_text() == (here / "kept/compare.csv").read_text()
    lines = csv_rows(here / "own.csv")
    jodie, recency = lines["jodie", "as given"], lines["recency", "as given"]
    assert {line["task"] for line in lines.values()} == {"recommend, candidates=4"}
    assert [line["recommend_seeds"] for line in (jodie, recency)] == ["2", "1"]
    for name in ("mrr", "recall_at_5"):
        each = [getattr(one.all_events, name) for one in found]
        assert float(jodie[f"recommend_{name}_all_events_mean"]) == pytest.approx(mean(each))
        assert float(jodie[f"recommend_{name}_all_events_std"]) == pytest.approx(stdev(each))
    assert int(jodie["recommend_events_transductive"]) == found[0].transductive.events
    (alone,) = (here / "kept" / "runs").glob("*recency*/")
    expected = Run.open(alone).evaluate("recommend", candidates=4, show=False).result.transductive.mrr
    assert float(recency["recommend_mrr_transductive_mean"]) == pytest.approx(expected)
    assert recency["recommend_mrr_transductive_std"] == ""
    plain = Answer(*command[:-4], "--csv", "plain.csv")  # without the task
    assert plain.code == 0, plain.err
    before = csv_rows(here / "plain.csv")
    assert len(next(iter(before.values()))) < len(jodie)
    first = {name: dict(list(line.items())[: len(before[name])]) for name, line in lines.items()}
    assert first == before  # the columns of the task follow


def csv_rows(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The rows of a comparison by model and variant."""
    with path.open(newline="") as file:
        return {(line["model"], line["variant"]): line for line in csv.DictReader(file)}


def test_the_csv_has_a_row_for_a_model_without_results_of_the_task(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(work: Any, device: str) -> str | None:
        if isinstance(work, Job):
            finish(work, 0.75)
            return None
        return "no luck"

    run_inline(monkeypatch, run)
    command = ["compare", "synthetic:300", "synthetic:200", "--models", "tgn", "--seeds", 2]
    answer = Answer(*command, "--no-heuristics", "--task", "recommend", "--csv", "own.csv")
    assert answer.code == 2
    with (here / "own.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["data"], line["task"], line["recommend_seeds"]) for line in lines] == [
        ("synthetic:300", "recommend", "0"),
        ("synthetic:200", "recommend", "0"),
    ]
    assert {float(line["ap_transductive_mean"]) for line in lines} == {0.75}


def test_heuristics_take_no_part_in_a_task_that_needs_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    started = run_inline(monkeypatch, lambda work, device: "no luck")
    answer = Answer("compare", "synthetic:300", "--models", "tgn", "--task", "classify", "--seeds", 1)
    assert [job.recipe.model for job in started if isinstance(job, Job)] == ["tgn"], answer.err


def test_compare_with_a_split(trained: list[Job]) -> None:
    answer = Answer("compare", "synthetic:300", "--models", "tgn", "--seeds", 1, "--split", "0.5,0.25")
    assert answer.code == 0, answer.err
    assert {job.recipe.settings["split"] for job in trained} == {"0.5,0.25"}
    refused = Answer("compare", "synthetic:300", "--set", "final=true", "--epochs", 1)
    assert refused.code == 2
    assert "leaves no events on which models could be compared" in refused.err
