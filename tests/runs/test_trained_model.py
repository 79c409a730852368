"""Answers of a trained model: embeddings, recommendations and trajectories."""

from __future__ import annotations

import pickle
from datetime import datetime
from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.trained import TINY, bit_identical, text_id_stream

from contig.data.events import EventStream
from contig.errors import ConfigError, DataError
from contig.history import History
from contig.models import EventBatch, NodeState
from contig.runs import recommending, trained_model
from contig.runs.recommending import best
from contig.runs.run import Run
from contig.runs.trained_model import TrainedModel
from contig.streaming.walker import replay
from contig.tasks.ranking import best_first
from contig.training.fit import fit

MAY = 1_714_521_600  # midnight before 1 May 2024, UTC


def truncated(run: Run, when: float) -> TrainedModel:
    """The model with the same weights if the stream had ended before ``when``."""
    stream = run.stream[: int(np.count_nonzero(run.stream.t < when))]
    state = NodeState(run.model.blank(), stream.num_nodes)
    if len(stream):
        everything = np.arange(len(stream))
        replay(run.model, state, History.from_stream(stream), everything, run.batch_size)
    return TrainedModel(stream, run.model, state, run.batch_size)


def embedded(run: TrainedModel, when: float) -> NDArray[np.float32]:
    """All nodes at a time, computed by the model directly."""
    t = torch.tensor(when, dtype=torch.float64)
    nodes = torch.arange(run.stream.num_nodes)
    with torch.no_grad():
        return run.model.embed(run.state, run.history, nodes, t.repeat(len(nodes)), t).numpy()


# --- embeddings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("offset", [0, 0.5, 1], ids=["at-an-event", "between", "after"])
def test_answers_use_the_past_alone(share: float, offset: float, run: Run) -> None:
    """Deleting the events at or after the time of the query changes nothing."""
    when = run.stream.t[int(share * (len(run.stream) - 1))].item() + offset
    past = truncated(run, when)
    assert np.array_equal(run.embed(at=when), embedded(past, when))


def test_answers_use_the_past_alone_with_real_times(text_id_run: Run) -> None:
    for when in (text_id_run.stream.t[100].item(), 45.678, text_id_run.stream.t[-1].item()):
        assert np.array_equal(text_id_run.embed(at=when), embedded(truncated(text_id_run, when), when))


def test_an_event_changes_the_embedding_of_its_source(run: Run) -> None:
    event = 250
    when, src = run.stream.t[event].item(), int(run.stream.src[event])
    before, after = run.embed(at=when), run.embed(at=when + 1)
    assert not np.array_equal(before[src], after[src])


def test_nodes_are_equal_before_the_first_event(run: Run) -> None:
    first = run.embed(at=run.stream.t[0].item())
    # up to the last bits, which depend on a row's place in a matrix product
    np.testing.assert_allclose(first, np.broadcast_to(first[0], first.shape), rtol=1e-5, atol=1e-6)


def test_ambiguous_arguments_are_refused(run: Run) -> None:
    node = run.stream.ids.labels[0].item()
    for nodes in (node, str(node)):
        with pytest.raises(ConfigError, match=r"pass a list of ids, such as \["):
            run.embed(nodes)  # type: ignore[arg-type]
    for k in (0, 1.5):
        with pytest.raises(ConfigError, match=f"k={k}"):
            run.recommend(node, k=k)  # type: ignore[arg-type]
    for size in (0, -1):
        with pytest.raises(ConfigError, match=f"batch_size={size}"):
            run.evaluate(batch_size=size)


def test_embeddings_move_between_whole_times(run: Run) -> None:
    """Integer times are no limit to the time of a query."""
    last = run.stream.t[-1].item()
    whole, half = run.embed(at=last + 1), run.embed(at=last + 1.5)
    assert not np.array_equal(whole, half)
    assert np.array_equal(whole, run.embed(at=last + 1.0))


