"""Classification of a run's own and of new events: causal, and saved with the run."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.metrics import roc_auc_score
from support.commands import Answer
from support.labels import quick_classifiers
from support.trained import TINY, fast_training

import contig
from contig.data.shop import FEATURES, shop_table
from contig.errors import ConfigError, DataError, RunError
from contig.runs.classifying import FILE, load_classifier
from contig.runs.folder import RunFolder
from contig.tasks.label_classifier import MARGIN, LabelClassifier

COLUMNS = {"src": "user", "dst": "item", "t": "time", "label": "fraud"}
FLAGS = ("--src", "user", "--dst", "item", "--time", "time")
ORDERS, CUT = 3_000, 2_600
SETTINGS = {**TINY, "epochs": 1, "batch_size": 200, "show": False}


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Few trees and short training of decoders: what is tested here does not depend on their quality."""
    with pytest.MonkeyPatch.context() as patch, fast_training():
        quick_classifiers(patch)
        yield


@pytest.fixture(scope="module")
def log() -> pa.Table:
    return shop_table(ORDERS, seed=4, ring=True)


@pytest.fixture(scope="module")
def run(log: pa.Table, tmp_path_factory) -> contig.Run:
    out = tmp_path_factory.mktemp("classify") / "run"
    run = contig.fit(log.slice(0, CUT), out=out, **COLUMNS, features=FEATURES, **SETTINGS)
    run.classify(show=False)
    return run


@pytest.fixture(scope="module")
def later(log: pa.Table) -> pa.Table:
    return log.slice(CUT)


def test_its_own_events_are_measured_on_the_test_part(run: contig.Run, log: pa.Table) -> None:
    found = run.classify(show=False)
    assert len(found) == CUT
    assert found.src.tolist() == log["user"].to_pylist()[:CUT]
    test = found.part == "test"
    assert np.array_equal(np.flatnonzero(test), run.split.test)
    truth = np.array(log["fraud"].to_pylist()[:CUT])[test]
    assert found.quality.auc == pytest.approx(roc_auc_score(truth, found.probability[test]))
    assert found.baseline_quality.auc == pytest.approx(roc_auc_score(truth, found.baseline[test]))
    assert (found.quality.events, found.quality.positives) == (len(truth), truth.sum())
    assert 0 <= found.probability.min() <= found.probability.max() <= 1
    aucs, baseline = found.validation_aucs, found.validation_aucs["trees on simple columns"]
    ahead = max(aucs.values()) > baseline + MARGIN
    assert aucs[found.decoder] == (max(aucs.values()) if ahead else baseline)
    assert set(found.table().column_names) == {
        "src",
        "dst",
        "t",
        "probability",
        "baseline",
        "label",
        "part",
    } | {"last_event"}


def test_it_is_shown_in_one_line(run: contig.Run, later: pa.Table) -> None:
    own, new = run.classify(show=False), run.classify(later.drop_columns("fraud"), show=False)
    assert repr(own).endswith(f"AP {100 * own.quality.ap:.2f}% of the test events)")
    assert repr(new) == (
        f"Classification({len(later):,} events; probability {new.probability.min():.4g} to "
        f"{new.probability.max():.4g})"
    )
    one = run.classify(later.slice(0, 1), show=False)
    assert "AUC" not in repr(one)  # of a single label
    with pytest.raises(ConfigError, match="refit='no': expected True, False or None"):
        run.classify(refit="no", show=False)


