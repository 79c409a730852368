"""What the benchmarks compare must be the same work; how fast it goes is not tested."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from contig.benchmarks import processes as children
from contig.benchmarks import report
from contig.benchmarks import timing as measuring
from contig.benchmarks.measurements import (
    MEASUREMENTS,
    QUICK,
    Bench,
    Settings,
    chosen,
    least_bytes,
    measure,
    peak_of_steps,
)
from contig.benchmarks.peers import Events, PeerWalker
from contig.benchmarks.solvers import Problem
from contig.benchmarks.steps import Scoring, Training
from contig.benchmarks.timing import Measurement, race
from contig.data.synthetic import synthetic
from contig.errors import ConfigError, DataError
from contig.kernels.dispatch import backend, disabled
from contig.options import set_options

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(synthetic(1500, sources=60, destinations=17), set_options(Settings(), QUICK), "cpu")


# -- arithmetic -----------------------------------------------------------------------------------------


def test_a_ratio_is_the_peers_figure_over_ours() -> None:
    row = Measurement.of("x", "what", [2.0, 1.0, 4.0], "peer", [6.0, 5.0, 2.0])
    assert (row.ours, row.ours_range) == (2.0, (1.0, 4.0))
    assert (row.peer, row.peer_range) == (5.0, (2.0, 6.0))
    assert (row.ratio, row.ratio_range, row.repeats) == (3.0, (0.5, 5.0), 3)  # of 3, 5 and 0.5


class Counter:
    """A walker that notes what it is told."""

    def __init__(self, upfront: float) -> None:
        self.upfront, self.told = upfront, list[int]()

    def rewind(self) -> None:
        self.told.append(-1)

    def advance(self, steps: int) -> None:
        self.told.append(steps)


def test_a_race_warms_up_takes_turns_and_charges_what_was_done_upfront() -> None:
    a, b = Counter(upfront=1000.0), Counter(upfront=0.0)
    found = race((a, b), 3, 14, 3, CPU, (nullcontext, nullcontext))
    assert a.told == b.told == [-1, 3, 3, 4, 4]
    assert [len(times) for times in found] == [3, 3]
    assert all(1000 < x < 1001 for x in found[0])
    assert all(0 < x < 1 for x in found[1])


def test_the_least_bytes_by_hand() -> None:
    # 5 states read and 2 written, of 3 floats and an id; 4 queries x 2 neighbours x (id, time);
    # 10 weights: weight, gradient and two moments, each read and written.
    given = {"distinct": 5, "written": 2, "queries": 4, "neighbors": 2, "dim": 3, "weights": 10}
    assert least_bytes(**given) == 7 * (12 + 8) + 4 * 2 * 16 + 10 * 4 * 2 * 4


# -- the sides ------------------------------------------------------------------------------------------


def test_the_peer_learns_from_the_same_batches(bench: Bench) -> None:
    pytest.importorskip("torch_geometric")
    peer, session = bench.peer(), bench.session("contig")
    train = bench.data.split.train
    peer.rewind()
    batch, step = peer._batch(), session.steps[0]
    assert np.array_equal(batch.src, bench.stream.src[train[step.start : step.stop]])
    assert np.array_equal(batch.dst, bench.stream.dst[train[step.start : step.stop]])
    negative = peer.draw(batch)
    assert len(negative) == step.stop - step.start  # one for each event, as ours
    assert set(negative.tolist()) <= set(bench.stream.dst[train].tolist())


def test_the_peer_learns() -> None:
    """Two of 17 destinations meet nearly everybody; negatives are any of them."""
    pytest.importorskip("torch_geometric")
    rng = np.random.default_rng(0)
    count, size = 600, 30
    popular = 20 + rng.integers(0, 2, count)
    dst = np.where(rng.random(count) < 0.95, popular, 20 + rng.integers(0, 17, count))
    src, dst = torch.from_numpy(rng.integers(0, 20, count)), torch.from_numpy(dst)
    events = Events(src, dst, torch.arange(count))
    peer = PeerWalker(events, 37, np.arange(20, 37), dim=8, neighbors=4, batch_size=size)
    for group in peer.optimizer.param_groups:
        group["lr"] = 0.01
    epochs = []
    for _ in range(5):
        peer.rewind()
        epochs.append(np.mean([float(peer.train_step()) for _ in range(count // size)]))
    assert epochs[0] > 0.5
    assert epochs[-1] < 0.6 * epochs[0]


def test_the_peer_answers_from_the_past_alone(bench: Bench) -> None:
    """Its logits of a batch come before the batch is taken in, and the memory carries over."""
    pytest.importorskip("torch_geometric")
    peer = bench.peer(learn=False)
    peer.rewind()
    peer.advance(3)
    assert peer.loader.cur_e_id == 3 * bench.settings.batch_size
    seen = np.unique([bench.stream.src[:120], bench.stream.dst[:120]])
    assert peer.model.memory.memory.abs().sum(dim=1).nonzero().squeeze(1).tolist() == seen.tolist()


def test_the_plain_step_is_the_same_computation(bench: Bench) -> None:
    session = bench.session("contig")
    walker = Training(session)
    walker.rewind()
    walker.advance(6)
    assert walker.upfront > 0
    session.model.eval()  # no dropout, which the two would draw differently
    found = []
    for how in (nullcontext, disabled):
        with how():
            assert (backend(torch.device("cpu")) == "numba") is (how is nullcontext)
            loss = session.walker._read_batch(6)
            weight = session.model.get_parameter("ode.gates.weight")
            found.append((loss.detach(), *torch.autograd.grad(loss, [weight])))
    assert backend(torch.device("cpu")) == "numba"
    assert torch.allclose(found[0][0], found[1][0], rtol=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-6)
    assert found[0][1].abs().sum() > 0


def test_the_plain_session_captures_nothing(bench: Bench) -> None:
    assert Training(bench.session("contig"))
    assert bench.session("contig").walker.captured.capturable
    assert Training(bench.session("contig", plain=True), plain=True)
    assert not bench.session("contig", plain=True).walker.captured.capturable
    assert bench.session("contig", plain=True).config.train.compile == "off"


def test_blocks_of_scoring_add_up_to_the_whole_walk(bench: Bench) -> None:
    session = bench.session("contig")
    whole, blocks = Scoring(session, 9), Scoring(session, 9)
    whole.advance(9)
    blocks.advance(2)
    blocks.rewind()
    for steps in (4, 5):
        blocks.advance(steps)
    assert torch.equal(whole.state["last"], blocks.state["last"])
    assert torch.allclose(whole.state["h"], blocks.state["h"], atol=1e-5)
    assert whole.state["h"].abs().sum() > 0


def test_every_solver_solves_the_same_problem() -> None:
    pytest.importorskip("torchdiffeq")
    problem = Problem(7, 3, CPU)
    exact, start = problem.exact, problem.start.detach().double()
    latest, own, between = (x.detach().double() for x in problem._coefficients(problem.start))
    pair, dim = 4, 2
    rows = (pair, pair + 7)
    system = np.zeros((3, 3))
    for i, row in enumerate(rows):
        system[i, i], system[i, 1 - i] = own[row, dim], between[row, dim]
        system[i, 2] = latest[row, dim] * start[row, dim]
    by_hand = expm(system) @ [start[rows[0], dim], start[rows[1], dim], 1.0]
    assert float(exact[pair, dim]) == pytest.approx(by_hand[0], rel=1e-12)
    assert problem.error(problem.series) < 2e-6
    assert problem.error(problem.dopri5) < 1e-3
    steps = problem.fair_rk4_steps()
    assert problem.error(lambda: problem.rk4(steps)) <= 1.5 * problem.error(problem.series)
    assert problem.error(lambda: problem.rk4(1)) > 10 * problem.error(problem.series)


def test_gradients_of_both_sides_agree() -> None:
    pytest.importorskip("torchdiffeq")
    problem, grads = Problem(5, 4, CPU), []
    for solve in (problem.series, lambda: problem.rk4(16)):
        problem.there_and_back(solve)()
        assert problem.start.grad is not None
        assert problem.ode.gates is not None
        assert problem.ode.gates.weight.grad is not None
        grads.append((problem.start.grad.clone(), problem.ode.gates.weight.grad.clone()))
    for ours, theirs in zip(*grads, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_another_process_gives_its_result() -> None:
    assert children.alone(len, "seven c") == 7


def test_the_peak_counts_the_whole_process(bench: Bench) -> None:
    assert peak_of_steps(bench.stream, bench.settings, "cpu", "tgn") > 50e6


# -- what is asked for ----------------------------------------------------------------------------------


def test_short_epochs_are_timed_in_their_later_half() -> None:
    stream = synthetic(1500, sources=60, destinations=17)
    settings = Bench(stream, Settings(dim=4, batch_size=40), "cpu").settings
    whole = len(Bench(stream, settings, "cpu").data.split.train) // 40
    assert (settings.first, settings.last) == (whole // 2, whole)
    with pytest.raises(ConfigError, match=r"steps 3:90: an epoch of synthetic:1500 has \d+ whole"):
        Bench(stream, Settings(batch_size=40, first=3, last=90), "cpu")


def test_measurements_are_picked_by_name() -> None:
    assert chosen("ode, contig-step") == ["contig-step", "ode"]
    with pytest.raises(ConfigError, match=r"tgn-stap.*tgn-step"):
        chosen("tgn-stap")
    with pytest.raises(ConfigError, match="names no measurement"):
        chosen(" ,")


def test_a_missing_peer_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "find_spec", lambda name: None)
    for name, extra in (("tgn-step", "baselines"), ("lookup", "baselines"), ("ode", "solvers")):
        (row,) = measure(bench, name)
        assert f"pip install 'contig[{extra}]'" in row.note
        assert (row.ours, row.ratio) == (None, None)


def test_a_measurement_that_fails_leaves_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bench: Bench) -> Any:
        raise RuntimeError("out of memory\nby far")

    monkeypatch.setitem(MEASUREMENTS, "ode", fail)
    (row,) = measure(bench, "ode")
    assert (row.what, row.note, row.ratio) == ("failed", "out of memory", None)


# -- the report -----------------------------------------------------------------------------------------


def example(**changes: Any) -> dict[str, Any]:
    rows = [
        Measurement.of("a-step", "a step", [0.0021, 0.0019], "peer", [0.4, 0.2]),
        Measurement.of("memory", "peak", [3e6], "peer", [6e6], unit="bytes", note="of all"),
        Measurement("ode", "not measured", note="needs it"),
    ]
    about = {
        **{"data": "d", "events": 1234, "nodes": 5, "device": "cpu", "hardware": "an abacus", "cpu": "beads"},
        **{"load": 0.5, "versions": {"torch": "9"}, "settings": {"dim": 3}},
    }
    return report.as_report({**about, **changes}, "contig bench d", rows)


def test_a_report_comes_back_from_its_file(tmp_path: Path) -> None:
    from contig.files import write_json

    write_json(tmp_path / "r.json", example())
    back = report.read_report(tmp_path / "r.json")
    assert [asdict(row).keys() for row in report.rows_of(back)] == [r.keys() for r in back["measurements"]]
    assert report.as_markdown(back) == report.as_markdown(example())
    (tmp_path / "no.json").write_text('{"measurements": [{"speed": 1}]}')
    for name in ("no.json", "absent.json"):
        with pytest.raises(DataError, match=rf"{name}: not a report of contig bench"):
            report.read_report(tmp_path / name)


def test_the_markdown_holds_the_figures() -> None:
    lines = report.as_markdown(example()).splitlines()
    assert "| `a-step` | a step | 2 ms | peer | 300 ms | 148 | 105 .. 190 |  |" in lines
    assert "| `memory` | peak | 3 MB | peer | 6 MB | 2 | 2 .. 2 | of all |" in lines
    assert "| `ode` | not measured |  |  |  |  |  | needs it |" in lines
    assert any("an abacus" in line and "torch 9" in line for line in lines)


def test_the_markdown_goes_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("top\n<!-- bench cpu -->\nold\n<!-- end -->\n<!-- bench cuda -->\nkept\n<!-- end -->\n")
    for _ in range(2):
        report.write_markdown(example(), path)
    table = report.as_markdown(example())
    assert path.read_text() == (
        f"top\n<!-- bench cpu -->\n{table}<!-- end -->\n<!-- bench cuda -->\nkept\n<!-- end -->\n"
    )
    report.write_markdown(example(device="cuda"), path)
    assert "kept" not in path.read_text()
    report.write_markdown(example(), tmp_path / "new.md")
    assert (tmp_path / "new.md").read_text() == table


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        *[(2.5, "s", "2.5 s"), (0.01234, "s", "12.3 ms"), (4.56e-5, "s", "45.6 µs"), (4e-7, "s", "0.4 µs")],
        *[(2345.6, "s", "2,346 s"), (1.5e9, "bytes", "1,500 MB"), (None, "s", "")],
    ],
)
def test_amounts_as_people_read_them(value: float | None, unit: str, text: str) -> None:
    assert report.amount(value, unit) == text