def test_the_default_time_is_just_after_the_last_event(run: Run, text_id_run: Run) -> None:
    assert np.array_equal(run.embed(), run.embed(at=run.stream.t[-1].item() + 1))
    last = text_id_run.stream.t[-1]
    assert np.array_equal(text_id_run.embed(), text_id_run.embed(at=np.nextafter(last, np.inf).item()))
    assert not np.array_equal(text_id_run.embed(), text_id_run.embed(at=last.item()))


def test_queries_change_nothing(run: Run) -> None:
    files = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    state, weights = run.state.clone(), {k: v.clone() for k, v in run.model.state_dict().items()}
    middle = run.stream.t[200].item()
    first = (run.embed(), run.embed(at=middle), run.recommend(int(run.stream.ids.labels[0]), k=4))
    run.evaluate(negatives="historical")
    run.trajectory(int(run.stream.ids.labels[0]), [middle, middle + 2], side="src")
    second = (run.embed(), run.embed(at=middle), run.recommend(int(run.stream.ids.labels[0]), k=4))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
    assert first[2] == second[2]
    assert bit_identical(state.snapshot(), run.state.snapshot())
    assert bit_identical(weights, dict(run.model.state_dict()))
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == files


def test_the_order_of_queries_does_not_matter(run: Run) -> None:
    """The state kept between queries changes no answer, whether times ascend or not."""
    t = run.stream.t
    node = run.stream.ids.labels[1].item()
    times = [
        t[40].item(),
        t[200].item() + 0.5,
        t[200].item() + 0.5,
        t[320].item(),
        t[90].item(),
        t[-1].item(),
    ]
    opened = Run.open(run.path)
    for when in times:
        assert np.array_equal(opened.embed(at=when), Run.open(run.path).embed(at=when))
        assert opened.recommend(node, at=when) == Run.open(run.path).recommend(node, at=when)
    assert np.array_equal(opened.embed(), run.embed())


def test_ascending_times_observe_every_event_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from those of the batch that contains the time of the query."""
    opened, size, seen = Run.open(run.path), run.config.train.batch_size, 0
    observe = opened.model.observe

    def counted(state: NodeState, history: History, batch: EventBatch) -> None:
        nonlocal seen
        seen += len(batch.event)
        observe(state, history, batch)

    monkeypatch.setattr(opened.model, "observe", counted)
    times = np.linspace(run.stream.t[0], run.stream.t[-1], 13)
    for when in times:
        opened.embed(at=when)
    largest_tie = max(np.bincount(run.stream.t))
    assert seen <= len(run.stream) + len(times) * (size + largest_tie)


def test_queries_in_parts_give_the_same_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, best = run.embed(), run.recommend(run.stream.ids.labels[3].item())
    monkeypatch.setattr(trained_model, "QUERIES_AT_ONCE", 5)
    monkeypatch.setattr(recommending, "CANDIDATES_AT_ONCE", 5)
    np.testing.assert_allclose(run.embed(), whole, rtol=1e-4, atol=1e-6)
    again = run.recommend(run.stream.ids.labels[3].item())
    assert [one.score for one in again] == pytest.approx([one.score for one in best], rel=1e-4)


# --- ids and times -------------------------------------------------------------------------------------


def test_nodes_are_named_by_the_user_s_ids(text_id_run: Run) -> None:
    """Rows have the order of the query; an id on both sides is two nodes."""
    everything = text_id_run.embed()
    labels, is_dst = text_id_run.stream.ids.labels, text_id_run.stream.ids.is_dst
    assert is_dst is not None
    row = {(str(name), bool(d)): i for i, (name, d) in enumerate(zip(labels, is_dst, strict=True))}
    assert ("n12", False) in row
    assert ("n12", True) in row
    picked = text_id_run.embed(["n16", "n2", "n16"])
    expected = everything[[row["n16", True], row["n2", False], row["n16", True]]]
    np.testing.assert_allclose(picked, expected, rtol=1e-5, atol=1e-6)
    for side, dst in (("src", False), ("dst", True)):
        one = text_id_run.embed(["n12"], side=side)  # type: ignore[arg-type]
        np.testing.assert_allclose(one[0], everything[row["n12", dst]], rtol=1e-5, atol=1e-6)
    with pytest.raises(DataError, match=r"'n12' is both.*side='src'"):
        text_id_run.embed(["n12"])


def test_unknown_ids_come_with_examples(text_id_run: Run, run: Run) -> None:
    with pytest.raises(DataError, match="'n99' is not in this stream; its ids look like 'n0'"):
        text_id_run.embed(["n99"])
    with pytest.raises(DataError, match="'n16' is a destination in this stream; expected a source"):
        text_id_run.recommend("n16")
    with pytest.raises(DataError, match="ids look like 0, 1, 2"):
        run.trajectory(12345, [1.0])


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e30])
def test_times_must_be_finite(at: float, run: Run) -> None:
    with pytest.raises(DataError, match="finite time"):
        run.embed(at=at)


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on ten days of May 2024, in seconds."""
    rng = np.random.default_rng(3)
    t = np.sort(rng.integers(MAY, MAY + 10 * 86_400, 200))
    stream = EventStream.from_arrays(rng.integers(0, 9, 200), rng.integers(9, 15, 200), t, origin="dated")
    return fit(stream, out=tmp_path_factory.mktemp("runs") / "dated", epochs=1, show=False, **TINY)


