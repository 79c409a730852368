from __future__ import annotations

import signal
import sys
import tempfile
import threading
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from support.trained import TINY, bit_identical, load_saved, text_id_stream, tiny_stream, without_costs
from torch.nn.functional import binary_cross_entropy_with_logits

from contig.data.events import EventStream
from contig.data.negatives import Negatives
from contig.data.splits import chronological_split
from contig.errors import ConfigError, DataError, RunError
from contig.history import History
from contig.kernels.devices import pick_device
from contig.models import DataShape, EventBatch, NodeState
from contig.models.contig import ConTIG, ConTIGOptions
from contig.runs.run import Run
from contig.tasks.link_scoring import evaluation_negatives
from contig.tasks.results import DataFacts, LinkMetrics, RankMetrics
from contig.training import fit as fitting
from contig.training import loop
from contig.training.fit import fit, resume
from contig.training.optimizer import FlatAdam
from contig.training.session import Session

DRAW = loop.draw_curve  # before the fixture puts it off


def train(stream: EventStream, out: Path, **settings: Any) -> Run:
    return fit(stream, out=out, show=False, **{"epochs": 1, **TINY, **settings})


# --- the loop ------------------------------------------------------------------------------------------


def by_hand(stream: EventStream, epochs: int) -> ConTIG:
    """The training written out plainly: no schedule, no session."""
    split = chronological_split(stream)
    torch.manual_seed(0)
    options = ConTIGOptions(dim=8, time_dim=6, neighbors=3)
    model = ConTIG(options, DataShape(0, None))
    optimizer = FlatAdam(model, lr=TINY["lr"], weight_decay=0.0, clip=1.0)
    history = History.from_stream(stream).only(split.train)
    negatives = Negatives(stream, destinations=stream.dst[split.train], seed=0)
    times = stream.t[split.train]
    for _ in range(epochs):
        state = NodeState(model.blank(), stream.num_nodes)
        seen = 0
        for start in range(0, len(split.train), 30):
            model.train()
            batch = EventBatch.of(history, torch.from_numpy(split.train[start : start + 30]))
            wrong = negatives.draw(batch.event, batch.src)[:, 0]
            args = (batch.src, torch.stack([batch.dst, wrong], dim=1), batch.t, batch.t[0])
            logits = model.link(state, history, *args)
            truth = torch.tensor([1.0, 0.0]).expand_as(logits)
            binary_cross_entropy_with_logits(logits, truth).backward()
            optimizer.step()
            coming = times[start + 30 :]
            see = int(np.count_nonzero(times < coming[0])) if len(coming) else len(times)
            seen_now = torch.from_numpy(split.train[seen:see])
            model.observe(state, history, EventBatch.of(history, seen_now))
            seen = see
    return model


def test_the_loop_is_the_plain_one(stream: EventStream, tmp_path: Path) -> None:
    train(stream, tmp_path / "run", epochs=2)
    weights = load_saved(tmp_path / "run", "checkpoint.pt")["weights"]
    expected = by_hand(stream, 2).state_dict()
    untrained = by_hand(stream, 0).state_dict()
    assert list(weights) == list(expected)
    for name, tensor in weights.items():
        assert torch.equal(tensor, expected[name]), name
    assert not bit_identical(untrained, expected)


def test_it_learns_what_can_be_learned(tmp_path: Path) -> None:
    """One destination is met nine times in ten: how busy a node is tells it from a negative."""
    rng = np.random.default_rng(2)
    dst = np.where(rng.random(600) < 0.9, 100, rng.integers(101, 111, 600))
    stream = EventStream.from_arrays(rng.integers(0, 12, 600), dst, np.arange(600), origin="busy")
    run = train(stream, tmp_path / "run", epochs=8, holdout="paper")
    rows = run.metrics.epochs
    assert rows[-1].loss < 0.6 < rows[0].loss
    assert run.metrics.transductive.ap > 0.8


