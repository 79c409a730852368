"""A seeded log of a shop's orders, with a fraud label whose causes are known.

Who orders what and when comes from ``contig.synthetic``. Every item has a usual price; some orders are far
above it. An order is more likely to be fraud the further its price is above the usual one, and the more
frauds its user has had. Prices are skewed, categories have a long tail, and some values are missing.

With a ring, some accounts pass goods on to one another: they buy two of a few drop items, which others buy as
well, and then place an order at an ordinary price that is fraud. In all else they order like everybody else.
Neither the price nor the past of the account shows that fraud. What shows it is that other buyers of the drop
items turned out to be fraudulent.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.data.synthetic import synthetic
from contig.errors import ConfigError
from contig.options import check_flag

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

START = 1_704_067_200  # 2024-01-01
DAY = 86_400.0
SPAN = 120 * DAY
FEWEST = 500  # orders; fewer have hardly any fraud

CATEGORIES = 24
FEATURES = ("price", "category", "payment")
PAYMENTS = ("card", "transfer", "wallet", "invoice")
MISSING = {"price": 0.03, "payment": 0.05}

PRICE_NOISE = 0.15  # spread of the logarithm of ordinary prices of one item
OVERPRICED = 0.06  # share of the orders that are far above the usual price
# The logit of fraud: of an ordinary order, per unit of the logarithm of (price / usual price), and per
# earlier fraud of the user, of which two count: more, and busy users would end up with nothing but fraud.
BASE, PER_PRICE, PER_FRAUD, COUNTED_FRAUDS = -6.0, 4.4, 1.5, 2

ORDERS_PER_USER = 10
ORDERS_PER_ACCOUNT = 100  # of the whole log, for each account of a ring
DROP_ITEMS = 8
SHORTEST = 4  # orders of an account of a ring


class _Orders(NamedTuple):
    """Who orders what and when, in time order; ``last`` marks the last order of each account of the ring."""

    user: Ints
    item: Ints
    t: Floats
    last: Flags


def shop_table(orders: int = 20_000, *, seed: int = 0, ring: bool = False) -> pa.Table:
    """Generate the log as a table: user, item, time, price, category, payment and fraud (0 or 1).

    Equal arguments give equal logs; ``ring`` plants the ring of accounts.
    """
    check_flag("ring", ring)
    if isinstance(orders, bool) or not isinstance(orders, int | np.integer) or orders < FEWEST:
        raise ConfigError(f"orders={orders!r} must be a whole number of at least {FEWEST}.")
    whole = not isinstance(seed, bool) and isinstance(seed, int | np.integer)
    if not whole or seed < 0:
        raise ConfigError(f"seed={seed!r} must be a whole number of at least 0.")
    accounts, goods, fraud, gaps = np.random.default_rng([seed, 17]).spawn(4)
    log = _orders(accounts, int(orders), int(seed), ring)
    items = int(log.item.max()) + 1
    usual = goods.normal(3.2, 1.2, items)  # logarithms
    excess = goods.normal(0.0, PRICE_NOISE, orders)
    over = (goods.random(orders) < OVERPRICED) & ~log.last
    excess[over] += goods.normal(0.9, 0.3, int(over.sum())).clip(0.3)
    category = _categories(goods, items)
    payment = goods.choice(len(PAYMENTS), orders, p=(0.6, 0.1, 0.2, 0.1))
    price = np.round(np.exp(usual[log.item] + excess), 2)
    label = _labels(fraud, log, excess)
    lost = {name: gaps.random(orders) < share for name, share in MISSING.items()}
    times = (START + log.t).astype("datetime64[s]")
    return pa.table(
        {
            "user": [f"user-{one:06d}" for one in log.user.tolist()],
            "item": [f"item-{one:05d}" for one in log.item.tolist()],
            "time": pa.array(times),
            "price": pa.array(price, mask=lost["price"]),
            "category": [f"category-{one:02d}" for one in category[log.item].tolist()],
            "payment": pa.array([PAYMENTS[one] for one in payment], mask=lost["payment"]),
            "fraud": label,
        }
    )


def shop(orders: int = 20_000, *, seed: int = 0, ring: bool = False) -> EventStream:
    """Generate the log of ``shop_table`` as a stream whose labels are the frauds.

    Its features are price, category and payment; ``contig.fit`` encodes them by the training part.
    """
    table = shop_table(orders, seed=seed, ring=ring)
    stream = read_events(table, src="user", dst="item", t="time", label="fraud", features=FEATURES)
    return replace(stream, origin=f"shop{'-ring' if ring else ''}:{orders}", notices=())


# --- who orders what ---------------------------------------------------------------------------------


def _orders(rng: np.random.Generator, orders: int, seed: int, ring: bool) -> _Orders:
    sources = orders // ORDERS_PER_USER
    items = max(2 * DROP_ITEMS, sources // 8)
    base = synthetic(orders, sources=sources, destinations=items, seed=seed, span=SPAN, dropout=0.0)
    item, last = base.dst - sources, np.zeros(orders, dtype=bool)
    if ring:
        item, last = _with_ring(rng, base.src, item)
    return _Orders(base.src, item, base.t.astype(np.float64), last)


def _with_ring(rng: np.random.Generator, user: Ints, item: Ints) -> tuple[Ints, Flags]:
    """Let some users buy two drop items before their last order, and mark that order."""
    order = np.argsort(user, kind="stable")  # by user, then by time
    end = np.cumsum(np.bincount(user))
    eligible = np.flatnonzero(np.bincount(user) >= SHORTEST)
    accounts = rng.choice(eligible, min(len(user) // ORDERS_PER_ACCOUNT, len(eligible)), replace=False)
    rare = np.argsort(np.bincount(item), kind="stable")
    drops = rng.choice(rare[: max(DROP_ITEMS, len(rare) // 2)], DROP_ITEMS, replace=False)
    item, last = item.copy(), np.zeros(len(user), dtype=bool)
    for back in (2, 3):
        item[order[end[accounts] - back]] = rng.choice(drops, len(accounts))
    last[order[end[accounts] - 1]] = True
    return item, last


def _categories(rng: np.random.Generator, items: int) -> Ints:
    weights = 1.0 / np.arange(1, CATEGORIES + 1)
    return rng.choice(CATEGORIES, items, p=weights / weights.sum())


def _labels(rng: np.random.Generator, log: _Orders, excess: Floats) -> Ints:
    """Draw the frauds in time order, because each depends on those before it."""
    draws = rng.random(len(excess)).tolist()
    label = np.zeros(len(excess), dtype=np.int64)
    frauds: dict[int, int] = {}
    rows = zip(log.user.tolist(), excess.tolist(), log.last.tolist(), strict=True)
    for row, (user, above, planted) in enumerate(rows):
        logit = BASE + PER_PRICE * max(above, 0.0) + PER_FRAUD * min(frauds.get(user, 0), COUNTED_FRAUDS)
        if planted or draws[row] < 1.0 / (1.0 + math.exp(-logit)):
            label[row] = 1
            frauds[user] = frauds.get(user, 0) + 1
    return label
