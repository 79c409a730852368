"""The log has the causes of fraud that it promises; a ring shows in the graph alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score
from support.commands import Answer

from contig.data.catalog import DATASETS
from contig.data.datasets import load_dataset, open_stream
from contig.data.events import EventStream
from contig.data.shop import shop, shop_table
from contig.errors import ConfigError

ORDERS = 6_000


@pytest.fixture(scope="module")
def log() -> dict[str, np.ndarray]:
    return columns(shop_table(ORDERS, seed=3))


@pytest.fixture(scope="module")
def ring() -> dict[str, np.ndarray]:
    return columns(shop_table(ORDERS, seed=3, ring=True))


def columns(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy() for name in table.column_names}


def test_equal_arguments_give_equal_logs() -> None:
    assert shop_table(700, seed=5).equals(shop_table(700, seed=5))
    assert not shop_table(700, seed=5).equals(shop_table(700, seed=6))


def test_the_log_has_exactly_the_orders_in_time_order(log, ring) -> None:
    for one in (log, ring):
        assert len(one["user"]) == ORDERS
        assert (np.diff(one["time"]) >= np.timedelta64(0)).all()
        assert set(one["fraud"].tolist()) == {0, 1}


def test_prices_are_skewed_and_some_values_are_missing(log) -> None:
    price = log["price"]
    assert 0.01 < np.isnan(price).mean() < 0.06
    assert np.nanmean(price) > 1.3 * np.nanmedian(price)
    assert 0.02 < np.mean([one is None for one in log["payment"]]) < 0.08
    assert len(set(log["category"].tolist())) > 16


def excess(log: dict[str, np.ndarray]) -> np.ndarray:
    """The logarithm of each price against the median of its item, 0 where it is missing."""
    prices = defaultdict(list)
    for item, price in zip(log["item"], log["price"], strict=True):
        if price == price:
            prices[item].append(price)
    usual = {item: np.median(found) for item, found in prices.items()}
    return np.array(
        [np.log(p / usual[i]) if p == p else 0 for i, p in zip(log["item"], log["price"], strict=True)]
    )


def earlier_frauds(log: dict[str, np.ndarray]) -> np.ndarray:
    """The number of earlier frauds of each order's user."""
    frauds: dict[str, int] = defaultdict(int)
    found = []
    for user, label in zip(log["user"], log["fraud"], strict=True):
        found.append(frauds[user])
        frauds[user] += label
    return np.array(found)


def test_fraud_depends_on_the_price_against_the_usual_one_more_than_on_the_price(log) -> None:
    against_usual = roc_auc_score(log["fraud"], excess(log))
    assert against_usual > 0.75
    assert roc_auc_score(log["fraud"], np.nan_to_num(log["price"])) < against_usual - 0.1


def test_fraud_depends_on_the_past_of_the_user(log) -> None:
    ordinary = excess(log) < 0.3
    repeated, fresh = earlier_frauds(log) > 1, earlier_frauds(log) == 0
    fraud = log["fraud"]
    assert fraud[ordinary & repeated].mean() > 2 * fraud[ordinary & fresh].mean()


def tainted_share(log: dict[str, np.ndarray]) -> np.ndarray:
    """For each order, the share of known fraudulent users among the buyers of its user's last two items."""
    buyers, items, tainted = defaultdict(set), defaultdict(list), set()
    found = []
    for user, item, label in zip(log["user"], log["item"], log["fraud"], strict=True):
        shares = [len(buyers[i] & tainted - {user}) / (len(buyers[i]) + 3) for i in items[user][-2:]]
        found.append(sum(shares))
        buyers[item].add(user)
        items[user].append(item)
        if label:
            tainted.add(user)
    return np.array(found)


def planted(ring: dict[str, np.ndarray]) -> np.ndarray:
    """First frauds of users at an ordinary price: mostly those of the ring."""
    return (ring["fraud"] == 1) & (excess(ring) < 0.3) & (earlier_frauds(ring) == 0)


def test_a_ring_shows_in_the_graph_alone(ring) -> None:
    first = planted(ring)
    others = ring["fraud"] == 0
    rows = (first | others) & (np.arange(ORDERS) > ORDERS // 2)  # when enough of it is known
    share = tainted_share(ring)
    assert roc_auc_score(first[rows], share[rows]) > 0.7
    assert 0.4 < roc_auc_score(first[rows], excess(ring)[rows]) < 0.6
    assert planted(ring).sum() > ORDERS // 150


def test_the_datasets_are_these_logs() -> None:
    stream = load_dataset("shop-ring:900")
    assert isinstance(stream, EventStream)
    assert stream.equals(shop(900, ring=True))
    assert stream.origin == "shop-ring:900"
    assert stream.bipartite
    assert all(load_dataset(name).num_nodes == DATASETS[name].nodes for name in ("shop", "shop-ring"))
    table = shop_table(900, ring=True)
    assert stream.label.tolist() == table["fraud"].to_pylist()
    assert stream.ids.labels[stream.src].tolist() == table["user"].to_pylist()
    assert load_dataset("shop:900").label.sum() < stream.label.sum()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_written_log_is_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"shop.{suffix}"
    answer = Answer("datasets", "shop:900", "--out", path)
    assert answer.code == 0, answer.err
    read = open_stream(
        path, src="user", dst="item", t="time", label="fraud", features=("price", "category", "payment")
    )
    assert read.equals(shop(900))


def test_any_dataset_can_be_written(tmp_path: Path) -> None:
    assert Answer("datasets", "synthetic:50", "--out", tmp_path / "s.csv").code == 0
    assert open_stream(tmp_path / "s.csv", bipartite=True).equals(load_dataset("synthetic:50"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("shop:900",), "give both its name and a file"),
        (("--out", "x.csv"), "give both its name and a file"),
        (("shopp", "--out", "x.csv"), "Did you mean 'shop'"),
        (("shop:many", "--out", "x.csv"), "'many' is not a number of events"),
        (("shop:3", "--out", "x.csv"), "at least 500"),
        (("shop", "--out", "x.txt"), "Unknown file format"),
    ],
)
def test_bad_input_is_refused(arguments, problem, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = Answer("datasets", *arguments)
    assert answer.code == 2
    assert problem in " ".join(answer.err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"orders": 3}, {"orders": True}, {"seed": -1}, {"ring": 1}])
def test_bad_arguments_are_refused(wrong) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        shop_table(**{"orders": 600, **wrong})
