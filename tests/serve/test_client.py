"""The client returns what the engine answers, and sending a stream twice changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from contig.data.events import EventStream
from contig.live import Engine
from contig.serve import sending
from contig.serve.client import Client, ServiceError

EVENTS = [{"src": "n3", "dst": "n12", "t": 95.0}, {"src": "new/one", "dst": "n10", "t": 96.5}]


@pytest.fixture
def client(http: TestClient) -> Iterator[Client]:
    with Client("http://127.0.0.1", transport=http._transport) as opened:
        yield opened


def test_answers_are_the_engines(client: Client, engine: Engine) -> None:
    sent = client.observe(EVENTS)
    assert (sent.accepted, sent.rejected, sent.repeated, sent.last_time) == (2, (), False, 96.5)
    np.testing.assert_array_equal(client.embed("new/one", 97), engine.embed(["new/one"], 97).vectors[0])
    found = client.recommend("n3", k=3)
    assert [(r.id, r.score) for r in found] == [(r.node, r.score) for r in engine.recommend("n3", k=3)]
    assert (found.cold_start, found.score_kind) == (False, "logit")
    cold = client.recommend("stranger", k=2)
    assert (len(cold), cold.cold_start, cold.score_kind) == (2, True, "events")
    pairs = client.score("n3", ["n12", "n15"], at=96)
    np.testing.assert_array_equal(
        [p.score for p in pairs], engine.score(["n3"] * 2, ["n12", "n15"], 96).score
    )
    path = client.trajectory("n3", 10, 90, steps=5)
    np.testing.assert_array_equal(path.embeddings, engine.trajectory("n3", 10, 90, 5).embeddings)
    assert path.plane.shape == (5, 2)
    assert client.recent_events("new/one") == [{**EVENTS[1], "t_date": None}]
    assert client.find("new") == ["new/one"]
    assert client.status()["events"] == 262
    assert client.is_ready()


def test_a_table_is_sent_as_arrow(client: Client, engine: Engine) -> None:
    table = pa.Table.from_pylist([{"src": "n3", "dst": "n12", "t": 1.0}, *EVENTS])
    sent = client.observe(table, "batch")
    assert (sent.accepted, [one.row for one in sent.rejected]) == (2, [0])
    assert client.observe(table, "batch").repeated
    with pytest.raises(ServiceError, match="used for other events"):
        client.observe(table[:2], "batch")


def test_refusals_are_errors_with_the_services_words(client: Client) -> None:
    with pytest.raises(ServiceError, match=r"Not Found \(404\): Node 'nobody'") as refused:
        client.embed("nobody")
    assert refused.value.status == 404
    with pytest.raises(ServiceError, match=r"body\[0\]\.t: Field required"):
        client.observe([{"src": "n1", "dst": "n12"}])


def test_dates_are_sent_in_iso_8601() -> None:
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        return httpx2.Response(200, json={"embedding": [1.5]})

    with Client("http://localhost:1", "a" * 20, transport=httpx2.MockTransport(answer)) as client:
        client.embed("a/b.c", datetime(2024, 5, 1, 12))
    assert str(asked[0]) == "http://localhost:1/nodes/a%2Fb%2Ec/embedding?at=2024-05-01T12%3A00%3A00"


def test_no_answer_is_an_error_that_names_the_service() -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with Client("http://localhost:1", transport=httpx2.MockTransport(fail)) as client:
        with pytest.raises(ServiceError, match=r"http://localhost:1: no answer.*contig serve RUN") as refused:
            client.status()
        assert refused.value.status == 0
        assert not client.is_ready()
    with (
        Client(
            "http://localhost:1", transport=httpx2.MockTransport(lambda _: httpx2.Response(200, text="<"))
        ) as client,
        pytest.raises(ServiceError, match="not JSON"),
    ):
        client.status()


# -- sending a stream ---------------------------------------------------------------------------------------


def later_stream(width: int = 0) -> EventStream:
    rng = np.random.default_rng(5)
    src, dst = ([f"n{i}" for i in rng.integers(0, 19, 23)] for _ in range(2))
    t = np.sort(rng.uniform(100, 120, 23))
    features = rng.normal(size=(23, width)).astype(np.float32) if width else None
    return EventStream.from_arrays(src, dst, t, edge_features=features, bipartite=True)


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_batches_are_the_stream_in_order() -> None:
    stream = later_stream(width=3)
    found = list(sending.batches(stream, 10))
    assert [batch.events.num_rows for batch in found] == [10, 10, 3]
    rows = [row for batch in found for row in as_rows(batch.events)]
    labels = stream.ids.labels
    columns = (labels[stream.src], labels[stream.dst], stream.t, stream.edge_features.tolist())
    assert rows == list(zip(*columns, strict=True))


def test_batch_ids_follow_the_content() -> None:
    stream = later_stream()
    renamed = EventStream.from_arrays(
        np.char.replace(stream.ids.labels[stream.src], "n", "m"),
        np.char.replace(stream.ids.labels[stream.dst], "n", "m"),
        stream.t,
        bipartite=True,
    )
    ids = [[batch.id for batch in sending.batches(s, 10)] for s in (stream, later_stream(), renamed)]
    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2]}) == 6
    assert {batch.id for batch in sending.batches(stream, 5)}.isdisjoint(ids[0][:2])


def test_sending_again_continues_where_it_stopped(client: Client, engine: Engine) -> None:
    stream = later_stream()
    for batch in list(sending.batches(stream, 10))[:1]:
        client.observe(batch.events, batch.id)
    counted: list[int] = []
    summary = sending.send(client, stream, 10, advance=counted.append)
    assert (summary.accepted, summary.repeated, summary.rejected) == (13, 10, 0)
    assert counted == [10, 10, 3]
    assert engine.status().events == 260 + 23
    assert sending.send(client, stream, 10).repeated == 23
    assert engine.status().events == 260 + 23


def test_rejected_events_are_named_by_their_row_in_the_stream(client: Client) -> None:
    stream = later_stream()
    labels, node = stream.ids.labels, stream.src[12]
    client.observe([{"src": labels[node], "dst": "elsewhere", "t": float(stream.t[14])}])
    late = [row for row in range(14) if stream.src[row] == node]
    assert 12 in late
    summary = sending.send(client, stream, 10)
    assert (summary.accepted, summary.rejected) == (23 - len(late), len(late))
    assert [one.row for one in summary.examples] == late


@pytest.fixture
def flaky(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """``flaky([503, 0])``: a client whose first requests fail so, after the service has taken them in."""
    monkeypatch.setattr(sending.time, "sleep", lambda seconds: None)
    opened = []

    def make(failures: list[int]) -> Client:
        left = iter(failures)

        def answer(request: httpx2.Request) -> httpx2.Response:
            found = http._transport.handle_request(request)
            found.read()
            status = next(left, None)
            if status == 0:
                raise httpx2.ReadError("the connection was lost")
            return found if status is None else httpx2.Response(status)

        opened.append(Client("http://127.0.0.1", transport=httpx2.MockTransport(answer)))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def test_a_lost_answer_is_asked_for_again(flaky: Callable[..., Client], engine: Engine) -> None:
    summary = sending.send(flaky([0, 503, 507, 0]), later_stream(), 10)
    assert summary.accepted + summary.repeated == 23
    assert engine.status().events == 260 + 23


def test_a_refusal_is_not_repeated(flaky: Callable[..., Client], engine: Engine) -> None:
    with pytest.raises(ServiceError, match="422"):
        sending.send(flaky([422]), later_stream(), 10)
    assert engine.status().events == 260 + 10


def test_patience_ends(flaky: Callable[..., Client]) -> None:
    with pytest.raises(ServiceError, match="503"):
        sending.send(flaky([503] * 1000), later_stream(), 10, patience=0)


def test_the_command_sends_a_file(
    http: TestClient, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.commands import Answer

    stream, file = later_stream(), tmp_path / "later.csv"
    labels = stream.ids.labels
    rows = zip(labels[stream.src], labels[stream.dst], stream.t, strict=True)
    file.write_text("who,what,when\n" + "".join(f"{s},{d},{t}\n" for s, d, t in rows))
    monkeypatch.setattr(
        "contig.serve.client.Client", lambda url, token: Client(url, token, transport=http._transport)
    )
    columns = ["--src", "who", "--dst", "what", "--time", "when"]
    command = ["send", file, "--to", "http://127.0.0.1", "--batch", 9, *columns]
    assert "23 events accepted, 0 known from before, 0 rejected" in Answer(*command).words
    assert "0 events accepted, 23 known from before, 0 rejected" in Answer(*command).words
    assert engine.status().events == 260 + 23
    file.write_text("who,what,when\nn3,n12,5.5\nn3,n12,500.5\n")
    late = Answer(*command)
    assert "1 event accepted, 0 known from before, 1 rejected" in late.words
    assert late.code == 1