def test_times_can_be_dates(dated: Run) -> None:
    seconds = MAY + 3 * 86_400 + 6 * 3600
    embedded, best = dated.embed(at=seconds), dated.recommend(2, at=seconds)
    for date in ("2024-05-04T06:00", datetime(2024, 5, 4, 6), np.datetime64("2024-05-04T06:00:00")):
        assert np.array_equal(dated.embed(at=date), embedded)
        assert dated.recommend(2, at=date) == best
    numbers = [MAY + 86_400, seconds]
    path = dated.trajectory(2, numbers)
    for dates in (
        ["2024-05-02", "2024-05-04T06:00Z"],
        [datetime(2024, 5, 2), "2024-05-04 06:00"],
        np.array(["2024-05-02T00", "2024-05-04T06"], dtype="datetime64[h]"),
    ):
        found = dated.trajectory(2, dates)
        assert found.times.tolist() == numbers
        assert np.array_equal(found.embeddings, path.embeddings)
    for ask in (dated.embed, dated.recommend):
        with pytest.raises(DataError, match="at='noon': not a time"):
            ask(*([2] if ask == dated.recommend else []), at="noon")
    with pytest.raises(DataError, match="times: 'noon': not a time"):
        dated.trajectory(2, ["2024-05-02", "noon"])


# --- trajectories --------------------------------------------------------------------------------------


def test_a_trajectory_is_a_sequence_of_embeddings(run: Run) -> None:
    """At events, between them, twice at one time, before the first and after the last."""
    t = run.stream.t
    node = run.stream.ids.labels[1].item()
    times = [t[0] - 3, t[0], t[5], t[5], t[90] + 0.25, t[180], t[181] + 0.5, t[300], t[-1], t[-1] + 1000.5]
    path = run.trajectory(node, times, side="src")
    assert path.node == node
    assert path.times.tolist() == times
    for time, row in zip(times, path.embeddings, strict=True):
        assert np.array_equal(row, run.embed([node], at=float(time), side="src")[0])
    assert len(np.unique(path.embeddings, axis=0)) > 4


def test_a_trajectory_does_not_depend_on_its_other_times(text_id_run: Run) -> None:
    times = np.linspace(1.0, 95.0, 23)
    path = text_id_run.trajectory("n3", times)
    sparse = text_id_run.trajectory("n3", times[::4])
    assert np.array_equal(path.embeddings[::4], sparse.embeddings)


@pytest.mark.parametrize("times", [[], [3.0, 2.0], [[1.0], [2.0]]])
def test_times_must_ascend(times: list[float], text_id_run: Run) -> None:
    with pytest.raises(DataError, match="ascending"):
        text_id_run.trajectory("n3", times)


