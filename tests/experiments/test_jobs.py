"""Jobs: every run is trained once, under its own settings, and as if it were alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.finished import finish
from support.inline import run_inline
from support.trained import TINY, fast_training, identical_runs, tiny_stream

from contig.data.datasets import open_stream
from contig.data.read_options import ReadOptions
from contig.errors import DataError, RunError
from contig.experiments import jobs as module
from contig.experiments.evaluations import Evaluation
from contig.experiments.jobs import Job, Work, as_chains, plan, remaining, run_jobs
from contig.experiments.recipes import Recipe
from contig.files import write_json
from contig.runs.run import Run
from contig.tasks import read_evaluation
from contig.training.fit import fit

TWO = [
    Recipe("mooc", settings={"dim": 8}),
    Recipe("mooc", settings={"dim": 8, "scope": "all"}, variant="all"),
]


# --- planning ----------------------------------------------------------------------------------------------


def test_identical_runs_are_planned_once(tmp_path: Path) -> None:
    twice = [TWO[0], replace(TWO[0], settings={"dim": "8"}), TWO[1]]
    assert len(plan(twice, 3, tmp_path)) == 6
    jobs = [job for recipe in twice for job in plan([recipe], 3, tmp_path)]
    assert [len(chain) for chain in as_chains(jobs)] == [1] * 6


def test_a_run_with_other_settings_or_events_is_another_run(tmp_path: Path) -> None:
    base = Recipe("mooc", settings={"dim": 8}, fingerprint="old")
    others = [replace(base, settings={"dim": 8, "lr": 0.5}), replace(base, fingerprint="new")]
    [[job], *changed] = [plan([recipe], 1, tmp_path) for recipe in (base, *others)]
    finish(job)
    assert job.done
    assert not any(other.done for [other] in changed)


def test_a_heuristic_has_one_seed(tmp_path: Path) -> None:
    assert [job.seed for job in plan([Recipe("mooc", "recency")], 4, tmp_path)] == [0]


# --- one job -----------------------------------------------------------------------------------------------


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls of ``fit`` and ``resume``, which do nothing."""
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "fit", lambda *given, **named: called.append((*given, named)))
    monkeypatch.setattr(module, "resume", lambda *given, **named: called.append((*given, named)))
    return called


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text("who,page,when\n7,8,1\n8,9,2\n7,9,3\n")
    return path


COLUMNS = ReadOptions(src="who", dst="page", t="when", bipartite=True)


def test_a_job_trains_its_recipe(visits: Path, fitted: list[tuple[Any, ...]], tmp_path: Path) -> None:
    stream = open_stream(visits, COLUMNS)
    recipe = Recipe(str(visits), "tgn", {"dim": "8"}, reading=COLUMNS, fingerprint=stream.fingerprint())
    _, job = plan([recipe], 2, tmp_path)
    job.run("cpu")
    [(events, model, named)] = fitted
    assert (events.fingerprint(), events.num_nodes) == (stream.fingerprint(), 4)
    assert (model, named) == (
        "tgn",
        {"out": job.folder, "device": "cpu", "overwrite": False, "dim": "8", "seed": 1},
    )


def test_an_interrupted_run_is_resumed(fitted: list[tuple[Any, ...]], tmp_path: Path) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    finish(job)
    (job.folder / "metrics.json").rename(job.folder / "checkpoint.pt")
    job.run("cpu")
    assert fitted == [(job.folder, {"device": "cpu"})]


