"""Answers about nodes are those of the engine, whatever the ids look like."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient

from contig.data.events import EventStream
from contig.live import Engine
from contig.training.fit import fit

MAY = 1_714_521_600  # 1 May 2024
HARD_IDS = (
    *("a/b", "a/b/", "/", "//", "x/embedding", "events", "..", ".", "a.b", "?", "#1", "50%"),
    *("ü 木", "a b", "'\"<", "7"),
)


def quoted(id: str) -> str:
    return quote(id, safe="").replace(".", "%2E")


def test_an_embedding_is_the_engines(http: TestClient, engine: Engine) -> None:
    answer = http.get("/nodes/n3/embedding", params={"at": 40.5}).json()
    assert answer["id"] == "n3"
    assert answer["at"] == 40.5
    np.testing.assert_array_equal(np.float32(answer["embedding"]), engine.embed(["n3"], 40.5).vectors[0])


def test_any_text_is_an_id(http: TestClient, engine: Engine) -> None:
    events = [{"src": id, "dst": "n12", "t": 95.0} for id in HARD_IDS]
    assert http.post("/events", json=events).json()["accepted"] == len(HARD_IDS)
    for id, event in zip(HARD_IDS, events, strict=True):
        answer = http.get(f"/nodes/{quoted(id)}/embedding", params={"side": "src"})
        expected = engine.embed([id], side="src").vectors[0]
        np.testing.assert_array_equal(np.float32(answer.json()["embedding"]), expected, err_msg=id)
        past = http.get(f"/nodes/{quoted(id)}/events", params={"side": "src"}).json()
        assert past == {"id": id, "events": [{**event, "t_date": None}]}


def test_a_side_chooses_between_two_nodes_of_one_id(http: TestClient, engine: Engine) -> None:
    both = http.get("/nodes/n12/embedding")
    assert both.status_code == 422
    assert "side" in both.json()["detail"]
    answers = [http.get("/nodes/n12/embedding", params={"side": side}).json() for side in ("src", "dst")]
    vectors = [answer["embedding"] for answer in answers]
    np.testing.assert_array_equal(np.float32(vectors[1]), engine.embed(["n12"], side="dst").vectors[0])
    assert vectors[0] != vectors[1]


def test_unknown_nodes_are_not_found(http: TestClient) -> None:
    for what in ("embedding", "events", "trajectory?from=1&to=2"):
        answer = http.get(f"/nodes/nobody/{what}")
        assert answer.status_code == 404
        assert "nobody" in answer.json()["detail"]


def test_recommendations_are_the_engines(http: TestClient, engine: Engine) -> None:
    answer = http.get("/nodes/n3/recommendations", params={"k": 4, "at": 60, "exclude_seen": "true"}).json()
    found = engine.recommend("n3", 60, 4, exclude_seen=True)
    rows = [(one["id"], one["score"], one["probability"]) for one in answer["recommendations"]]
    assert rows == list(map(tuple, found))
    assert (answer["at"], answer["last_event"], answer["cold_start"]) == (60, found.last_event, False)
    assert answer["score_kind"] == "logit"
    sources = http.get("/nodes/n15/recommendations", params={"side": "dst", "k": 2}).json()
    expected = [one.node for one in engine.recommend("n15", k=2, side="dst")]
    assert [one["id"] for one in sources["recommendations"]] == expected


def test_an_unknown_node_gets_the_most_popular_candidates(http: TestClient, engine: Engine) -> None:
    """Counted here from all events of the destinations."""
    answer = http.get("/nodes/stranger/recommendations", params={"k": 3})
    assert answer.status_code == 200
    found = answer.json()
    assert (found["cold_start"], found["score_kind"]) == (True, "events")
    names = {node.id for node in engine.find("", 1000) if node.side == "dst"}
    counts = sorted((len(engine.recent_events(name, 1000, side="dst")) for name in names), reverse=True)
    assert [one["score"] for one in found["recommendations"]] == counts[:3]
    for one in found["recommendations"]:
        assert one["score"] == len(engine.recent_events(one["id"], 1000, side="dst"))
        assert one["probability"] is None
    schema = http.get("/openapi.json").json()
    fields = schema["components"]["schemas"]["RecommendationsAnswer"]["properties"]
    assert fields["score_kind"]["enum"] == ["logit", "heuristic", "events"]
    assert "unknown" in fields["cold_start"]["description"]


def test_times_of_a_stream_of_dates_are_also_dates(start: Callable[..., TestClient], tmp_path: Path) -> None:
    events = EventStream.from_arrays(
        [f"u{i % 3}" for i in range(40)], [f"i{i % 5}" for i in range(40)], MAY + np.arange(40)
    )
    run = fit(events, "popularity", out=tmp_path / "run", show=False)
    with Engine.open(tmp_path / "live", run.path) as engine:
        http = start(engine)
        found = http.get("/nodes/u1/recommendations", params={"at": "2024-05-01T00:00:20Z"}).json()
        dates = [found[name] for name in ("at", "at_date", "last_event", "last_event_date")]
        assert dates == [MAY + 20, "2024-05-01T00:00:20Z", MAY + 19, "2024-05-01T00:00:19Z"]
        assert found["score_kind"] == "heuristic"
        (event,) = http.get("/nodes/u0/events", params={"k": 1}).json()["events"]
        assert (event["t"], event["t_date"]) == (MAY + 39, "2024-05-01T00:00:39Z")
        scores = http.post("/score", json={"src": ["u1"], "dst": ["i2"], "at": MAY + 3}).json()
        assert scores["at_date"] == "2024-05-01T00:00:03Z"
        status = http.get("/status").json()
        assert (status["first_time_date"], status["last_time_date"]) == (
            *("2024-05-01T00:00:00Z", "2024-05-01T00:00:39Z"),
        )
        times = ("2024-05-01T00:00:02", "2024-05-01T00:01:00Z")
        old = [{"src": "u0", "dst": "i1", "t": t} for t in times]
        receipt = http.post("/events", json=old).json()
        assert receipt["last_time_date"] == "2024-05-01T00:01:00Z"
        (rejected,) = receipt["rejected"]
        assert rejected["reason"] == (
            "t=2024-05-01T00:00:02Z is before the last event of node 'u0', at 2024-05-01T00:00:39Z."
        )


def test_a_trajectory_has_equally_spaced_times(http: TestClient, engine: Engine) -> None:
    answer = http.get("/nodes/n3/trajectory", params={"from": 20, "to": 80, "steps": 7}).json()
    assert answer["times"] == [20, 30, 40, 50, 60, 70, 80]
    vectors = np.stack([engine.embed(["n3"], at).vectors[0] for at in answer["times"]])
    np.testing.assert_allclose(answer["embeddings"], vectors, atol=1e-6)
    moved = [0, *(np.linalg.norm(b - a) for a, b in pairwise(vectors))]
    np.testing.assert_allclose(answer["moved"], moved, atol=1e-5)
    times = [event["t"] for event in answer["events"]]
    assert times == sorted(e.t for e in engine.recent_events("n3", 1000) if 20 <= e.t < 80)
    for event in answer["events"]:
        assert answer["times"][event["index"] - 1] <= event["t"] < answer["times"][event["index"]]


def test_spacing_by_events_separates_jumps_from_drift(http: TestClient, engine: Engine) -> None:
    query = {"from": 20, "to": 80, "steps": 40, "spacing": "events", "embeddings": "false"}
    answer = http.get("/nodes/n3/trajectory", params=query).json()
    assert answer["embeddings"] is None
    assert len(answer["times"]) == len(answer["plane"]) == 40
    events = [e.t for e in reversed(engine.recent_events("n3", 1000)) if 20 <= e.t < 80]
    assert len(events) > 3
    assert [event["t"] for event in answer["events"]] == events
    for event in answer["events"]:
        i = event["index"]
        assert answer["times"][i - 1] == event["t"], "the last point before an event is at its time"
        assert answer["times"][i] - event["t"] < 1e-2 * (80 - 20)
    np.testing.assert_array_less(0, np.diff(answer["times"]))


def test_nodes_are_found_by_prefix(http: TestClient) -> None:
    found = http.get("/nodes", params={"prefix": "n1", "limit": 3}).json()["nodes"]
    assert len(found) == 3
    assert all(node["id"].startswith("n1") and node["side"] in ("src", "dst") for node in found)
    assert http.get("/nodes", params={"prefix": "zzz"}).json() == {"nodes": []}


def test_invalid_parameters_are_refused(http: TestClient) -> None:
    for path in (
        "/nodes/n3/embedding?at=yesterday",
        "/nodes/n3/embedding?at=nan",
        "/nodes/n3/embedding?side=both",
        "/nodes/n3/recommendations?k=0",
        "/nodes/n3/recommendations?k=1001",
        "/nodes/n3/recommendations?k=many",
        "/nodes/n3/recommendations?side=",
        "/nodes/n3/trajectory",
        "/nodes/n3/trajectory?from=1&to=5&steps=1",
        "/nodes/n3/trajectory?from=1&to=5&steps=1001",
        "/nodes/n3/trajectory?from=1&to=5&spacing=odd",
        "/nodes/n3/trajectory?from=5&to=1",
        "/nodes/n3/events?k=-1",
        "/nodes?limit=0",
    ):
        answer = http.get(path)
        assert answer.status_code == 422, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == 422


@pytest.mark.parametrize("value", ["40.5", "40.50", "4.05e1"])
def test_a_time_may_be_written_in_any_way(value: str, http: TestClient) -> None:
    assert http.get("/nodes/n3/embedding", params={"at": value}).json()["at"] == 40.5
