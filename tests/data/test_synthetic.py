"""The generator keeps the statistics its parameters promise, and the same seed gives the same stream."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import roc_auc_score

from contig.data.events import EventStream
from contig.data.synthetic import synthetic
from contig.errors import ConfigError


def seen_before(stream: EventStream) -> list[bool | None]:
    """Whether each event's pair occurred earlier; None at a source's first event."""
    met: dict[int, set[int]] = defaultdict(set)
    seen: list[bool | None] = []
    for s, d in zip(stream.src.tolist(), stream.dst.tolist(), strict=True):
        seen.append(d in met[s] if met[s] else None)
        met[s].add(d)
    return seen


def repeat_ratio(stream: EventStream) -> float:
    return float(np.mean([x for x in seen_before(stream) if x is not None]))


def zipf_share(size: int, exponent: float, top: int) -> float:
    weights = [rank**-exponent for rank in range(1, size + 1)]
    return sum(weights[:top]) / sum(weights)


def components(stream: EventStream) -> np.ndarray:
    ones = np.ones(len(stream))
    graph = coo_matrix((ones, (stream.src, stream.dst)), shape=(stream.num_nodes, stream.num_nodes))
    return connected_components(graph, directed=False)[1]


def gaps_of(stream: EventStream, source: int) -> np.ndarray:
    return np.diff(stream.t[stream.src == source])


@pytest.mark.parametrize("bipartite", [True, False])
@pytest.mark.parametrize(
    ("events", "sources", "destinations"),
    [(1, 1, 2), (1, 7, 3), (7, 2, 5), (7, 40, 2), (1000, 3, 200), (1000, 200, 3), (1234, None, None)],
)
def test_any_size_gives_a_well_formed_stream(events, sources, destinations, bipartite) -> None:
    stream = synthetic(events, sources=sources, destinations=destinations, bipartite=bipartite, seed=4)
    assert len(stream) == events
    assert stream.bipartite is bipartite
    acting = len(np.unique(stream.src))
    most = sources or events // 20
    assert acting == most if events >= most else 1 <= acting <= events
    assert len(stream.destinations) <= (destinations or max(10, most // 5))
    assert np.array_equal(np.unique(np.concatenate([stream.src, stream.dst])), np.arange(stream.num_nodes))
    assert stream.t.dtype == np.int64
    assert stream.t[0] == 0
    assert stream.t[-1] <= 2_592_000
    assert (np.diff(stream.t) >= 0).all()
    assert not stream.notices


def test_the_same_seed_gives_the_same_stream() -> None:
    again = [synthetic(3000, seed=11, edge_features=3) for _ in range(2)]
    other = synthetic(3000, seed=12, edge_features=3)
    assert again[0].equals(again[1])
    assert again[0].fingerprint() != other.fingerprint()
    for column in ("src", "dst", "t", "label", "edge_features"):
        assert not np.array_equal(getattr(again[0], column), getattr(other, column)), column


def test_features_change_no_event() -> None:
    bare, rich = synthetic(2000, seed=3), synthetic(2000, seed=3, edge_features=5)
    assert rich.edge_features is not None
    assert rich.edge_features.shape == (2000, 5)
    assert bare.edge_features is None
    for column in ("src", "dst", "t", "label"):
        assert np.array_equal(getattr(bare, column), getattr(rich, column)), column


@pytest.mark.parametrize("repeat", [0.0, 0.35, 0.9])
def test_repeats_come_with_the_given_probability(repeat: float) -> None:
    # So many destinations of equal rank that a fresh choice hardly ever hits a known partner.
    stream = synthetic(
        30_000, sources=300, destinations=500_000, topics=1, popularity=0.0, repeat=repeat, dropout=0.0
    )
    assert repeat_ratio(stream) == pytest.approx(repeat, abs=0.012)


def test_repeats_favour_recent_partners_but_reach_back() -> None:
    stream = synthetic(
        20_000, sources=20, destinations=500_000, topics=1, popularity=0.0, repeat=0.5, dropout=0.0
    )
    lags = []
    for source in range(20):
        last: dict[int, int] = {}
        for i, d in enumerate(stream.dst[stream.src == source].tolist()):
            if d in last:
                lags.append(i - last[d])
            last[d] = i
    assert np.median(lags) < 40  # a source has about 1000 events
    assert np.quantile(lags, 0.95) > 100


@pytest.mark.parametrize("activity", [0.0, 0.75, 1.2])
def test_activity_follows_zipf(activity: float) -> None:
    stream = synthetic(60_000, sources=900, destinations=50, activity=activity)
    counts = np.sort(np.bincount(stream.src, minlength=900)[:900])[::-1]
    assert counts.min() >= 1
    expected = (9 + (60_000 - 900) * zipf_share(900, activity, 9)) / 60_000
    # Sorting by what came out picks the luckiest of equals, hence some slack upwards when all are even.
    assert counts[:9].sum() / 60_000 == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("popularity", [0.0, 0.75, 1.2])
def test_popularity_follows_zipf_within_a_topic(popularity: float) -> None:
    stream = synthetic(
        60_000, sources=900, destinations=400, topics=1, repeat=0.0, popularity=popularity, dropout=0.0
    )
    counts = np.sort(np.bincount(stream.dst - 900, minlength=400))[::-1]
    assert counts[:4].sum() / 60_000 == pytest.approx(zipf_share(400, popularity, 4), abs=0.01)


def test_popularity_is_heavy_tailed_in_every_topic() -> None:
    # 41 destinations in 5 topics: one of 9 and four of 8. Without drift a topic is a component.
    stream = synthetic(40_000, sources=2000, destinations=41, topics=5, drift=0.0, repeat=0.0, dropout=0.0)
    parts = components(stream)
    sizes = []
    for part in np.unique(parts):
        chosen = stream.dst[parts[stream.dst] == part]
        counts = np.sort(np.unique(chosen, return_counts=True)[1])[::-1]
        sizes.append(len(counts))
        shares = np.cumsum(counts) / counts.sum()
        assert shares == pytest.approx(
            [zipf_share(len(counts), 0.75, k + 1) for k in range(len(counts))], abs=0.012
        )
    assert sorted(sizes) == [8, 8, 8, 8, 9]


def test_without_drift_each_source_keeps_one_topic() -> None:
    options = {"events": 20_000, "sources": 500, "destinations": 60, "topics": 6, "dropout": 0.0}
    assert len(np.unique(components(synthetic(**options, drift=0.0)))) == 6
    assert len(np.unique(components(synthetic(**options, drift=0.5)))) == 1
    leaving = {**options, "drift": 0.0, "dropout": 1.0}
    assert len(np.unique(components(synthetic(**leaving)))) == 1


def test_drift_reduces_the_overlap_of_early_and_late_partners() -> None:
    def overlap(drift: float) -> float:
        stream = synthetic(40_000, sources=400, destinations=2000, topics=40, drift=drift, dropout=0.0)
        shares = []
        for source in range(400):
            partners = stream.dst[stream.src == source]
            if len(partners) >= 40:
                third = len(partners) // 3
                early, late = set(partners[:third].tolist()), set(partners[-third:].tolist())
                shares.append(len(early & late) / len(early | late))
        assert len(shares) > 100
        return float(np.mean(shares))

    still, slow, fast = overlap(0.0), overlap(0.1), overlap(0.8)
    assert still > slow + 0.05
    assert slow > fast + 0.05


@pytest.mark.parametrize("silence", [0.7, 1.5])
def test_silences_follow_pareto(silence: float) -> None:
    # One source, one event per session: every gap is a silence, all scaled alike.
    stream = synthetic(50_000, sources=1, destinations=5, session=1.0, silence=silence, span=1e14)
    low, middle, high = np.quantile(gaps_of(stream, 0), [0.25, 0.5, 0.9])
    assert high / middle == pytest.approx(5 ** (1 / silence), rel=0.06)
    assert middle / low == pytest.approx(1.5 ** (1 / silence), rel=0.06)


@pytest.mark.parametrize("session", [2.0, 9.0])
def test_sessions_have_the_mean_length(session: float) -> None:
    stream = synthetic(40_000, sources=1, destinations=5, session=session, silence=1.5, span=1e14)
    gaps = gaps_of(stream, 0)
    assert (gaps >= 3600).mean() == pytest.approx(1 / session, abs=0.008)
    assert np.median(gaps[gaps < 3600]) == pytest.approx(60, rel=0.05)


def test_time_is_bursty_with_ties_and_covers_the_span() -> None:
    stream = synthetic(50_000, seed=2)
    gaps = np.concatenate([gaps_of(stream, s) for s in np.unique(stream.src)])
    assert np.quantile(gaps, 0.99) > 500 * np.median(gaps)
    ties = np.mean(np.diff(stream.t) == 0)
    assert 0.005 < ties < 0.2
    tenths = np.histogram(stream.t, bins=10, range=(0, 2_592_000))[0] / len(stream)
    assert tenths.min() > 0.05
    assert tenths.max() < 0.2


def test_the_span_bounds_a_dense_stream_too() -> None:
    stream = synthetic(5000, sources=3, span=100.0)
    assert stream.t[-1] <= 100
    assert len(np.unique(stream.t)) > 50


def test_labels_mark_the_last_event_of_sources_that_drop_out() -> None:
    stream = synthetic(40_000, sources=2000, destinations=500_000, popularity=0.0, topics=1, dropout=0.3)
    assert stream.label is not None
    last = {s: i for i, s in enumerate(stream.src.tolist())}
    positive = np.flatnonzero(stream.label)
    assert all(last[int(stream.src[i])] == i for i in positive)
    often = np.count_nonzero(np.bincount(stream.src) > 1)
    assert len(positive) / often == pytest.approx(0.3, abs=0.04)
    # What announces a drop-out: the source repeats nothing any more.
    seen = seen_before(stream)
    assert not any(seen[i] for i in positive)
    others = [seen[i] for i in set(last.values()) - set(positive.tolist()) if seen[i] is not None]
    assert np.mean(others) > 0.5


def test_events_of_a_source_at_equal_times_keep_their_order() -> None:
    stream = synthetic(20_000, sources=200, span=20.0, dropout=1.0)
    assert stream.label is not None
    last = {s: i for i, s in enumerate(stream.src.tolist())}
    assert sorted(last.values()) == np.flatnonzero(stream.label).tolist()


def test_dropout_extremes() -> None:
    none, every = synthetic(3000, dropout=0.0), synthetic(3000, dropout=1.0)
    assert none.label is not None
    assert every.label is not None
    assert none.label.sum() == 0
    assert every.label.sum() == np.count_nonzero(np.bincount(every.src) > 1)


def test_features_predict_the_topic() -> None:
    stream = synthetic(
        30_000, sources=500, destinations=9, topics=3, drift=0.0, repeat=0.4, dropout=0.0, edge_features=6
    )
    assert stream.edge_features is not None
    parts = components(stream)
    centers = {}
    for item in stream.destinations.tolist():
        rows = stream.edge_features[stream.dst == item]
        assert rows.std(axis=0) == pytest.approx(0.5, rel=0.15)
        centers.setdefault(int(parts[item]), []).append(rows.mean(axis=0))
    assert len(centers) == 3
    for own in centers.values():
        assert np.ptp(np.array(own), axis=0).max() < 0.15
    means = np.array([np.mean(own, axis=0) for own in centers.values()])
    apart = np.linalg.norm(means[:, None] - means[None], axis=-1)
    assert apart[np.triu_indices(3, 1)].min() > 1.0


def test_unipartite_streams_have_no_self_loops() -> None:
    stream = synthetic(20_000, sources=23, destinations=17, bipartite=False)
    assert not stream.bipartite
    assert stream.num_nodes == 23
    assert (stream.src != stream.dst).all()
    assert np.intersect1d(stream.src, stream.dst).size > 10
    two = synthetic(500, sources=2, destinations=2, bipartite=False)
    assert (two.src + two.dst == 1).all()


def test_repeated_pairs_predict_better_than_chance() -> None:
    stream = synthetic(20_000, seed=5)
    rng = np.random.default_rng(0)
    other = rng.choice(stream.destinations, len(stream))
    met: set[tuple[int, int]] = set()
    scores, truths = [], []
    for s, d, n in zip(stream.src.tolist(), stream.dst.tolist(), other.tolist(), strict=True):
        scores += [(s, d) in met, (s, n) in met]
        truths += [1, 0]
        met.add((s, d))
    assert roc_auc_score(truths, scores) > 0.7


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"events": 0}, "events=0"),
        ({"events": 10.5}, "events=10.5"),
        ({"events": True}, "events=True"),
        ({"sources": 0}, "sources=0"),
        ({"destinations": -3}, "destinations=-3"),
        ({"destinations": 1, "bipartite": False}, "destinations=1"),
        ({"destinations": 10, "topics": 11}, "topics=11"),
        ({"edge_features": -1}, "edge_features=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"span": 0.0}, "span=0.0"),
        ({"span": float("inf")}, "span=inf"),
        ({"repeat": 1.5}, "repeat=1.5"),
        ({"drift": -0.1}, "drift=-0.1"),
        ({"dropout": float("nan")}, "dropout=nan"),
        ({"session": 0.5}, "session=0.5"),
        ({"silence": 0.0}, "silence=0.0"),
        ({"activity": float("inf")}, "activity=inf"),
    ],
)
def test_invalid_values_are_rejected_by_name(options, named) -> None:
    with pytest.raises(ConfigError, match=named):
        synthetic(**{"events": 50, **options})
