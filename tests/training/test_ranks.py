"""Several ranks compute what one process computes."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from support import rank_worker
from support.commands import Answer
from support.processes import fork, join
from support.trained import fast_training, tiny_stream

from contig.errors import ConfigError, RunError
from contig.ranks import Ranks, ranks
from contig.runs.config import RunConfig
from contig.runs.run import Run
from contig.training.fit import _check_agreement, fit
from contig.training.preparation import prepare
from contig.training.session import Session

MODELS = ("contig", "contig-pair", "tgn", "jodie", "ctdne")  # the last draws random walks
STATEFUL = ("contig", "contig-pair", "tgn", "jodie")
forks = pytest.mark.skipif(sys.platform != "linux", reason="forks as Linux has them")


def forked(size: int, use: Callable[[], None], **environment: str) -> None:
    """Call a function in several copies of this process, which need not start Python and load torch."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    shared = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def work(rank: int) -> int:
        own = {**shared, "RANK": rank, **environment}
        os.environ.update({name: str(value) for name, value in own.items()})
        ranks.cache_clear()
        use()
        dist.destroy_process_group()
        return 0

    with fast_training():  # a fork keeps no threads
        children = [fork(partial(work, rank)) for rank in range(size)]
        assert [join(child) for child in children] == [0] * size