# --- recommendations -----------------------------------------------------------------------------------


def scored(run: Run, source: int, when: float) -> list[tuple[float, int]]:
    """Score every destination met before a time one by one; best first, ties by id."""
    state = NodeState(run.model.blank(), run.stream.num_nodes)
    past = np.flatnonzero(run.stream.t < when)
    replay(run.model, state, run.history, past, run.config.train.batch_size)
    t = torch.tensor([when], dtype=torch.float64)
    rows = []
    for other in sorted(set(run.stream.dst[past].tolist()) - {source}):
        with torch.no_grad():
            pair = torch.tensor([source]), torch.tensor([[other]])
            logit = run.model.link(state, run.history, *pair, t, t[0])
        rows.append((-logit.item(), other))
    return [(-score, other) for score, other in sorted(rows)]


@pytest.mark.parametrize("when", [None, 50.0, 200])
def test_recommendations_against_pairs_scored_one_by_one(
    when: float | None, run: Run, text_id_run: Run
) -> None:
    for of, name in ((run, run.stream.ids.labels[2].item()), (text_id_run, "n12")):
        time = when if when is not None else float(of.stream.t[-1]) + (1 if of is run else 1e-9)
        expected = scored(of, of.stream.ids.find(name, "src"), time)
        got = of.recommend(name, at=time, k=5)
        assert len(got) == 5
        # Two candidates with almost equal scores may change places.
        by_name = {of.stream.ids.labels[other]: score for score, other in expected}
        assert [one.score for one in got] == pytest.approx([by_name[one.node] for one in got], rel=1e-4)
        assert [one.score for one in got] == pytest.approx([s for s, _ in expected[:5]], rel=1e-4, abs=1e-4)
        assert [one.probability for one in got] == pytest.approx([1 / (1 + exp(-one.score)) for one in got])


def test_at_most_all_destinations_are_recommended(text_id_run: Run) -> None:
    assert len(text_id_run.recommend("n3", k=999)) == len(text_id_run.stream.destinations)
    with pytest.raises(ConfigError, match="k=0"):
        text_id_run.recommend("n3", k=0)


def test_destinations_are_recommended_from_their_first_event_on(tmp_path: Path) -> None:
    src, dst = np.array([0, 1, 2] * 40), np.repeat([10, 11, 12, 13], 30)
    stream = EventStream.from_arrays(src, dst, np.arange(120), bipartite=True)
    run = fit(stream, out=tmp_path / "run", epochs=1, show=False, holdout="paper", **TINY)
    assert run.recommend(0, at=0) == []
    assert [one.node for one in run.recommend(0, at=30)] == [10]
    assert sorted(one.node for one in run.recommend(0, at=31)) == [10, 11]
    assert sorted(one.node for one in run.recommend(0)) == [10, 11, 12, 13]


