"""Events arrive in three formats, and a refused request changes nothing."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from contig.live import Engine
from contig.serve import bodies
from contig.serve.problems import FieldError

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson; charset=utf-8"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
EVENTS: list[dict[str, Any]] = [
    {"src": "n3", "dst": "n12", "t": 91.5},
    {"src": "new one", "dst": "n10", "t": 92.25},
    {"src": "n3", "dst": "n16", "t": 92.25},
]
COLUMNS: dict[str, list[Any]] = {"src": ["n1"], "dst": ["n12"], "t": [91.0]}


def arrow(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def json_lines(events: list[dict[str, Any]]) -> bytes:
    return ("\r\n".join(json.dumps(event) for event in events) + "\n\n").encode()


BODIES: dict[str, dict[str, Any]] = {
    "json": {"json": EVENTS},
    "lines": {"content": json_lines(EVENTS), "headers": LINES},
    "arrow": {"content": arrow(pa.Table.from_pylist(EVENTS)), "headers": ARROW},
}


@pytest.mark.parametrize("kind", BODIES)
def test_all_formats_are_the_same_events(kind: str, http: TestClient, engine: Engine) -> None:
    answer = http.post("/events", **BODIES[kind])
    last = {"last_time": 92.25, "last_time_date": None}
    assert answer.json() == {"accepted": 3, "rejected": [], "repeated": False, **last}
    known = engine.recent_events("n3", 2) + engine.recent_events("new one", 1)
    assert sorted(known) == sorted(tuple(event.values()) for event in EVENTS)


def test_a_full_disk_is_507_and_nothing_is_stored(http: TestClient, engine: Engine) -> None:
    http.post("/events", json=EVENTS)
    before, best = http.get("/nodes/n3/events").json(), engine.recommend("n3", at=99)
    pages = engine._log._run("PRAGMA page_count").fetchone()[0]
    engine._log._run(f"PRAGMA max_page_count = {pages}")
    more = [{"src": f"n{n % 9}", "dst": "x" * 900 + str(n), "t": 93.0 + n} for n in range(40)]
    refused = http.post("/events", json=more, headers={"Idempotency-Key": "one"})
    assert (refused.status_code, refused.json()["status"]) == (507, 507)
    assert http.get("/nodes/n3/events").json() == before
    assert engine.recommend("n3", at=99) == best
    engine._log._run("PRAGMA max_page_count = 1000000")
    answer = http.post("/events", json=more, headers={"Idempotency-Key": "one"}).json()
    assert (answer["accepted"], answer["repeated"]) == (40, False)


def test_late_events_are_listed_and_the_others_taken_in(http: TestClient) -> None:
    late = {"src": "n3", "dst": "n12", "t": 1.0}
    answer = http.post("/events", json=[EVENTS[0], late, EVENTS[1]]).json()
    assert answer["accepted"] == 2
    assert [one["row"] for one in answer["rejected"]] == [1]
    assert "before" in answer["rejected"][0]["reason"]


@pytest.mark.parametrize("way", [{"headers": {"Idempotency-Key": "a 1"}}, {"params": {"batch_id": "a 1"}}])
def test_a_named_batch_is_taken_in_once(way: dict[str, Any], http: TestClient, engine: Engine) -> None:
    first = http.post("/events", json=EVENTS, **way).json()
    again = http.post("/events", json=EVENTS, **way).json()
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["accepted"] == 3
    assert engine.status().events == 260 + 3


def changed(**fields: Any) -> dict[str, Any]:
    """A request with one valid event and one that differs from it."""
    return {"content": json.dumps([EVENTS[0], {**EVENTS[0], **fields}]), "headers": JSON}


def raw(text: bytes, headers: dict[str, str] = JSON) -> dict[str, Any]:
    return {"content": text, "headers": headers}


def as_arrow(**columns: Any) -> dict[str, Any]:
    return raw(arrow(pa.table(COLUMNS | columns)), ARROW)


GOOD_ARROW = arrow(pa.table(COLUMNS))
BAD: dict[str, dict[str, Any]] = {
    "no body": raw(b""),
    "not json": raw(b"{"),
    "not utf-8": raw(b'[{"src":"\xff","dst":"n12","t":91}]'),
    "an object": {"json": EVENTS[0]},
    "no events": {"json": []},
    "a missing field": {"json": [{"src": "n1", "dst": "n12"}]},
    "an unknown field": changed(feature=[1]),
    "a null": changed(src=None),
    "an empty id": changed(src=""),
    "a NUL in an id": changed(src="a\0b"),
    "half a surrogate pair": changed(src="\ud800"),
    "a boolean": changed(t=True),
    "a fractional id": changed(dst=1.5),
    "a huge id": changed(src=2**63),
    "a huge time": changed(t=2**62),
    "infinity": raw(b'[{"src":"n1","dst":"n12","t":1e999}]'),
    "not a number": raw(b'[{"src":"n1","dst":"n12","t":NaN}]'),
    "large mixed times": raw(
        b'[{"src":"n1","dst":"n2","t":99.5},{"src":"n1","dst":"n2","t":9007199254740993}]'
    ),
    "mixed times": changed(t="2024-05-01"),
    "unequal features": changed(features=[1, 2]),
    "no features": {"json": [{**EVENTS[0], "features": []}]},
    "a huge feature": {"json": [{**EVENTS[0], "features": [10**400]}]},
    "deep nesting": raw(b"[" * 100_000),
    "a bad line": raw(b'{"src":"n1","dst":"n12","t":91}\n{}', LINES),
    "two events on a line": raw(b'{"src":"n1","dst":"n2","t":91},{"src":"n1","dst":"n2","t":91}', LINES),
    "half an arrow stream": raw(GOOD_ARROW[: len(GOOD_ARROW) // 2], ARROW),
    "not arrow": raw(b"ARROW1\0\0", ARROW),
    "an empty arrow body": raw(b"", ARROW),
    "compressed arrow": raw(arrow(pa.table(COLUMNS), compression="zstd"), ARROW),
    "other arrow columns": raw(arrow(pa.table({"a": [1]})), ARROW),
    "more arrow columns": as_arrow(weight=[1]),
    "nulls in arrow": as_arrow(src=pa.array([None], pa.string())),
    "views as arrow ids": as_arrow(src=pa.array(["n1"], pa.string_view())),
    "views as arrow times": as_arrow(t=pa.array(["2024-05-01"], pa.string_view())),
    "lists as arrow ids": as_arrow(src=[["n1"]]),
    "booleans as arrow times": as_arrow(t=[True]),
    "text as arrow features": as_arrow(features=[["x"]]),
    "two batch ids": {"json": EVENTS, "params": {"batch_id": "a"}, "headers": {"Idempotency-Key": "b"}},
    "an empty batch id": {"json": EVENTS, "params": {"batch_id": ""}},
    "a long batch id": {"json": EVENTS, "params": {"batch_id": "x" * 201}},
}


def test_an_invalid_batch_changes_nothing(http: TestClient, engine: Engine) -> None:
    before = engine.embed(["n3"]).vectors
    for name, request in BAD.items():
        answer = http.post("/events", **request)
        assert answer.status_code == 422, (name, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert engine.status().events == 260, name
    np.testing.assert_array_equal(engine.embed(["n3"]).vectors, before)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/events", b"[" + b"{}," * 50_000 + b"{}]"),
        ("/events", b'[{"src":"a","dst":"b","t":1,"features":[' + b'"x",' * 50_000 + b'"x"]}]'),
        ("/score", b'{"src":["n3"],"dst":[' + b"null," * 50_000 + b"null]}"),
    ],
    ids=["events", "features", "pairs"],
)
def test_a_long_list_is_read_up_to_its_first_error(
    path: str, body: bytes, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error for every item would take hundreds of times the memory of the body."""
    counts: list[int] = []

    def counted(error: ValidationError, *place: int) -> list[FieldError]:
        counts.append(error.error_count())
        return []

    monkeypatch.setattr(bodies, "errors_in_body", counted)
    assert http.post(path, content=body, headers=JSON).status_code == 422
    assert len(counts) == 1
    assert counts[0] < 10