def supervised(size: int, folder: Path, *models: str, restarts: int, **environment: str) -> None:
    """Run the worker by ``torchrun --max-restarts``.

    In new processes: the supervisor has threads, and what they hold at a fork is held forever in the copy.
    """
    launcher = ["--standalone", "--nproc-per-node", str(size), "--max-restarts", str(restarts)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            *launcher,
            "-m",
            "support.rank_worker",
            folder,
            *models,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def trained_by_ranks(size: int, folder: Path, *models: str, **environment: str) -> None:
    """Train models in several forked ranks."""
    forked(size, lambda: rank_worker.train_all(folder, models), **environment)


def load(folder: Path, model: str, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / f"{model}-{rank}.pt", weights_only=True)
    return found


def check_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check losses, weights and states."""
    torch.testing.assert_close(
        torch.tensor(found["losses"][-len(expected["losses"]) :]),
        torch.tensor(expected["losses"][-len(found["losses"]) :]),
        rtol=1e-5,
        atol=1e-5,
    )
    for part in ("state", "weights"):
        for name, tensor in expected[part].items():
            torch.testing.assert_close(found[part][name], tensor, rtol=1e-3, atol=1e-4, msg=name)


def check_figures(found: dict[str, Any], path: Path) -> None:
    """Check what the ranks measured together against one process that measures their saved run.

    Not against another training: weights that differ by rounding order nearly equal scores in another way,
    and of so few events each pair counts.
    """
    run = Run.open(path, "cpu")
    assert found["mrr"] == pytest.approx(run.evaluate("recommend").result.transductive.mrr, abs=1e-6)
    # AP, unlike MRR, knows no ties within rounding: scores that differ in a last bit are in some order.
    if path.name != "ctdne":  # it knows the nodes of few test events
        assert found["ap"] == pytest.approx(run.evaluate("link").result.transductive.ap, abs=1e-2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What one process computes."""
    folder = tmp_path_factory.mktemp("alone")
    return {model: rank_worker.train(model, folder / model) for model in MODELS}


@forks
@pytest.mark.parametrize(
    ("size", "models", "state"),
    [
        (2, MODELS, "replicated"),
        (3, ("contig-pair",), "replicated"),
        (2, ("contig", "tgn"), "sharded"),
        (3, ("contig-pair", "jodie"), "sharded"),
    ],
)
def test_several_ranks_compute_what_one_computes(
    size: int, models: tuple[str, ...], state: str, alone: dict[str, Any], tmp_path: Path
) -> None:
    trained_by_ranks(size, tmp_path, *models, STATE=state)
    for model in models:
        first, *others = (load(tmp_path, model, rank) for rank in range(size))
        check_alike(first, alone[model])
        check_figures(first, tmp_path / model)
        for other in others:
            assert first["losses"] == other["losses"]
            for name, tensor in first["weights"].items():
                assert torch.equal(tensor, other["weights"][name])


@pytest.fixture(scope="module")
def exact() -> dict[str, list[float]]:
    """The losses of one process in double precision."""
    with fast_training():
        return {model: rank_worker.step_losses(model, 100) for model in STATEFUL}


@forks
@pytest.mark.parametrize(
    ("models", "state"), [(STATEFUL, "replicated"), (("contig-pair", "jodie"), "sharded")]
)
def test_a_hundred_losses_differ_by_rounding_only(
    models: tuple[str, ...], state: str, exact: dict[str, list[float]], tmp_path: Path
) -> None:
    """Check it in float64: in float32 any change of a last bit may grow to 1e-3 within as many steps.

    A ReLU whose input is 0 up to rounding passes a gradient in one process and none in the other.
    """

    def use() -> None:
        for model in models:
            torch.save(rank_worker.step_losses(model, 100), tmp_path / f"{model}-{ranks().rank}.pt")

    forked(2, use, STATE=state)
    for model in models:
        for rank in range(2):
            found = torch.load(tmp_path / f"{model}-{rank}.pt", weights_only=True)
            assert found == pytest.approx(exact[model], abs=1e-9, rel=0), model


@forks
@pytest.mark.parametrize("state", ["replicated", "sharded"])
def test_several_ranks_compute_each_node_once(state: str, tmp_path: Path) -> None:
    """Check that halves of a batch do not compute the nodes that both read twice, nor those they observe."""
    with fast_training():
        alone = rank_worker.nodes_updated("tgn", 5)

    def use() -> None:
        torch.save(rank_worker.nodes_updated("tgn", 5), tmp_path / f"{ranks().rank}.pt")

    forked(2, use, STATE=state)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert len(alone) == 2 * 5  # read and observe
    for ours, theirs, expected in zip(first, second, alone, strict=True):
        assert sorted([*ours, *theirs]) == expected
        assert abs(len(ours) - len(theirs)) <= 1


@forks
def test_what_ranks_exchange_does_not_tell_the_future(tmp_path: Path) -> None:
    """Change the events from position 150 on, and compare the losses of the parts that are earlier.

    Batches have 31 events. The fifth begins at 124, and its second half, which rank 1 reads, at 139.
    """

    def use() -> None:
        for model in ("contig", "tgn", "jodie"):
            found = rank_worker.losses_of_two_futures(model, 150, 7)
            torch.save(found, tmp_path / f"{model}-{ranks().rank}.pt")

    forked(2, use)
    for model in ("contig", "tgn", "jodie"):
        for rank, earlier in ((0, 5), (1, 4)):
            ours, theirs = torch.load(tmp_path / f"{model}-{rank}.pt", weights_only=True)
            assert theirs[:earlier] == pytest.approx(ours[:earlier], abs=1e-12, rel=0)
            assert abs(theirs[earlier] - ours[earlier]) > 1e-6


@forks
def test_a_stop_of_one_rank_stops_all_of_them_at_the_same_step(tmp_path: Path) -> None:
    trained_by_ranks(2, tmp_path, "jodie", INTERRUPT_AT_STEP="4")
    steps = [len(load(tmp_path, "jodie", rank)["losses"]) for rank in range(2)]
    assert steps in ([5, 5], [6, 6])  # the request came during step 5, or after its loss was summed


def test_a_restart_does_not_continue_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tiny_stream()
    settings: dict[str, Any] = {"batch_size": 30, "out": tmp_path / "run", "show": False}
    with fast_training():
        fit(stream, "popularity", **settings)
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
        assert fit(stream, "popularity", **settings).metrics is not None  # its own
        with pytest.raises(RunError, match=r"another run.*its events differ"):
            fit(stream[:-5], "popularity", **settings)
        with pytest.raises(RunError, match=r"another run.*its train differ"):
            fit(stream, "popularity", **settings | {"batch_size": 77})
        with pytest.raises(RunError, match=r"another run.*its model"):
            fit(stream, "recency", **settings)


@forks
def test_a_killed_rank_restarts_from_the_checkpoint(alone: dict[str, Any], tmp_path: Path) -> None:
    supervised(2, tmp_path, "contig-pair", restarts=1, KILL_AT_STEP="7")
    found = load(tmp_path, "contig-pair", 0)
    assert len(found["losses"]) < len(alone["contig-pair"]["losses"])  # some steps came from the checkpoint
    check_alike(found, alone["contig-pair"])
    check_figures(found, tmp_path / "contig-pair")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 5, 31])