def test_a_node_is_not_recommended_to_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stream = EventStream.from_arrays(rng.integers(0, 9, 200), rng.integers(0, 9, 200), np.arange(200))
    run = fit(stream, out=tmp_path / "run", epochs=1, show=False, **TINY)
    assert sorted(one.node for one in run.recommend(4, k=99)) == [0, 1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("at", [None, 50.0])
def test_many_lists_are_those_of_single_nodes(at: float | None, text_id_run: Run) -> None:
    nodes = ["n3", "n99", "n12", "n0", "n3"]
    for options in (
        {},
        {"exclude_seen": True},
        {"candidates": ["n16", "n10", "n13"]},
        {"exclude_seen": True, "candidates": ["n16", "n10", "n13"], "k": 2},
    ):
        together = text_id_run.recommend(nodes, at, **options)
        assert [one.node for one in together] == nodes
        for many in together:
            single = text_id_run.recommend(many.node, at, **options)
            assert [one.node for one in many] == [one.node for one in single]
            assert [one.score for one in many] == pytest.approx([one.score for one in single], rel=1e-4)


def test_what_was_met_before_is_left_out(text_id_run: Run) -> None:
    stream, when = text_id_run.stream, 50.0
    labels = stream.ids.labels.tolist()
    events = zip(stream.src, stream.dst, stream.t, strict=True)
    past = [(labels[s], labels[d]) for s, d, t in events if t < when]
    for node in ("n3", "n12"):
        met = {d for s, d in past if s == node}
        everything = [one.node for one in text_id_run.recommend(node, when, 99)]
        new = [one.node for one in text_id_run.recommend(node, when, 99, exclude_seen=True)]
        assert met
        assert new == [one for one in everything if one not in met]


def test_sources_are_recommended_to_destinations(text_id_run: Run) -> None:
    found = text_id_run.recommend("n12", side="dst", k=99)
    sources = sorted({str(text_id_run.stream.ids.labels[s]) for s in text_id_run.stream.src})
    expected = dict(zip(sources, text_id_run.score(sources, "n12").score, strict=True))
    assert sorted(str(one.node) for one in found) == sources
    assert [one.score for one in found] == pytest.approx([expected[str(one.node)] for one in found], rel=1e-4)
    assert [one.score for one in found] == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-4)


def test_a_node_without_events_is_marked_as_a_cold_start(tmp_path: Path) -> None:
    """It does not matter whether it has events later."""
    src, dst = np.array([0, 1] * 30 + [2] * 60), np.array([11, 10, 11, 12, 11] * 24)
    stream = EventStream.from_arrays(src, dst, np.arange(120), bipartite=True)
    run = fit(stream, out=tmp_path / "run", epochs=1, show=False, holdout="paper", **TINY)
    for node in (2, 99):
        found = run.recommend(node, at=20, k=2)
        assert found == [(11, 12.0, None), (10, 4.0, None)]
        assert (found.node, found.at, found.last_event, found.cold_start) == (node, 20, 19, True)
    assert not run.recommend(0, at=20).cold_start
    assert run.recommend(0, at=0).last_event is None


def test_the_nearest_nodes_have_the_smallest_angles(text_id_run: Run) -> None:
    ids, vectors = text_id_run.stream.ids, text_id_run.embed(at=50.0).astype(float)
    assert ids.is_dst is not None
    row = ids.find("n3", "src")
    past = text_id_run.stream.t < 50.0
    others = set(text_id_run.stream.src[past].tolist()) - {row}
    cosine = {
        str(ids.labels[i]): vectors[i]
        @ vectors[row]
        / np.linalg.norm(vectors[i])
        / np.linalg.norm(vectors[row])
        for i in others
    }
    found = text_id_run.nearest("n3", k=4, at=50.0)
    best = sorted(cosine, key=lambda name: -cosine[name])[:4]
    assert [one.similarity for one in found] == pytest.approx([cosine[name] for name in best], rel=1e-4)
    assert [one.similarity for one in found] == pytest.approx(
        [cosine[str(one.node)] for one in found], rel=1e-4
    )


def test_answers_know_their_time_and_their_last_event(text_id_run: Run) -> None:
    """In the past, between events, now and before everything."""
    run, t = text_id_run, text_id_run.stream.t
    for at, expected in ((50.0, t[t < 50.0].max()), (t[7].item(), t[6]), (None, t[-1]), (-3.0, None)):
        answers = (run.embed(["n3", "n4"], at), run.nearest("n3", 2, at), run.recommend("n3", at))
        for answer in answers:
            assert answer.at == (np.nextafter(t[-1], np.inf) if at is None else at)
            assert answer.last_event == expected
    path = run.trajectory("n3", [-3.0, t[0].item(), 50.0, t[-1].item() + 5])
    assert path.last_event.tolist() == [None, None, t[t < 50.0].max(), t[-1]]


