"""Scores of pairs: many at once against one at a time, and against the model itself."""

from __future__ import annotations

import shutil
from math import exp, log2
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from support.trained import TINY, text_id_stream, tiny_stream

from contig.data.events import EventStream
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError, DataError
from contig.models import NodeState
from contig.runs.run import Run
from contig.streaming.walker import replay
from contig.training.fit import fit

SMALL = {"dim": 8, "time_dim": 6}
MODELS: dict[str, dict[str, Any]] = {
    "contig": SMALL,
    "contig-pair": {**SMALL, "tokens": 4, "width": 6},
    "tgn": SMALL,
    "jodie": SMALL,
    "transition": {},
}


@pytest.fixture(scope="module", params=MODELS)
def any_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of each kind of model on events with ties."""
    name, out = request.param, tmp_path_factory.mktemp("runs") / "run"
    return fit(tiny_stream(), name, out=out, show=False, epochs=1, batch_size=30, **MODELS[name])


def chosen_pairs(run: Run, number: int = 60) -> tuple[list[int], list[int], list[float]]:
    """Pairs at times of events, between them and after the last one, in no order."""
    rng = np.random.default_rng(8)
    stream = run.stream
    events = rng.integers(0, len(stream), number)
    t = stream.t[events] + rng.choice([0.0, 0.5], number)
    t[:4] = [stream.t[0], stream.t[-1], stream.t[-1] + 0.5, stream.t[-1] + 1000]
    sources = stream.ids.labels[stream.src[rng.permutation(events)]].tolist()
    return sources, stream.ids.labels[stream.dst[events]].tolist(), t.tolist()


def logit(run: Run, src: int, dst: int, state: NodeState, when: float, as_of: float) -> float:
    """One pair, scored by the model itself."""
    ids = run.stream.ids
    pair = torch.tensor([ids.find(src, "src")]), torch.tensor([[ids.find(dst, "dst")]])
    t = torch.tensor([when, as_of], dtype=torch.float64)
    with torch.no_grad():
        return run.model.link(state, run.history, *pair, t[:1], t[1]).item()


def replayed(run: Run, events: int) -> NodeState:
    """The state after the first events, in the batches of the stream."""
    state = NodeState(run.model.blank(), run.stream.num_nodes)
    replay(run.model, state, run.history, np.arange(events), run.batch_size)
    return state


@pytest.mark.parametrize("as_of", ["event", "batch"])
def test_many_pairs_score_as_single_ones(as_of: Any, any_run: Run) -> None:
    pairs = chosen_pairs(any_run)
    together = any_run.score(*pairs, as_of=as_of)
    alone = [any_run.score([s], [d], [t], as_of=as_of).score[0] for s, d, t in zip(*pairs, strict=True)]
    np.testing.assert_allclose(together.score, alone, rtol=1e-4, atol=1e-5)
    assert len(np.unique(together.score)) > 1


def test_exact_scores_come_from_the_events_strictly_before(any_run: Run) -> None:
    pairs = chosen_pairs(any_run, 25)
    found = any_run.score(*pairs, as_of="event")
    for row, (s, d, t) in enumerate(zip(*pairs, strict=True)):
        state = replayed(any_run, int((any_run.stream.t < t).sum()))
        assert found.score[row] == pytest.approx(logit(any_run, s, d, state, t, t), rel=1e-4, abs=1e-5)


def test_scores_by_batch_read_the_state_before_the_batch(any_run: Run) -> None:
    """As evaluation scores an event, with the neighbors of its own time."""
    pairs, t = chosen_pairs(any_run, 25), any_run.stream.t
    starts = t[:: any_run.batch_size]
    found = any_run.score(*pairs, as_of="batch")
    for row, (s, d, when) in enumerate(zip(*pairs, strict=True)):
        as_of = max(start for start in starts if start <= when) if when <= t[-1] else t[-1] + 1
        state = replayed(any_run, int((t < as_of).sum()))
        assert found.score[row] == pytest.approx(logit(any_run, s, d, state, when, as_of), rel=1e-4, abs=1e-5)


def test_a_single_time_scores_as_recommend_does(any_run: Run) -> None:
    for at in (None, float(any_run.stream.t[200]), float(any_run.stream.t[-1]) + 77):
        best = any_run.recommend(3, at=at, k=4)
        scores = any_run.score(3, [one.node for one in best], at)
        np.testing.assert_allclose(scores.score, [one.score for one in best], rtol=1e-4, atol=1e-5)


# --- pairs of a file or a table ------------------------------------------------------------------------

PAIRS = ([3, 1, 901, 2, 7], [25, 30, 24, 23, 29], [70, 50, 61, 50, 66])


def as_csv(columns: dict[str, list[Any]], folder: Path) -> Path:
    path = folder / "pairs.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def as_frame(package: str) -> Any:
    return lambda columns, folder: pytest.importorskip(package).DataFrame(columns)


TABLES: dict[str, Any] = {
    "path": as_csv,
    "text": lambda columns, folder: str(as_csv(columns, folder)),
    "dict": lambda columns, folder: columns,
    "arrow": lambda columns, folder: pa.table(columns),
    "pandas": as_frame("pandas"),
    "polars": as_frame("polars"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_scores_as_its_rows_do(kind: str, any_run: Run, tmp_path: Path) -> None:
    """In the order of the rows, which is not that of time, and with an unknown node."""
    expected = any_run.score(*PAIRS, as_of="batch")
    others = {"note": list("abcde"), "f0": [0.5, 1, 2, 3, 4]}  # are not used
    plain = dict(zip(("src", "dst", "t"), PAIRS, strict=True)) | others
    named = dict(zip(("who", "page", "when"), PAIRS, strict=True)) | others
    for columns, options in ((plain, {}), (named, {"src": "who", "dst": "page", "t": "when"})):
        table = TABLES[kind](columns, tmp_path)
        for found in (
            any_run.score_pairs(table, **options),
            any_run.score_pairs(table, ReadOptions(**options)),
        ):
            np.testing.assert_allclose(found.score, expected.score, rtol=1e-5, atol=1e-6)
            assert found.cold_start.tolist() == [False, False, True, False, False]
            assert [found.src.tolist(), found.dst.tolist(), found.t.tolist()] == [*PAIRS]


def test_states_of_a_table_are_read_as_of_batches_unless_events_are_chosen(tmp_path: Path) -> None:
    """Node 1 meets 11 once in a batch of ten events: only a score as of its own time knows it."""
    src, dst, t = [1 + n % 3 for n in range(40)], [11 + n % 4 for n in range(40)], list(range(40))
    run = fit(
        EventStream.from_arrays(src, dst, t), "jodie", out=tmp_path / "run", show=False, epochs=1, dim=8
    )
    pairs = {"src": [1, 2], "dst": [11, 12], "t": [25, 26]}
    nodes = tuple(pairs.values())
    scores = {how: run.score(*nodes, as_of=how).score for how in ("batch", "event")}
    assert np.abs(scores["batch"] - scores["event"]).min() > 1e-3
    np.testing.assert_allclose(run.score_pairs(pairs).score, scores["batch"], rtol=1e-6)
    for how, expected in scores.items():
        np.testing.assert_allclose(run.score_pairs(pairs, as_of=how).score, expected, rtol=1e-6)


def test_a_table_without_rows_has_no_scores(any_run: Run, caplog: pytest.LogCaptureFixture) -> None:
    pairs = pa.table({"src": [1, 2], "dst": [23, 24], "t": [500, 501]})
    found, some = any_run.score_pairs(pairs.slice(0, 0)), any_run.score_pairs(pairs)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "pyarrow Table: there are no events; nothing is scored."
    assert (len(found), repr(found)) == (0, "Scores(0 pairs)")
    assert found.table().schema == some.table().schema


def test_a_table_is_read_by_the_columns_of_the_run(tmp_path: Path) -> None:
    rows = [(f"n{n % 5}", f"m{n % 3}", f"{n // 28 + 1}/{n % 28 + 1}/2024") for n in range(60)]
    log = dict(zip(("sender", "receiver", "day"), map(list, zip(*rows, strict=True)), strict=True))
    columns = {"src": "receiver", "dst": "sender", "t": "day", "date_format": "%m/%d/%Y"}
    run = fit(log, "recency", out=tmp_path / "run", show=False, **columns)
    for opened in (run, Run.open(run.path)):
        found = opened.score_pairs({"day": ["2/20/2024"], "sender": ["n2"], "receiver": ["m1"]})
        assert (found.src.tolist(), found.dst.tolist()) == (["m1"], ["n2"])
        assert found.t.tolist() == [1_708_387_200]
        assert found.score == pytest.approx(opened.score(["m1"], ["n2"], ["2024-02-20"]).score)


def test_the_events_of_a_stream_are_scored(run: Run) -> None:
    labels, part = run.stream.ids.labels, run.stream[200:230]
    expected = run.score(labels[part.src], labels[part.dst], part.t)
    np.testing.assert_allclose(run.score_pairs(part).score, expected.score, rtol=1e-6)


@pytest.mark.parametrize("source", ["pairs.csv", 7, [1, 2]])
def test_a_source_alone_is_refused_with_both_forms(source: Any, run: Run) -> None:
    with pytest.raises(ConfigError, match=r"no dst: pass score\(src, dst, t\), or a file .* to score_pairs"):
        run.score(source)


def test_options_that_do_not_exist_are_refused_before_anything_is_read(run: Run) -> None:
    options: dict[str, Any] = {"as_off": "event"}
    with pytest.raises(ConfigError, match="Unknown reading option 'as_off'"):
        run.score_pairs("nothing.csv", **options)
    when: Any = "now"
    with pytest.raises(ConfigError, match="Unknown value for as_of 'now'"):
        run.score_pairs("nothing.csv", as_of=when)


def test_rows_that_cannot_be_scored_are_named(run: Run, tmp_path: Path) -> None:
    path = as_csv({"src": [1, 2], "dst": [23, 24], "t": [50, -9]}, tmp_path)
    with pytest.raises(DataError, match=r"pairs\.csv, line 3: t=-9 is before the first event"):
        run.score_pairs(path)
    with pytest.raises(DataError, match=r"nothing\.csv: no such file"):
        run.score_pairs("nothing.csv")
    with pytest.raises(DataError, match="events need three columns"):
        run.score_pairs({"src": [1], "dst": [23]})
    with pytest.raises(DataError, match="Cannot read events from an object of type object"):
        run.score_pairs(object())


def test_surprise_is_the_information_of_the_probability(run: Run) -> None:
    found = run.score(*chosen_pairs(run))
    assert found.probability is not None
    assert found.surprise is not None
    for score, probability, surprise in zip(found.score, found.probability, found.surprise, strict=True):
        assert probability == pytest.approx(1 / (1 + exp(-score)))
        assert surprise == pytest.approx(-log2(probability), abs=1e-9)


def test_a_heuristic_has_no_probabilities(tmp_path: Path) -> None:
    run = fit(tiny_stream(), "edgebank", out=tmp_path / "run", show=False)
    found = run.score([1, 2], 23)
    assert found.probability is None
    assert found.table().column_names == ["src", "dst", "t", "score", "last_event", "cold_start"]


def test_scores_say_what_they_know(run: Run) -> None:
    src, dst, t = chosen_pairs(run)
    found = run.score(src, dst, t)
    assert (found.src.tolist(), found.dst.tolist(), found.t.tolist()) == (src, dst, t)
    for row, when in enumerate(t):
        before = [one for one in run.stream.t.tolist() if one < when]
        assert found.known_events[row] == len(before)
        assert found.last_event[row] == before[-1] if before else found.last_event[row] is np.ma.masked
    assert found.table()["last_event"].null_count == found.last_event.mask.sum() > 0


def test_ids_may_be_text_and_times_dates(tmp_path: Path) -> None:
    run = fit(text_id_stream(), out=tmp_path / "run", epochs=1, show=False, **TINY)
    found = run.score(np.array(["n12", "n3"]), "n12", [40.5, 41.5])
    assert found.score == pytest.approx(
        [run.score("n12", "n12", [40.5]).score[0], run.score("n3", "n12", [41.5]).score[0]], rel=1e-4
    )
    with pytest.raises(DataError, match="do not look like dates"):
        run.score("n3", "n12", ["2024-05-01"])


def test_where_sides_share_ids_unknown_nodes_are_cold_starts_in_any_row(tmp_path: Path) -> None:
    """Users 0 to 6 and items 0 to 11: item 9 says nothing about a user 9."""
    src, dst = np.arange(60) % 7, np.arange(60) % 12
    stream = EventStream.from_arrays(src, dst, np.arange(60), bipartite=True)
    run = fit(stream, "popularity", out=tmp_path / "run", show=False)
    found = run.score([3, 9, 99], [4, 4, 4])
    assert found.cold_start.tolist() == [False, True, True]
    for order in ([9, 99], [99, 9]):
        assert run.score(order, [4, 4]).cold_start.tolist() == [True, True]
    assert run.score([9], [4]).score == pytest.approx(found.score[1:2])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (([1, 23], [23, 24], [50, 60]), r"row 1 \(counted from 0\): node 23 is a destination"),
        (([99, 1], [23, 2], [50, 60]), "row 1 .*: node 2 is a source in this stream, but a destination here"),
        ((["x", "1"], [23, 24], [50, 60]), "ids of this run are whole numbers such as .*'x'"),
        (([1, 2], [23, 24], [50, -9]), "row 1 .*: t=-9 is before the first event"),
        (([1, 2], [23, 24], [50.0, float("nan")]), "row 1 .*: t=nan: pass a finite time"),
        (([1, 2], [23, 24, 25], [50, 60]), "columns differ in length"),
        (([1, 2], [23, 24], [50, 60, 70]), "columns differ in length"),
        (([1, 2], [23, 24], [[50, 60]]), "t must be a time, or one time per pair"),
        (([1.5, 2], [23, 24], [50, 60]), "row 0 .*1.5"),
        (([], [], []), "no events"),
    ],
)
def test_wrong_pairs_are_refused(pairs: Any, message: str, run: Run) -> None:
    with pytest.raises(DataError, match=message):
        run.score(*pairs)


def test_an_unknown_as_of_is_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match="Unknown value for as_of 'now'"):
        run.score(1, 23, as_of="now")  # type: ignore[arg-type]


def test_an_unknown_node_scores_as_one_without_events(any_run: Run, tmp_path: Path) -> None:
    """A run that was given the nodes' first events scores them at times before these."""
    end, nodes = any_run.stream.t[-1], any_run.stream.num_nodes
    dst = any_run.stream.ids.labels[any_run.stream.dst[:3]].tolist()
    sources, destinations, at = [901, 901, 901, dst[0], 901], [*dst, 902, 902], end + 5
    if any_run.stream.ids.bipartite:
        sources[3] = any_run.stream.ids.labels[any_run.stream.src[0]].item()
    found = any_run.score(sources, destinations, at)
    assert found.cold_start.all()
    assert any_run.stream.num_nodes == any_run.history.num_nodes == nodes
    shutil.copytree(any_run.path, tmp_path / "run")
    other = Run.open(tmp_path / "run", "cpu")
    table = {"src": [901, sources[3]], "dst": [dst[1], 902], "t": [end + 50, end + 60]}
    assert other.observe(table) == 2
    expected = other.score(sources, destinations, at)
    assert expected.cold_start.all()
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-4, atol=1e-5)
    assert not other.score([901], [dst[1]], end + 51).cold_start.any()