def test_parts_cover_a_batch_once(count: int, size: int) -> None:
    bounds = [Ranks(rank, size).bounds(count) for rank in range(size)]
    assert [row for begin, end in bounds for row in range(begin, end)] == list(range(count))
    assert max(end - begin for begin, end in bounds) <= math.ceil(count / size)


AT = {"MASTER_ADDR": "here", "MASTER_PORT": "1"}


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "1"}, "WORLD_SIZE=2, but MASTER_ADDR='': start"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "here"}, "WORLD_SIZE=2, but MASTER_PORT='': start"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "WORLD_SIZE=2, but RANK='x': start the processes with torchrun"),
        ({"WORLD_SIZE": "two", "RANK": "0"}, "WORLD_SIZE='two': expected a number of processes"),
        (
            {"WORLD_SIZE": "2", "RANK": "2", **AT},
            "WORLD_SIZE=2, but RANK='2': ranks are numbered from 0 to 1",
        ),
        ({"WORLD_SIZE": "2", "RANK": "1", **AT, "MASTER_PORT": "65536"}, "MASTER_PORT='65536': ports are"),
    ],
)
def test_an_incomplete_environment_is_refused(
    environment: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ranks.cache_clear()
    with pytest.raises(ConfigError, match=problem):
        ranks()
    ranks.cache_clear()


@pytest.mark.parametrize(
    "command",
    [("index", "a.parquet", "--out", "a.index"), ("compare", "collegemsg"), ("reproduce", "table2")],
)
def test_commands_of_one_process_are_not_started_in_several(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "runs in one process, not in 2; start it without torchrun" in Answer(*command).refusal


def test_ranks_that_disagree_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(everyone: list[Any], own: Any) -> None:
        everyone[:] = [own, {**own, "events": "others"}]

    monkeypatch.setattr("torch.distributed.all_gather_object", gathered)
    Ranks(0, 1).check_agreement({"events": "ours"})
    with pytest.raises(
        ConfigError, match="do not agree on the events: rank 0 has 'ours', rank 1 has 'others'"
    ):
        Ranks(0, 2).check_agreement({"events": "ours", "options": 1})


def test_ranks_with_other_layouts_of_the_state_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(everyone: list[Any], own: Any) -> None:
        everyone[:] = [own, {**own, "layout of the node state (--state)": "sharded"}]

    monkeypatch.setattr("torch.distributed.all_gather_object", gathered)
    monkeypatch.setattr("contig.training.fit.ranks", lambda: Ranks(0, 2))
    config = RunConfig.of("popularity")
    session = Session(prepare(tiny_stream(), config, torch.device("cpu")), config)
    with pytest.raises(ConfigError, match=r"\(--state\): rank 0 has 'replicated', rank 1 has 'sharded'"):
        _check_agreement(session)


def test_one_process_notes_that_it_holds_the_whole_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(tiny_stream(), "popularity", out=tmp_path / "run", state="sharded", show=False)
    assert "among several processes, and there is one" in caplog.text


def test_ranks_that_disagree_say_which_options_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(everyone: list[Any], own: Any) -> None:
        everyone[:] = [own, {"options": {"model": "tgn", "train": {"epochs": 1, "lr": 0.5}}}]

    monkeypatch.setattr("torch.distributed.all_gather_object", gathered)
    with pytest.raises(
        ConfigError, match=r"options: rank 0 has \{'train': \{'lr': 0\.1\}\}, rank 1 has"
    ) as error:
        Ranks(0, 2).check_agreement({"options": {"model": "tgn", "train": {"epochs": 1, "lr": 0.1}}})
    assert "{'train': {'lr': 0.5}}" in str(error.value)
    assert "epochs" not in str(error.value)


WAITING_RANK = """
import sys
from contig.ranks import Ranks
print(Ranks(1, 2).temporary_folder(), flush=True)
sys.stdin.read()
"""


def test_a_rank_that_is_ended_removes_its_folder() -> None:
    """torchrun sends SIGTERM to the others when one rank has failed."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITING_RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as rank:
        assert rank.stdout is not None
        folder = Path(rank.stdout.readline().strip())
        assert folder.is_dir()
        rank.terminate()
        assert rank.wait(60) == 128 + signal.SIGTERM
    assert not folder.exists()
