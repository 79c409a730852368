"""Answers of a trained model: embeddings, similar nodes and trajectories."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.trained import bit_identical

from contig.history import History
from contig.models import EventBatch, NodeState
from contig.runs import recommending, trained_model
from contig.runs.run import Run
from contig.runs.trained_model import TrainedModel
from contig.streaming.walker import replay


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
    width = path.embeddings.shape[1]
    assert repr(path) == f"Trajectory('n3': 3 times, 20.0 to 60.0; embeddings of width {width})"
    frame = path.to_frame()
    assert list(frame.columns) == ["t", "last_event", *(f"e{i}" for i in range(path.embeddings.shape[1]))]
    assert frame["t"].tolist() == [20.0, 40.5, 60.0]
    assert np.array_equal(frame.to_numpy(np.float32)[:, 2:], path.embeddings)
    figure = path.plot(tmp_path / "path.svg")
    assert "Node n3 in text ids" in (tmp_path / "path.svg").read_text()
    assert figure.axes