def test_cold_starts_are_counted_by_hand(any_run: Run) -> None:
    sources, destinations, t = chosen_pairs(any_run)
    sources[:2] = [901, 902]
    found, stream, labels = any_run.score(sources, destinations, t), any_run.stream, any_run.stream.ids.labels

    def has_events(node: int, when: float, is_dst: bool) -> bool:
        past = stream.t < when
        both = (labels[stream.src[past]], labels[stream.dst[past]])
        return node in both[is_dst] or (not stream.ids.bipartite and node in both[not is_dst])

    expected = [
        not (has_events(s, when, False) and has_events(d, when, True))
        for s, d, when in zip(sources, destinations, t, strict=True)
    ]
    assert found.cold_start.tolist() == expected
    assert 2 < sum(expected) < len(expected)


def test_scores_become_a_frame(run: Run) -> None:
    pytest.importorskip("pandas")
    found = run.score([1, 2, 901], [23, 24, 25], [50, 70, 60])
    frame = found.to_frame()
    assert frame.columns.tolist() == found.table().column_names
    assert frame["score"].tolist() == found.score.tolist()
    assert frame["cold_start"].tolist() == [False, False, True]
    low, high = sorted(found.score)[0], sorted(found.score)[-1]
    assert repr(found) == f"Scores(3 pairs, t 50 to 70; score {low:.4g} to {high:.4g}; 1 cold start)"