@pytest.mark.parametrize("path", ["/events", "/score"])
def test_unknown_fields_are_counted_where_they_are_many(path: str, http: TestClient) -> None:
    fields = {f"field{i}": 0 for i in range(3000)}
    answer = http.post(path, json=[fields] if path == "/events" else fields)
    assert answer.status_code == 422
    assert "The body has 3,00" in answer.json()["detail"]
    assert "errors" not in answer.json()


def test_errors_name_their_place(http: TestClient) -> None:
    answer = http.post("/events", **changed(dst=1.5)).json()
    assert {error["where"].rpartition(".")[0] for error in answer["errors"]} == {"body[1].dst"}
    assert answer["detail"] == "Some events of the body are not valid; see errors."
    assert http.post("/events", **BAD["an object"]).json()["detail"].startswith("The body is not a list")
    answer = http.post("/events", **BAD["a bad line"]).json()
    assert [error["where"] for error in answer["errors"]] == ["body[1].src", "body[1].dst", "body[1].t"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_what_a_page_of_another_site_can_send_is_refused(kind: str, http: TestClient) -> None:
    for path in ("/events", "/score"):
        answer = http.post(path, content=json.dumps(EVENTS), headers={"Content-Type": kind} if kind else {})
        assert answer.status_code == 415


def test_scores_are_the_engines(http: TestClient, engine: Engine) -> None:
    answer = http.post("/score", json={"src": ["n3"], "dst": ["n12", "n15"], "at": 70.5}).json()
    found = engine.score(["n3", "n3"], ["n12", "n15"], 70.5)
    assert answer["at"] == 70.5
    assert [(one["src"], one["dst"]) for one in answer["scores"]] == [("n3", "n12"), ("n3", "n15")]
    for name in ("score", "probability", "surprise"):
        np.testing.assert_array_equal([one[name] for one in answer["scores"]], getattr(found, name))


def test_invalid_pairs_are_refused(http: TestClient) -> None:
    for pairs in (
        {"src": ["n3", "n4"], "dst": ["n12", "n13", "n14"]},
        {"src": [], "dst": ["n12"]},
        {"src": ["n3"]},
        {"src": ["n3"], "dst": ["n12"], "at": "soon"},
        {"src": ["n3"], "dst": ["n12"], "more": 1},
        {"src": ["n3"], "dst": ["nowhere"]},
        [1],
    ):
        assert http.post("/score", json=pairs).status_code == 422, pairs
