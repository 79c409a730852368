"""Feature columns of a run are sent by name, as they are in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from starlette.testclient import TestClient
from support.commands import Answer
from support.trained import fast_training, train_tiny

from contig.data.read_options import ReadOptions
from contig.data.readers.streams import read_events
from contig.live import Engine
from contig.runs.new_events import read_new_events
from contig.runs.run import Run
from contig.serve.client import Client
from contig.serve.sending import batches

CHANNELS = ("shop", "web", "phone")
EVENT: dict[str, Any] = {"src": "c1", "dst": "p2", "t": 5000}


def file_of_orders(path: Path, first: int, count: int) -> Path:
    rng = np.random.default_rng(first)
    rows = [
        f"c{rng.integers(9)},p{rng.integers(7)},{10 * i},{'' if i % 9 == 4 else round(rng.uniform(1, 9), 2)},"
        f"{CHANNELS[rng.integers(3)]}"
        for i in range(first, first + count)
    ]
    path.write_text("\n".join(["who,what,when,amount,channel", *rows]) + "\n")
    return path


def read_orders(path: Path) -> Any:
    return read_events(path, src="who", dst="what", t="when", features=["amount", "channel"], bipartite=True)


@pytest.fixture(scope="module")
def order_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("orders")
    with fast_training():
        return train_tiny(read_orders(file_of_orders(folder / "orders.csv", 0, 150)), folder / "run")


@pytest.fixture
def orders(order_run: Run, tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "live", order_run.path, device="cpu") as engine:
        yield engine


def stored(engine: Engine, count: int) -> NDArray[np.float32]:
    """The features of the last events, as the model sees them."""
    found: NDArray[np.float32] = engine._graph.history.events["features"][-count:].numpy()
    return found


def by_hand(run: Run, amount: float | None, channel: str | None) -> list[float]:
    """What one event's features become."""
    assert run.features is not None
    number, category = run.features.events.columns  # type: ignore[union-attr]
    assert (number.unit, number.missing, category.missing) == (0.0, True, False)
    value = 0.0 if amount is None else (amount - number.mean) / number.scale
    one_hot = [float(channel == name) for name in category.names]
    return [value, float(amount is None), *one_hot, float(channel is not None and not any(one_hot))]


@pytest.mark.parametrize(
    ("amount", "channel"), [(2.5, "web"), (7, "shop"), (None, "phone"), (3, "fax"), ("4.5", "web"), (2, None)]
)
def test_values_are_encoded_by_the_plan_of_the_run(
    amount: Any, channel: str | None, orders: Engine, order_run: Run, start: Callable[..., TestClient]
) -> None:
    body = [{**EVENT, "features": {"channel": channel, "amount": amount}}]
    answer = start(orders).post("/events", json=body)
    assert answer.json()["accepted"] == 1, answer.text
    number = None if amount is None else float(amount)
    np.testing.assert_allclose(stored(orders, 1)[0], by_hand(order_run, number, channel), atol=1e-6)


@pytest.mark.parametrize(
    ("features", "part"),
    [
        ({"amount": 1, "chanel": "web"}, "Did you mean 'channel'?"),
        ({"amount": 1}, "no feature column 'channel'"),
        ({}, "at least one"),
        ({"amount": [1], "channel": "web"}, "must be a number, text"),
        ({"amount": 10**400, "channel": "web"}, "not a finite number"),
        ({"amount": 1e39, "channel": "web"}, "not a finite float32"),
        ({"amount": "much", "channel": "web"}, "amount"),
        (None, "no feature column"),
    ],
)
def test_other_features_are_refused(
    features: Any, part: str, orders: Engine, start: Callable[..., TestClient]
) -> None:
    answer = start(orders).post("/events", json=[{**EVENT, "features": features}])
    assert answer.status_code == 422
    assert part in answer.json()["detail"]
    assert orders.status().live_events == 0