def test_embeddings_are_arrays_that_keep_their_time(text_id_run: Run) -> None:
    vectors = text_id_run.embed(["n3", "n4", "n5"], at=50.0)
    assert isinstance(vectors, np.ndarray)
    for kept in (vectors[1:], vectors.copy(), pickle.loads(pickle.dumps(vectors))):
        assert (kept.at, kept.last_event) == (50.0, vectors.last_event)
    assert np.array_equal(pickle.loads(pickle.dumps(vectors)), vectors)
    assert type(vectors - vectors) is np.ndarray
    assert isinstance(vectors[0] @ vectors[1], np.float32)


@pytest.mark.parametrize("resolution", [0.0, 1e-5, 0.3])
def test_the_best_are_the_first_of_all_in_order(resolution: float) -> None:
    scores = torch.from_numpy(np.random.default_rng(1).integers(-9, 9, 200) / 3)
    for k in (1, 7, 199, 200, 999):
        places, values = best(scores, k, resolution)
        assert places.tolist() == best_first(scores, resolution)[:k].tolist()
        assert torch.equal(values, scores[places])


def test_a_heuristic_recommends_by_its_score(tmp_path: Path) -> None:
    stream = text_id_stream()
    run = fit(stream, "edgebank", out=tmp_path / "run", show=False)
    when = stream.t[90].item()
    labels = stream.ids.labels
    me = stream.ids.find("n4", "src")
    met = {
        str(labels[d])
        for s, d, t in zip(stream.src, stream.dst, stream.t, strict=True)
        if s == me and t < when
    }
    got = run.recommend("n4", at=when, k=99)
    assert 0 < len(met) < len(got)
    assert {one.node for one in got if one.score == 1} == met
    assert {one.probability for one in got} == {None}
    assert [one.node for one in got] == sorted(met) + sorted(
        {str(x) for x in labels[stream[:90].destinations]} - met
    )
    with pytest.raises(ConfigError, match="no embeddings"):
        run.embed()


def test_embed_honors_the_side(text_id_run: Run) -> None:
    run, is_dst = text_id_run, text_id_run.stream.ids.is_dst
    assert is_dst is not None
    everything = run.embed()
    np.testing.assert_allclose(run.embed(side="dst"), everything[is_dst], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(run.embed(side="src"), everything[~is_dst], rtol=1e-4, atol=1e-6)
    with pytest.raises(ConfigError, match="Unknown side 'left'"):
        run.embed(side="left")  # type: ignore[arg-type]


def test_a_table_of_embeddings_names_nodes_and_time(text_id_run: Run) -> None:
    table = text_id_run.embed_table(["n3", "n16"], at=50.5)
    assert table.column_names == ["node", "side", "t", "last_event", "embedding"]
    last = text_id_run.stream.t[text_id_run.stream.t < 50.5].max()
    assert table.select(["node", "side", "t", "last_event"]).to_pydict() == {
        **{"node": ["n3", "n16"], "side": ["src", "dst"], "t": [50.5, 50.5], "last_event": [last, last]},
    }
    assert text_id_run.embed_table(["n3"], at=-1.0)["last_event"].to_pylist() == [None]
    vectors = text_id_run.embed(["n3", "n16"], at=50.5)
    assert table["embedding"].to_pylist() == vectors.tolist()
    assert (
        text_id_run.embed_table(["n3", "n16"], at=50.5, wide=True)["e2"].to_pylist() == vectors[:, 2].tolist()
    )


def test_a_trajectory_is_a_frame_and_a_figure(text_id_run: Run, tmp_path: Path) -> None:
    path = text_id_run.trajectory("n3", [20.0, 40.5, 60.0])
    frame = path.to_frame()
    assert list(frame.columns) == ["t", "last_event", *(f"e{i}" for i in range(path.embeddings.shape[1]))]
    assert frame["t"].tolist() == [20.0, 40.5, 60.0]
    assert np.array_equal(frame.to_numpy(np.float32)[:, 2:], path.embeddings)
    figure = path.plot(tmp_path / "path.svg")
    assert "Node n3 in text ids" in (tmp_path / "path.svg").read_text()
    assert figure.axes