def test_a_run_without_a_checkpoint_starts_over(
    visits: Path, fitted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    [job] = plan([Recipe(str(visits), "tgn", reading=COLUMNS)], 1, tmp_path)
    finish(job)
    (job.folder / "metrics.json").unlink()  # what is left has no events, either
    job.run("cpu")
    [(events, model, named)] = fitted
    assert (len(events), model, named["out"]) == (3, "tgn", job.folder)


def test_a_finished_run_without_weights_starts_over_without_its_results(
    visits: Path, fast_training: None, tmp_path: Path
) -> None:
    rows = "".join(f"{i % 5},{i % 3},{i}\n" for i in range(40))
    visits.write_text("who,page,when\n" + rows)
    recipe = Recipe(str(visits), "recency", reading=COLUMNS)
    [first] = plan([recipe], 1, tmp_path / "first")
    first.run("cpu")
    [job] = plan([recipe], 1, tmp_path / "again")
    for name in ("config.json", "checksums.json", "metrics.json"):
        (job.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (job.folder / name).write_bytes((first.folder / name).read_bytes())
    write_json(job.folder / "metrics.json", {"of": "the lost weights"})
    write_json(job.folder / "evaluations/link.json", {"of": "the lost weights"})
    (job.folder / "notes.txt").write_text("mine")
    assert job.done
    job.run("cpu")
    assert not job.lacks_weights
    assert job.metrics().result == first.metrics().result
    assert Run.open(job.folder, "cpu").stream.num_nodes == 8
    assert not (job.folder / "evaluations").exists()
    assert (job.folder / "notes.txt").read_text() == "mine"


def test_results_without_weights_are_kept_if_the_events_cannot_be_read(visits: Path, tmp_path: Path) -> None:
    [job] = plan([Recipe(str(visits), "recency", reading=COLUMNS)], 1, tmp_path)
    finish(job)
    visits.unlink()
    with pytest.raises(DataError, match=r"visits\.csv"):
        job.run("cpu")
    assert job.done


def test_events_that_change_after_planning_are_rejected(
    visits: Path, fitted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    fingerprint = open_stream(visits, COLUMNS).fingerprint()
    [job] = plan([Recipe(str(visits), "tgn", reading=COLUMNS, fingerprint=fingerprint)], 1, tmp_path)
    visits.write_text(visits.read_text() + "9,8,4\n")
    with pytest.raises(RunError, match=r"visits\.csv have changed"):
        job.run("cpu")
    assert fitted == []


# --- many jobs ---------------------------------------------------------------------------------------------


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = plan(TWO, 2, tmp_path)
    started = run_inline(monkeypatch, lambda job, device: finish(job))
    ended: list[Work] = []
    assert run_jobs(as_chains(jobs), device="cpu", ended=lambda job, reason: ended.append(job)) == []
    assert started == ended == jobs
    run_jobs(as_chains(jobs), device="cpu")
    assert len(started) == 4


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_a_failure_stops_no_other_job(at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = plan(TWO, 2, tmp_path)
    run_inline(monkeypatch, lambda job, device: "no luck" if job == jobs[1] else finish(job))
    ended: list[tuple[Work, str | None]] = []
    failures = run_jobs(as_chains(jobs), at_once=at_once, ended=lambda *both: ended.append(both))
    assert failures == [(jobs[1], "no luck")]
    assert ended == [(jobs[0], None), (jobs[1], "no luck"), (jobs[2], None), (jobs[3], None)]


@pytest.mark.parametrize("at_once", [1, 2])
def test_evaluations_follow_their_job_unless_it_failed(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = plan(TWO, 2, tmp_path)
    chains = [[job, Evaluation(job, "link"), Evaluation(job, "intervals")] for job in jobs]
    finish(jobs[1])  # trained, but not evaluated
    (jobs[1].folder / "best.pt").touch()

    def run(work: Work, device: str) -> str | None:
        if work == jobs[0] or work == chains[2][1]:
            return "no luck"
        finish(work) if isinstance(work, Job) else write_json(work.file, {})
        return None

    started = run_inline(monkeypatch, run)
    failures = run_jobs(chains, at_once=at_once)
    assert [failure.job for failure in failures] == [jobs[0], chains[2][1]]
    assert {work.name for work in started} == {
        work.name for work in (jobs[0], *chains[1][1:], *chains[2], *chains[3])
    }
    for chain in chains[1:]:  # an evaluation that fails does not stop the next one
        assert [work for work in started if work in chain] == [w for w in chain if w != jobs[1]]


def test_a_finished_run_without_weights_is_trained_again_if_an_evaluation_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = plan(TWO, 2, tmp_path)
    chains = [[job, Evaluation(job, "link"), Evaluation(job, "intervals")] for job in jobs]
    for job, link, intervals in chains:
        finish(job)
        write_json(link.file, {})
        write_json(intervals.file, {})
    (jobs[1].folder / "best.pt").touch()
    for _, _, intervals in chains[1:3]:
        intervals.file.unlink()

    def run(work: Work, device: str) -> None:
        finish(work) if isinstance(work, Job) else write_json(work.file, {})

    started = run_inline(monkeypatch, run)
    assert run_jobs(chains) == []
    # The first and last are complete, the second has weights, the third has results only.
    assert started == [chains[1][2], *chains[2]]


def test_evaluations_that_several_tables_share_are_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = plan(TWO[:1], 1, tmp_path)
    link = Evaluation(job, "link")
    chain = [job, link, Evaluation(job, "link")]
    assert remaining(chain) == [job, link]
    started = run_inline(monkeypatch, lambda work, device: None)
    run_jobs([chain])
    assert started == [job, link]


def test_every_training_has_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its speed and memory would otherwise depend on what ran before; evaluations measure neither."""
    jobs = plan(TWO, 1, tmp_path)
    run_inline(
        monkeypatch,
        lambda work, _: finish(work) if isinstance(work, Job) else write_json(work.file, {}),
    )
    start, fresh = module.WorkerPool.start, []

    def recorded(*given: Any, **named: Any) -> None:
        fresh.append(named["fresh"])
        start(*given, **named)

    monkeypatch.setattr(module.WorkerPool, "start", recorded)
    run_jobs([[job, Evaluation(job, "link")] for job in jobs])
    assert fresh == [True, False, True, False]


@pytest.mark.parametrize(
    ("device", "at_once", "expected"),
    [
        ("cpu", 2, ["cpu"] * 6),
        ("cpu,meta", 1, ["cpu"] * 6),
        ("cpu,meta", 3, ["cpu", "meta", "cpu"] * 2),
        ("meta, cpu,cpu,meta", 4, ["meta", "cpu", "cpu", "meta", "meta", "cpu"]),
        ("cpu,meta", 9, ["cpu", "meta"] * 3),
    ],
)
def test_workers_take_the_devices_in_turn(
    device: str, at_once: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[str] = []

    def run(work: Job, device: str) -> None:
        devices.append(device)
        finish(work)

    run_inline(monkeypatch, run)
    assert run_jobs(as_chains(plan(TWO, 3, tmp_path)), device=device, at_once=at_once) == []
    assert devices == expected


def test_an_interrupt_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(work: Work, device: str) -> None:
        raise KeyboardInterrupt

    started = run_inline(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(as_chains(plan(TWO, 3, tmp_path)), at_once=2)
    assert len(started) == 1


# --- in a worker as alone ----------------------------------------------------------------------------------


def test_a_job_gives_the_same_numbers_as_a_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, and so do evaluations that follow it in the same process."""
    stream = tiny_stream(edge_features=3)
    rows = zip(stream.src, stream.dst, stream.t, *stream.edge_features.T, strict=True)
    path = tmp_path / "tiny.csv"
    path.write_text("src,dst,t,f1,f2,f3\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    settings = {**TINY, "epochs": 2, "dropout": 0.3}
    recipe = Recipe(str(path), "contig", settings, reading=ReadOptions(bipartite=True))
    [job] = plan([recipe], 1, tmp_path / "runs")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # for the worker
    evaluations = [Evaluation(job, "recommend", {"candidates": 5}), Evaluation(job, "link")]
    assert run_jobs([[job, *evaluations]], device="cpu") == []
    with fast_training():
        alone = fit(
            path, out=tmp_path / "alone", model="contig", device="cpu", show=False, bipartite=True, **settings
        )
        opened = Run.open(tmp_path / "alone", "cpu")
        expected = [opened.evaluate(one.task, show=False, **one.options) for one in evaluations]
    assert identical_runs(job.folder, tmp_path / "alone")
    assert [read_evaluation(one.file) for one in evaluations] == expected
    assert alone.metrics.facts.hardware == Run.open(job.folder, "cpu").metrics.facts.hardware