def test_all_events_of_a_batch_have_the_same_features(
    orders: Engine, start: Callable[..., TestClient]
) -> None:
    one = {**EVENT, "features": {"amount": 1, "channel": "web"}}
    for other in ({"amount": 1}, [1, 2], None):
        answer = start(orders).post("/events", json=[one, {**EVENT, "features": other}])
        assert answer.status_code == 422
        assert "body[1].features: every event of a batch needs the same features" in answer.json()["detail"]


def test_a_missing_feature_is_reported_with_the_option_that_names_it(
    orders: Engine, start: Callable[..., TestClient]
) -> None:
    answer = start(orders).post("/events", json=[{**EVENT, "features": {"amount": 1}}])
    assert "--features amount,channel (features=['amount', 'channel'])" in answer.json()["detail"]


def test_the_service_publishes_how_its_run_was_read(orders: Engine, start: Callable[..., TestClient]) -> None:
    columns = {"src": "who", "dst": "what", "t": "when", "features": ["amount", "channel"]}
    assert start(orders).get("/status").json()["read_as"] == {**columns, "date_format": None}


def test_a_run_without_features_publishes_that(engine: Engine, start: Callable[..., TestClient]) -> None:
    nothing = dict.fromkeys(("src", "dst", "t", "date_format"))
    assert start(engine).get("/status").json()["read_as"] == {**nothing, "features": False}


def test_send_uses_the_columns_of_the_run(
    orders: Engine,
    order_run: Run,
    tmp_path: Path,
    start: Callable[..., TestClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without options it stores what ``update`` reads from the same file; options still win."""
    http = start(orders)
    monkeypatch.setattr(
        "contig.serve.client.Client", lambda url, token: Client(url, token, transport=http._transport)
    )
    file = file_of_orders(tmp_path / "later.csv", 200, 40)
    # A column that the run does not take, and one that would be recognized as the source.
    lines = file.read_text().splitlines()
    more = ["weight,user", *(f"{i % 7},x" for i in range(40))]
    file.write_text("\n".join(f"{line},{end}" for line, end in zip(lines, more, strict=True)) + "\n")
    given = ([], ["--src", "user", "--batch", 20], ["--features", "amount", "--batch", 30])
    answers = [Answer("send", file, "--to", "http://127.0.0.1", *options) for options in given]
    assert "40 events accepted" in answers[0].words
    assert "ignored 2 columns: 'weight', 'user'." in answers[0].words
    assert "--features" not in answers[0].words, "the run takes no other features"
    expected = read_new_events(
        file, ReadOptions(), order_run.features, usual=order_run.read_as
    ).columns.features
    np.testing.assert_allclose(orders._graph.history.events["features"][150:190].numpy(), expected)
    assert orders.recent_events("x", 1)[0].src == "x", answers[1].words
    assert "--features amount,channel" in answers[2].words
    assert answers[2].code != 0


def test_a_run_without_named_features_says_so(engine: Engine, start: Callable[..., TestClient]) -> None:
    event = {"src": "n3", "dst": "n12", "t": 95.0, "features": {"amount": 1}}
    answer = start(engine).post("/events", json=[event])
    assert answer.status_code == 422
    assert "without named features; leave them out" in answer.json()["detail"]


def test_the_columns_of_a_file_are_sent_by_name(
    orders: Engine, order_run: Run, tmp_path: Path, start: Callable[..., TestClient]
) -> None:
    """They arrive as an offline run reads them from the same file."""
    later = read_orders(file_of_orders(tmp_path / "later.csv", 200, 40))
    http = start(orders)
    with Client("http://127.0.0.1", transport=http._transport) as client:
        for batch in batches(later, 15):
            assert client.observe(batch.events, batch.id).accepted == len(batch.events)
    assert order_run.features is not None
    raw = later.edge_features
    channels = later.edge_columns[1].categories
    expected = [
        by_hand(order_run, None if np.isnan(amount) else float(amount), channels[int(code)])
        for amount, code in raw
    ]
    np.testing.assert_allclose(stored(orders, 40), expected, atol=1e-5)