def test_seeds_decide_and_nothing_else(stream: EventStream, tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = train(stream, tmp_path / "one", seed=4)
    torch.manual_seed(2)
    two = train(stream, tmp_path / "two", seed=4)
    other = train(stream, tmp_path / "other", seed=5)
    assert without_costs(one.metrics.as_dict()) == without_costs(two.metrics.as_dict())
    assert bit_identical(load_saved(one.path, "serving.pt"), load_saved(two.path, "serving.pt"))
    assert one.metrics.transductive != other.metrics.transductive
    # seeds share the events they are measured on
    for selection in ("transductive", "inductive", "new_new"):
        counts = [getattr(run.metrics.result, selection).events for run in (one, other)]
        assert counts[0] == counts[1]


def test_the_generators_of_the_caller_stay_where_they_are(stream: EventStream, tmp_path: Path) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global one is what must not move
    expected, place = torch.rand(3), np.random.get_state()[2]  # noqa: NPY002
    torch.manual_seed(5)
    run = train(stream, tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(5)
    resume(tmp_path / "run", show=False)
    Run.open(tmp_path / "run").evaluate()
    run.embed()
    assert torch.equal(torch.rand(3), expected)
    assert np.random.get_state()[2] == place  # noqa: NPY002


def test_a_thread_can_train(stream: EventStream, tmp_path: Path) -> None:
    """Signals are the main thread's alone."""
    thread = threading.Thread(target=train, args=(stream, tmp_path / "run"))
    thread.start()
    thread.join()
    assert Run.open(tmp_path / "run").metrics.best_epoch == 1


def test_a_file_or_a_name_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "events.csv"
    stream = tiny_stream()
    rows = zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True)
    path.write_text("src,dst,t\n" + "".join(f"{s},{d},{t}\n" for s, d, t in rows))
    run = fit(path, show=False, epochs=1, **TINY)
    assert run.metrics.facts.data.origin == str(path)
    assert run.path.parent == tmp_path  # kept in a temporary folder if nobody says where
    assert run.metrics.transductive == train(stream, tmp_path / "run").metrics.transductive


def test_columns_can_be_named(tmp_path: Path) -> None:
    """In a file and in tables, as ``read_events`` has them."""
    stream = text_id_stream()
    labels = stream.ids.labels
    table = pd.DataFrame(
        {
            "when": stream.t,
            "who": labels[stream.src],
            "page": labels[stream.dst],
            "f1": np.arange(len(stream)),
        }
    )
    table.to_csv(tmp_path / "events.csv", index=False)
    columns: dict[str, Any] = {"src": "who", "dst": "page", "t": "when", "bipartite": True, "features": []}
    for number, data in enumerate((table, pa.Table.from_pandas(table), tmp_path / "events.csv")):
        run = fit(data, "edgebank", out=tmp_path / f"{number}", show=False, **columns)
        assert run.stream.equals(stream)
        assert run.stream.ids.labels.tolist() == labels.tolist()
    wide = fit(table, "edgebank", out=tmp_path / "wide", show=False, **columns | {"features": True})
    assert wide.stream.edge_width == 1
    with pytest.raises(ConfigError, match=r"src=\.\.\. is an option for reading files and tables"):
        fit(stream, "edgebank", out=tmp_path / "no", src="who")
    with pytest.raises(DataError, match="Cannot read events from a list"):
        fit([1, 2], "edgebank", out=tmp_path / "no")
    assert not (tmp_path / "no").exists()


# --- when to stop --------------------------------------------------------------------------------------


def scripted(patch: pytest.MonkeyPatch, stream: EventStream, precision: list[float]) -> None:
    """Let validation say one AP after another."""
    report, said = loop.link_report, iter(precision)
    first_val = chronological_split(stream).val[0]

    def told(stream: Any, split: Any, events: Any, *rest: Any, **named: Any) -> Any:
        real = report(stream, split, events, *rest, **named)
        scripted = LinkMetrics(ap=next(said), auc=0.5, events=9) if events[0] == first_val else None
        return replace(real, transductive=scripted) if scripted else real

    patch.setattr(loop, "link_report", told)


@pytest.mark.parametrize(
    ("precision", "epochs", "trained", "best"),
    [
        ([0.5, 0.6, 0.7, 0.69, 0.7, 0.3, 0.9], 9, 6, 3),  # an equal one is no better: 3 in vain
        ([0.5, 0.6, 0.7, 0.69, 0.7, 0.71, 0.1], 7, 7, 6),  # saved in the last moment, then time is up
        ([0.9, 0.1, 0.1, 0.1, 0.95], 9, 4, 1),
        ([0.1, 0.2], 2, 2, 2),
    ],
)
def test_patience(
    precision: list[float],
    epochs: int,
    trained: int,
    best: int,
    stream: EventStream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted(monkeypatch, stream, precision)
    run = train(stream, tmp_path / "run", epochs=epochs, patience=3)
    assert [row.val_ap for row in run.metrics.epochs] == precision[:trained]
    assert run.metrics.best_epoch == best
    assert load_saved(tmp_path / "run", "best.pt")["epoch"] == best


def test_the_best_epoch_is_what_the_run_answers_with(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, stream, [0.5, 0.9, 0.3, 0.2, 0.5, 0.9])
    run = train(stream, tmp_path / "long", epochs=4)
    short = train(stream, tmp_path / "short", epochs=2)
    assert bit_identical(run.model.state_dict(), short.model.state_dict())
    assert run.metrics.transductive == short.metrics.transductive
    assert not bit_identical(
        run.model.state_dict(), load_saved(tmp_path / "long", "checkpoint.pt")["weights"]
    )


# --- what goes wrong -----------------------------------------------------------------------------------


def test_a_diverging_loss_stops_with_advice(stream: EventStream, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"became NaN or infinite \(epoch 1.*lr=3e\+29.*clip=0\.5"):
        train(stream, tmp_path / "run", lr=1e30)
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_a_step_that_spoils_the_weights_is_found_in_validation(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Session.train_step

    def spoilt(self: Session) -> torch.Tensor:
        loss = step(self)
        if self.progress.step == len(self.steps):
            with torch.no_grad():
                next(self.model.parameters()).fill_(torch.nan)
        return loss

    monkeypatch.setattr(Session, "train_step", spoilt)
    with pytest.raises(RunError, match="became NaN or infinite"):
        train(stream, tmp_path / "run")
    assert not (tmp_path / "run" / "best.pt").exists()


def test_a_checkpoint_is_never_made_of_a_lost_run(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Session.train_step
    monkeypatch.setattr(
        Session, "train_step", lambda self: step(self) * (torch.nan if self.progress.step == 4 else 1)
    )
    with pytest.raises(RunError, match="around step 4"):
        train(stream, tmp_path / "run", checkpoint_seconds=0)
    assert load_saved(tmp_path / "run", "checkpoint.pt")["progress"]["step"] == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"model": "contg"}, "Did you mean 'contig'"),
        ({"dims": 8}, "Did you mean 'dim'"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"lr": -1.0}, r"lr=-1\.0"),
        ({"device": "gpux"}, "device='gpux'"),
        ({"holdout": "papr"}, "Did you mean 'paper'"),
    ],
)
def test_wrong_wishes_are_refused_before_anything_is_made(
    arguments: dict[str, Any], told: str, stream: EventStream, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        fit(stream, out=tmp_path / "run", show=False, **arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    assert pick_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"device='cuda:1'.*no GPU"):
        pick_device("cuda:1")


def test_an_earlier_run_is_not_overwritten(tiny_run: Run, stream: EventStream) -> None:
    before = {path: path.read_bytes() for path in tiny_run.path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"holds a run already.*contig resume"):
        train(stream, tiny_run.path)
    assert {path: path.read_bytes() for path in tiny_run.path.rglob("*") if path.is_file()} == before


def test_streams_too_short_or_too_full(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="part is empty"):
        train(EventStream.from_arrays([1, 2], [3, 4], [0, 0]), tmp_path / "short")
    fresh = np.arange(40)
    with pytest.raises(RunError, match="holdout=tgn"):
        train(EventStream.from_arrays(fresh, fresh % 2 + 100, fresh), tmp_path / "fresh", holdout="paper")
    with pytest.raises(DataError, match="no negative exists"):
        train(EventStream.from_arrays(fresh % 3, fresh * 0 + 100, fresh), tmp_path / "full")


def test_tensorboard_must_be_there(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        fit(stream, out=tmp_path / "run", tensorboard=True, show=False, **TINY)
    assert not (tmp_path / "run" / "config.json").exists()


def test_tensorboard_gets_every_epoch(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Writer:
        def __init__(self, folder: str) -> None:
            self.folder, self.rows, self.closed = folder, [], False
            made.append(self)

        def add_scalar(self, name: str, value: float, epoch: int) -> None:
            self.rows.append((name, epoch, value))

        def close(self) -> None:
            self.closed = True

    made: list[Writer] = []
    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    run = fit(stream, out=tmp_path / "run", tensorboard=True, show=False, epochs=2, **TINY)
    (writer,) = made
    assert writer.closed
    assert Path(writer.folder).parent == run.path
    names = ("loss", "val_ap", "val_auc", "val_ap_inductive")
    expected = [(name, row.epoch, getattr(row, name)) for row in run.metrics.epochs for name in names]
    assert writer.rows == expected


# --- results -------------------------------------------------------------------------------------------


def test_the_other_fields_of_the_metrics(tiny_run: Run, stream: EventStream) -> None:
    metrics = tiny_run.metrics
    assert metrics.facts.data == DataFacts(origin="tiny", events=400, nodes=stream.num_nodes)
    assert (metrics.facts.seed, metrics.facts.batch_size, metrics.facts.model) == (0, 30, "contig")
    assert metrics.result.protocol.holdout == "tgn"
    assert "CPU" in metrics.facts.hardware
    assert metrics.peak_memory.bytes > 0
    assert metrics.peak_memory.of == "the whole process"
    assert metrics.parameters == sum(p.numel() for p in tiny_run.model.parameters())
    assert [row.epoch for row in metrics.epochs] == [1, 2]
    best = max(metrics.epochs, key=lambda row: row.val_ap)
    assert metrics.best_epoch == best.epoch


def test_what_is_not_there_is_null_in_json(tmp_path: Path) -> None:
    """Nobody is new: the inductive AP does not exist. The origin is left as it is."""
    n = np.arange(300)
    rng = np.random.default_rng(0)
    stream = EventStream.from_arrays(rng.permutation(n) % 7, 10 + n % 5, n, origin="NaN.csv")
    run = train(stream, tmp_path / "run", holdout="paper")
    assert run.metrics.inductive == LinkMetrics(events=0)
    assert [isnan(row.val_ap_inductive) for row in run.metrics.epochs] == [True]
    assert run.metrics.facts.data.origin == "NaN.csv"


def test_the_curve_is_drawn(stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "draw_curve", DRAW)
    train(stream, tmp_path / "run")
    assert (tmp_path / "run" / "curve.png").read_bytes()[:4] == b"\x89PNG"


def edgebank_by_hand(stream: EventStream, holdout: Any) -> dict[str, dict[str, float]]:
    """Walk the test events in a plain loop with a set of pairs."""
    split = chronological_split(stream, holdout=holdout)
    wrong = evaluation_negatives(stream, split, split.test, "random", "cpu")[:, 0].tolist()
    pairs = list(zip(stream.src.tolist(), stream.dst.tolist(), strict=True))
    rows = []
    for event, other in zip(split.test.tolist(), wrong, strict=True):
        known = {pairs[i] for i in range(event) if stream.t[i] < stream.t[event]}
        src, dst = pairs[event]
        new = bool(split.new_nodes[src]) + bool(split.new_nodes[dst])
        rows.append((new, float((src, dst) in known), float((src, other) in known)))
    chosen = {
        "transductive": [r[1:] for r in rows if holdout == "tgn" or r[0] == 0],
        "inductive": [r[1:] for r in rows if r[0] > 0],
    }
    result = {}
    for name, scores in chosen.items():
        parts = [np.array(scores[i : i + 25]) for i in range(0, len(scores), 25)]
        aps = [average_precision_score([1] * len(p) + [0] * len(p), [*p[:, 0], *p[:, 1]]) for p in parts]
        aucs = [roc_auc_score([1] * len(p) + [0] * len(p), [*p[:, 0], *p[:, 1]]) for p in parts]
        result[name] = {"ap": np.mean(aps), "auc": np.mean(aucs), "events": len(scores)}
    return result


@pytest.mark.parametrize("holdout", ["tgn", "paper"])
def test_a_rule_is_measured_as_by_hand(holdout: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = np.arange(500)  # new sources come all the time, with old ones among them, three events at once
    src = np.where(rng.random(500) < 0.5, n // 14, rng.integers(0, 12, 500))
    stream = EventStream.from_arrays(src, 100 + rng.integers(0, 8, 500), n // 3)
    run = fit(stream, "edgebank", out=tmp_path / "run", show=False, holdout=holdout, batch_size=25)
    for selection, expected in edgebank_by_hand(stream, holdout).items():
        got = getattr(run.metrics, selection)
        assert expected["events"] > 5
        assert {key: getattr(got, key) for key in expected} == pytest.approx(expected)
    assert len(run.metrics.epochs) == 1
    assert not (tmp_path / "run" / "curve.png").exists()


def test_rule_paper_trains_on_more(stream: EventStream, tmp_path: Path) -> None:
    """No node is hidden, and transductive is what lies between known nodes."""
    run = train(stream, tmp_path / "run", holdout="paper")
    metrics = run.metrics
    split = chronological_split(stream, holdout="paper")
    assert metrics.transductive == metrics.result.old_old
    assert metrics.transductive.events + metrics.inductive.events == len(split.test)
    assert len(split.train) > len(chronological_split(stream).train)


@pytest.mark.parametrize(("model", "holdout"), [("gae", "tgn"), ("ctdne", "tgn"), ("vgae", "paper")])
def test_a_model_without_new_nodes_is_measured_on_known_ones(
    model: str, holdout: str, tmp_path: Path
) -> None:
    stream = tiny_stream()
    split = chronological_split(stream, holdout=holdout, seed=1)  # type: ignore[arg-type]
    new = split.new_nodes[stream.src[split.test]] | split.new_nodes[stream.dst[split.test]]
    settings = {"epochs": 1, "batch_size": 30, "dim": 8, "holdout": holdout, "split_seed": 1}
    run = fit(stream, model, out=tmp_path / "run", show=False, **settings)
    metrics = run.metrics
    assert metrics.inductive == LinkMetrics(events=int(new.sum()))
    assert metrics.transductive == metrics.result.old_old
    assert metrics.transductive.events == int((~new).sum())
    assert [isnan(row.val_ap_inductive) for row in metrics.epochs] == [True]
    assert metrics.result.protocol.transductive == "events between nodes seen in training"
    assert metrics.result.protocol.inductive.startswith("not measured")
    assert run.evaluate().result == metrics.result
    ranked, away = run.evaluate("recommend").result, run.evaluate("intervals").result
    assert ranked.inductive == RankMetrics(events=int(new.sum()))
    assert ranked.transductive == ranked.old_old
    assert all(isnan(metrics.ap) for metrics in away.inductive.values())
    assert sum(metrics.events for metrics in away.inductive.values()) == int(new.sum())
    assert away.transductive == away.old_old
    for one in (ranked, away):
        assert one.protocol.inductive.startswith("not measured")


@pytest.mark.parametrize(
    ("holdout", "said"), [("tgn", "all events"), ("paper", "events between nodes seen in training")]
)
def test_the_metrics_say_what_transductive_means(holdout: str, said: str, tmp_path: Path) -> None:
    run = fit(tiny_stream(), "edgebank", out=tmp_path / "run", show=False, holdout=holdout)
    assert run.metrics.result.protocol.transductive == said
    assert run.metrics.result.protocol.inductive == "events with a new node"


def test_nothing_known_to_validate_on(tmp_path: Path) -> None:
    """Every node is new after training: a model that knows none of them cannot be chosen among epochs."""
    n = np.arange(200)
    stream = EventStream.from_arrays(n // 140 * 50 + n % 7, 10 + n // 140 * 50 + n % 5, n)
    for holdout, cure in (("tgn", "ctdne cannot score new nodes"), ("paper", "use holdout=tgn")):
        with pytest.raises(RunError, match=f"no validation event is between two nodes.*{cure}"):
            fit(stream, "ctdne", out=tmp_path / holdout, show=False, holdout=holdout)


def test_features_count(tmp_path: Path) -> None:
    """Other features of events or nodes, other numbers; the same features, the same."""
    plain = tiny_stream(edge_features=5)
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(plain.num_nodes, 4))
    one = plain.with_node_features(vectors)
    again = plain.with_node_features(vectors)
    nodes = plain.with_node_features(vectors[::-1])
    edges = EventStream.from_arrays(
        plain.src, plain.dst, plain.t, edge_features=plain.edge_features[::-1], bipartite=True, origin="tiny"
    ).with_node_features(vectors)
    losses = [
        train(s, tmp_path / f"{i}").metrics.epochs[0].loss for i, s in enumerate((one, again, nodes, edges))
    ]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3
    reopened = Run.open(tmp_path / "0")
    assert reopened.evaluate().result.transductive == reopened.metrics.transductive


def test_text_ids_and_real_times(text_id_run: Run) -> None:
    stream = text_id_stream()
    assert text_id_run.metrics.facts.data.nodes == stream.num_nodes
    assert text_id_run.stream.equals(stream)
    assert text_id_run.stream.ids.labels.tolist() == stream.ids.labels.tolist()


def test_a_stop_in_the_last_walk_is_granted(
    stream: EventStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = loop.replay

    def interrupted(*args: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        walk(*args)

    monkeypatch.setattr(loop, "replay", interrupted)
    with pytest.raises(fitting.Interrupted):
        train(stream, tmp_path / "run")
    assert not (tmp_path / "run" / "serving.pt").exists()


def test_the_best_epoch_is_named_after_the_weights_that_are_tested(
    stream: EventStream, tmp_path: Path
) -> None:
    """Killed between the two files and trained on otherwise (on a GPU, say), they tell different epochs."""
    run = train(stream, tmp_path / "run", epochs=2)
    best = run.folder.load("best.pt")
    other = 3 - best["epoch"]
    run.folder.save("best.pt", best | {"epoch": other})
    (run.path / "metrics.json").unlink()
    assert resume(run.path, show=False).metrics.best_epoch == other