def test_a_file_without_rows_gives_nothing(
    run: contig.Run, later: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    found = run.classify(later.slice(0, 0), show=False)
    assert [record.getMessage() for record in caplog.records] == [
        "pyarrow Table: there are no events; nothing is classified."
    ]
    some = run.classify(later.slice(0, 3), show=False)
    assert (len(found), repr(found), found.warnings) == (0, "Classification(0 events)", ())
    assert found.table().schema == some.table().schema
    (run.path / FILE).rename(run.path / "kept")
    try:
        assert run.classify(later.slice(0, 0), show=False).decoder == "none"  # none is fitted for nothing
        assert not (run.path / FILE).exists()
    finally:
        (run.path / "kept").rename(run.path / FILE)
    with pytest.raises(DataError, match="there are no events, so nothing can be measured"):
        run.evaluate(data=later.slice(0, 0))


def test_frames_have_dates_where_the_log_has(run: contig.Run, later: pa.Table) -> None:
    found = run.classify(later, show=False)
    frame = found.to_frame()
    assert frame["t"].tolist() == [pd.Timestamp(t, unit="s", tz="UTC") for t in found.t.tolist()]
    assert frame["probability"].tolist() == found.probability.tolist()
    assert replace(found, dates=False).to_frame()["t"].tolist() == found.t.tolist()


def test_a_saved_classifier_gives_equal_probabilities(run: contig.Run, later: pa.Table) -> None:
    first = run.classify(later, **COLUMNS, show=False)
    opened = contig.Run.open(run.path)
    before = (run.path / FILE).stat().st_mtime_ns
    again = opened.classify(later, **COLUMNS, show=False)
    np.testing.assert_allclose(again.probability, first.probability, rtol=1e-6)
    np.testing.assert_allclose(again.baseline, first.baseline, rtol=1e-6)
    assert (run.path / FILE).stat().st_mtime_ns == before  # fitted once
    assert len(opened.stream) == CUT  # the run has not observed the events
    assert again.part is None
    assert again.quality.positives == sum(later["fraud"].to_pylist())


def test_the_future_changes_no_decision(run: contig.Run, later: pa.Table) -> None:
    """Later events and labels, and an event's own label, leave the probability of an event as it is."""
    row = 150
    time = later["time"].to_numpy()
    keep = int(np.searchsorted(time, time[row], side="right"))
    whole = run.classify(later, **COLUMNS, show=False)
    labels = later["fraud"].to_numpy().copy()
    labels[time >= time[row]] ^= 1
    changed = later.set_column(later.column_names.index("fraud"), "fraud", pa.array(labels))
    for other in (later.slice(0, keep), changed):
        found = run.classify(other, **COLUMNS, show=False)
        assert found.probability[row] == pytest.approx(whole.probability[row], rel=1e-5)
        assert found.baseline[row] == pytest.approx(whole.baseline[row], rel=1e-9)


def test_with_a_delay_recent_labels_do_not_count(run: contig.Run, later: pa.Table, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    opened = contig.Run.open(copy)
    span = later["time"].to_numpy()[-1] - later["time"].to_numpy()[0]
    delay = float(span.astype("timedelta64[s]").astype(int)) + 1
    known = opened.classify(later, **COLUMNS, label_delay=delay, show=False)
    unknown = opened.classify(later.drop_columns("fraud"), **COLUMNS | {"label": None}, show=False)
    assert unknown.label_delay == delay  # that of the saved classifier
    assert unknown.quality is None
    np.testing.assert_allclose(known.probability, unknown.probability, rtol=1e-6)
    assert load_classifier(opened, 0.0) is None  # it was fitted for another delay


def test_labels_of_observed_events_count(run: contig.Run, later: pa.Table, tmp_path: Path) -> None:
    """Observing a part with its labels and classifying the rest gives what classifying all gives."""
    copy, cut = tmp_path / "run", 250
    shutil.copytree(run.path, copy)
    whole = contig.Run.open(copy).classify(later, **COLUMNS, show=False)
    first = contig.Run.open(copy)
    first.observe(later.slice(0, cut), **COLUMNS)
    opened = contig.Run.open(copy)
    assert opened.observed_labels.tolist() == later["fraud"].to_pylist()[:cut]
    rest = opened.classify(later.slice(cut), **COLUMNS, show=False)
    np.testing.assert_allclose(rest.baseline, whole.baseline[cut:], rtol=1e-9)  # reads no state
    without = tmp_path / "without"
    shutil.copytree(run.path, without)
    bare = contig.Run.open(without)
    bare.observe(later.slice(0, cut).drop_columns("fraud"), **COLUMNS | {"label": None})
    assert set(bare.observed_labels.tolist()) == {-1}
    bare.observed_labels = np.ones(cut, np.int64)
    other = bare.classify(later.slice(cut), **COLUMNS, show=False)
    assert not np.allclose(other.baseline, rest.baseline)


def test_missing_labels_are_unknown(run: contig.Run, later: pa.Table, tmp_path: Path) -> None:
    place = later.column_names.index("fraud")
    known = np.arange(len(later)) % 3 == 0
    some = pa.array(later["fraud"].to_numpy(), mask=~known)
    partly = run.classify(later.set_column(place, "fraud", some), **COLUMNS, show=False)
    truth = later["fraud"].to_numpy()[known]
    assert partly.quality.events == known.sum()
    table = partly.table()
    assert table["label"].null_count == (~known).sum()
    times = later["time"].to_numpy().astype("datetime64[s]").astype(np.int64)
    before = max(run.stream.t[-1], times[times < times[-1]].max())
    assert table["last_event"].to_pylist()[-1] == before
    assert partly.quality.auc == pytest.approx(roc_auc_score(truth, partly.probability[known]))
    pa.csv.write_csv(later.set_column(place, "fraud", some), tmp_path / "partly.csv")
    read = run.classify(tmp_path / "partly.csv", **COLUMNS, show=False)
    np.testing.assert_allclose(read.probability, partly.probability, rtol=1e-6)
    nothing = pa.nulls(len(later), pa.int64())
    unlabeled = run.classify(later.set_column(place, "fraud", nothing), **COLUMNS, show=False)
    assert unlabeled.quality is None
    assert not np.allclose(unlabeled.probability, partly.probability)


def test_a_run_that_learned_from_everything_classifies_new_events(log, later, tmp_path: Path) -> None:
    settings = {**SETTINGS, "final": True}
    run = contig.fit(log.slice(0, CUT), out=tmp_path / "run", **COLUMNS, features=FEATURES, **settings)
    found = run.classify(later, **COLUMNS, show=False)
    assert found.quality.events == len(later)
    own = run.classify(show=False)
    assert own.quality is None
    assert set(own.part.tolist()) == {"train", "validation"}


def test_a_refitted_run_classifies_with_the_labels_it_knows(run, later: pa.Table, tmp_path: Path) -> None:
    place, half = later.column_names.index("fraud"), len(later) // 2
    known = np.arange(half) % 4 != 0
    some = pa.array(later["fraud"].to_numpy()[:half], mask=~known)
    new = later.slice(0, half).set_column(place, "fraud", some)
    again = contig.refit(run.path, new, out=tmp_path / "again", show=False, **COLUMNS)
    assert again.trained_stream.label[CUT:].tolist() == [
        -1 if one is None else one for one in some.to_pylist()
    ]
    found = again.classify(later.slice(half), **COLUMNS, show=False)
    assert found.quality.events == len(later) - half
    unknown = again.classify(show=False).part == "unused"
    assert np.flatnonzero(unknown).tolist() == (CUT + np.flatnonzero(~known)).tolist()


def test_events_are_answered_in_the_order_of_the_file(run: contig.Run, later: pa.Table) -> None:
    order = np.random.default_rng(0).permutation(len(later))
    sorted_, shuffled = (
        run.classify(table, **COLUMNS, show=False) for table in (later, later.take(pa.array(order)))
    )
    assert shuffled.src.tolist() == sorted_.src[order].tolist()
    ties = len(np.unique(later["time"].to_numpy())) < len(later)
    assert not ties or shuffled.t.tolist() == sorted_.t[order].tolist()
    np.testing.assert_allclose(shuffled.probability, sorted_.probability[order], rtol=1e-4)


def test_unseen_nodes_categories_and_missing_values_are_welcome(run: contig.Run) -> None:
    last = run.stream.t[-1].item()
    table = pa.table(
        {
            "user": ["nobody", "user-000001"],
            "item": ["nothing", "item-00001"],
            "time": [last + 5, last + 6],
            "price": pa.array([None, 1e9]),
            "category": ["new", None],
            "payment": pa.array([None, "barter"]),
        }
    )
    found = run.classify(table, src="user", dst="item", t="time", show=False)
    assert found.src.tolist() == ["nobody", "user-000001"]
    assert np.isfinite(found.probability).all()


def test_a_damaged_classifier_is_refused(run: contig.Run, later: pa.Table, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    content = bytearray((copy / FILE).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / FILE).write_bytes(content)
    with pytest.raises(RunError, match=r"classifier\.pt is damaged"):
        contig.Run.open(copy).classify(later, **COLUMNS, show=False)
    opened = contig.Run.open(run.path)
    saved = opened.folder.load(FILE)
    for broken in ({**saved, "chosen": {}}, {**saved, "delay": "soon"}, {"serving": saved["serving"]}):
        with opened.folder.locked():
            opened.folder.save(FILE, broken)
        with pytest.raises(RunError, match=r"classifier\.pt does not fit .* Delete it"):
            opened.classify(later, **COLUMNS, show=False)
    with opened.folder.locked():
        opened.folder.save(FILE, saved)


def test_a_classifier_of_other_weights_is_not_used(run: contig.Run, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    contig.resume(copy, epochs=2, show=False)
    assert not (copy / FILE).exists()


def test_a_classifier_is_saved_for_the_weights_it_was_fitted_on(
    run: contig.Run, later: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    opened, waits = contig.Run.open(path), []
    fitted, serving = load_classifier(opened, None), (path / "serving.pt").read_bytes()
    (path / FILE).unlink()
    locked = RunFolder.locked
    monkeypatch.setattr(RunFolder, "locked", lambda f, *, wait=False: waits.append(wait) or locked(f))
    monkeypatch.setattr(LabelClassifier, "fit", lambda *arguments: fitted)
    assert opened.classify(later, show=False).decoder == fitted.chosen.name
    assert waits == [True]  # for another process that writes at that moment
    assert load_classifier(opened, None) is not None

    def trained_further_meanwhile(*arguments: object) -> LabelClassifier:
        (path / "serving.pt").write_bytes(serving + b"other")
        return fitted

    (path / FILE).unlink()
    monkeypatch.setattr(LabelClassifier, "fit", trained_further_meanwhile)
    with pytest.raises(RunError, match="trained further by another process"):
        opened.classify(later, show=False)
    assert not (path / FILE).exists()


def test_a_run_in_training_is_refused(run: contig.Run, later: pa.Table, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    (copy / "metrics.json").unlink()
    opened = contig.Run.open(copy)
    for events in (None, later):
        with pytest.raises(RunError, match="was not finished"):
            opened.classify(events, **COLUMNS, show=False)


def test_a_heuristic_classifies_without_embeddings(log: pa.Table, tmp_path: Path) -> None:
    run = contig.fit(log.slice(0, CUT), "popularity", out=tmp_path / "run", **COLUMNS, show=False)
    found = run.classify(show=False)
    assert not any("embeddings" in name for name in found.validation_aucs)
    assert found.quality.auc > 0.5


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 2.0**62, True, "a week"])
def test_bad_delays_are_refused(run: contig.Run, delay) -> None:
    with pytest.raises(ConfigError, match="label_delay="):
        run.classify(label_delay=delay, refit=True, show=False)


def test_a_delay_longer_than_the_training_part_is_refused(run: contig.Run) -> None:
    t = run.trained_stream.t[run.split.train]
    with pytest.raises(ConfigError, match="no label of the training part would be known before its end"):
        run.classify(label_delay=float(t[-1] - t[0]), refit=True, show=False)
    assert contig.Run.open(run.path).classify(show=False).label_delay == 0  # the saved one is kept


def test_known_events_are_skipped_on_request(run: contig.Run, log: pa.Table, later: pa.Table) -> None:
    found = run.classify(log.slice(CUT - 50), repeated="skip", **COLUMNS, show=False)
    assert found.table().equals(run.classify(later, **COLUMNS, show=False).table())


def test_bad_events_are_refused(run: contig.Run, log: pa.Table, later: pa.Table) -> None:
    with pytest.raises(DataError, match=r"run already knows .* use repeated='skip' \(--repeated skip\)"):
        run.classify(log.slice(CUT - 5), **COLUMNS, show=False)
    wrong = later.set_column(later.column_names.index("fraud"), "fraud", pa.array([3] * len(later)))
    with pytest.raises(DataError, match=r"row 0 .*label 3 is neither 0 nor 1"):
        run.classify(wrong, **COLUMNS, show=False)
    with pytest.raises(DataError, match="no column 'category'"):
        run.classify(later.drop_columns("category"), **COLUMNS, show=False)
    with pytest.raises(DataError, match="no column 'crime' for the labels"):
        run.classify(later, **COLUMNS | {"label": "crime"}, show=False)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (None, "has no labels to classify"),
        ([0, 2] * 200, "label 2 is neither 0 nor 1"),
        ([0] * 400, "0 of the .* training events have label 1"),
    ],
)
def test_a_run_without_useful_labels_is_refused(labels, problem: str) -> None:
    stream = contig.synthetic(400, seed=1)
    stream = replace(stream, label=None if labels is None else np.array(labels))
    run = contig.fit(stream, "popularity", show=False)
    with pytest.raises(DataError, match=problem):
        run.classify(show=False)
    if labels is None:  # that comes first, also where the events are known or cannot be read
        with pytest.raises(DataError, match=problem):
            run.classify("nowhere.csv", show=False)


def test_the_command_writes_probabilities(run: contig.Run, later: pa.Table, tmp_path: Path) -> None:
    pa.csv.write_csv(later, tmp_path / "later.csv")
    out = tmp_path / "p.parquet"
    answer = Answer(
        "classify", run.path, "--data", tmp_path / "later.csv", *FLAGS, "--label", "fraud", "--out", out
    )
    assert answer.code == 0, answer.err
    import pyarrow.parquet as pq

    expected = run.classify(later, **COLUMNS, show=False)
    np.testing.assert_allclose(pq.read_table(out)["probability"].to_numpy(), expected.probability, rtol=1e-5)
    rows = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line.strip()}
    assert float(rows["classifier"][0]) == pytest.approx(100 * expected.quality.auc, abs=0.01)
    assert float(rows["baseline"][0]) == pytest.approx(100 * expected.baseline_quality.auc, abs=0.01)
    pa.csv.write_csv(later.drop_columns("fraud"), tmp_path / "unlabeled.csv")
    content = Answer("classify", run.path, "--data", tmp_path / "unlabeled.csv", *FLAGS, "--json").json
    assert content["quality"] is None
    assert content["labels"]["validation"]["events"] == len(run.split.val)
    unlabeled = Answer("classify", run.path, "--data", tmp_path / "unlabeled.csv", *FLAGS)
    assert "was not measured: the events have no labels" in unlabeled.err
    assert "--label" not in unlabeled.err  # the file has no such column
    own = Answer("classify", run.path, "--json").json
    assert own["quality"]["events"] == len(run.split.test)


def test_the_command_refuses_bad_input(run: contig.Run, tmp_path: Path) -> None:
    cases = [
        (("--out", tmp_path / "x.txt"), "Unknown file format"),
        (("--data", tmp_path / "nowhere.csv"), "no such file"),
        (("--label-delay", "-3", "--refit"), "label_delay=-3.0"),
        (("--label", "fraud"), "label is an option for reading a file; name the file with --data"),
    ]
    for arguments, problem in cases:
        answer = Answer("classify", run.path, *arguments)
        assert answer.code == 2
        assert problem in " ".join(answer.err.split())
    assert Answer("classify", tmp_path).code == 2
