"""Features are encoded by statistics of the training rows, checked against formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from contig.data.feature_columns import FeatureColumn, RawFeatures
from contig.data.feature_plan import FeaturePlan
from contig.errors import DataError

ROWS = 400
TRAIN = np.arange(0, ROWS, 2)[:150]
NAMES = tuple(f"c{i:02d}" for i in range(40))


@pytest.fixture(scope="module")
def raw() -> RawFeatures:
    rng = np.random.default_rng(0)
    values = np.empty((ROWS, 4), np.float32)
    values[:, 0] = rng.normal(5, 3, ROWS)
    values[:, 1] = np.exp(rng.normal(2, 1.5, ROWS))
    values[:, 2] = rng.zipf(1.3, ROWS).clip(max=40) - 1
    values[:, 3] = 6.0
    values[rng.random(ROWS) < 0.2, 1] = np.nan
    values[rng.random(ROWS) < 0.1, 2] = np.nan
    columns = (
        FeatureColumn("age"),
        FeatureColumn("price"),
        FeatureColumn("kind", NAMES),
        FeatureColumn("one"),
    )
    return RawFeatures(values, columns)


@pytest.fixture(scope="module")
def plan(raw: RawFeatures) -> FeaturePlan:
    return FeaturePlan.fit(raw, TRAIN)


@pytest.fixture(scope="module")
def encoded(raw: RawFeatures, plan: FeaturePlan) -> dict[str, np.ndarray]:
    matrix = plan.encode(raw, "events")
    return dict(zip(plan.outputs, matrix.T, strict=True))


def test_a_number_is_standardized_on_the_training_rows(raw, encoded) -> None:
    age = raw.values[:, 0].astype(np.float64)
    expected = (age - age[TRAIN].mean()) / age[TRAIN].std()
    np.testing.assert_allclose(encoded["age"], expected, rtol=1e-5, atol=1e-6)
    assert "age missing" not in encoded


def test_a_skewed_number_gets_a_logarithm_and_missing_values_the_mean(raw, encoded) -> None:
    price = raw.values[:, 1].astype(np.float64)
    there = ~np.isnan(price)
    unit = np.median(price[TRAIN][there[TRAIN]])
    logs = np.log1p(price / unit)
    mean, scale = logs[TRAIN][there[TRAIN]].mean(), logs[TRAIN][there[TRAIN]].std()
    np.testing.assert_allclose(encoded["price"][there], (logs[there] - mean) / scale, rtol=1e-4, atol=1e-5)
    assert (encoded["price"][~there] == 0).all()
    assert (encoded["price missing"] == ~there).all()


def test_frequent_categories_have_columns_and_the_rest_share_one(raw, plan, encoded) -> None:
    codes = raw.values[:, 2]
    counts = {name: int((codes[TRAIN] == i).sum()) for i, name in enumerate(NAMES)}
    frequent = [name for name in sorted(counts, key=lambda n: (-counts[n], n))[:16] if counts[name] >= 5]
    assert plan.columns[2].names == tuple(sorted(frequent))
    assert 2 < len(frequent) < 16
    for name in frequent:
        assert (encoded[f"kind={name}"] == (codes == NAMES.index(name))).all()
    own = sum(encoded[f"kind={name}"] for name in frequent)
    assert (encoded["kind=other"] == ((own == 0) & ~np.isnan(codes))).all()
    assert (encoded["kind missing"] == np.isnan(codes)).all()


def test_at_most_sixteen_categories_have_columns() -> None:
    codes = np.repeat(np.arange(30), 20).astype(np.float32)[:, None]
    raw = RawFeatures(codes, (FeatureColumn("kind", NAMES[:30]),))
    assert len(FeaturePlan.fit(raw, np.arange(600)).columns[0].names) == 16


def test_a_constant_column_becomes_zero_whatever_comes_later(plan, encoded) -> None:
    assert (encoded["one"] == 0).all()
    later = RawFeatures(np.array([[1, 2, 3, 99]], np.float32), raw_columns(plan))
    assert plan.encode(later, "later")[0, -1] == 0


def raw_columns(plan: FeaturePlan) -> tuple[FeatureColumn, ...]:
    return (FeatureColumn("age"), FeatureColumn("price"), FeatureColumn("kind", NAMES), FeatureColumn("one"))


def test_only_training_rows_decide(raw: RawFeatures, plan: FeaturePlan) -> None:
    changed = raw.values.copy()
    others = np.setdiff1d(np.arange(ROWS), TRAIN)
    changed[others] = [1e6, np.nan, 39, -5]
    assert FeaturePlan.fit(RawFeatures(changed, raw.columns), TRAIN) == plan
    changed[TRAIN[0], 0] += 100
    assert FeaturePlan.fit(RawFeatures(changed, raw.columns), TRAIN) != plan


def test_new_rows_may_have_other_columns_categories_and_extremes(plan: FeaturePlan) -> None:
    columns = (FeatureColumn("kind", ("brand new", "c00")), FeatureColumn("x"), FeatureColumn("one"))
    columns += (FeatureColumn("price"), FeatureColumn("age"))
    values = np.array([[0, 5, 6, np.nan, 1e30], [1, 5, 6, 0, -1e30]], np.float32)
    found = dict(zip(plan.outputs, plan.encode(RawFeatures(values, columns), "new").T, strict=True))
    assert found["kind=other"].tolist() == [1, 0]
    assert found["kind=c00"].tolist() == [0, 1]
    assert found["price missing"].tolist() == [1, 0]
    assert found["age"].tolist() == [10, -10]  # clipped
    assert all(np.isfinite(column).all() for column in found.values())


def test_a_missing_column_and_another_kind_are_refused(plan: FeaturePlan) -> None:
    with pytest.raises(DataError, match=r"no feature column 'age'.*--features age,price,kind,one"):
        plan.encode(RawFeatures(np.zeros((1, 1), np.float32), (FeatureColumn("price"),)), "new.csv")
    columns = (FeatureColumn("age", ("old",)), *raw_columns(plan)[1:])
    with pytest.raises(DataError, match=r"new\.csv, row 0 .*, column 'age': 'old' is not a number"):
        plan.encode(RawFeatures(np.zeros((1, 4), np.float32), columns), "new.csv")
    nothing = RawFeatures(np.full((1, 4), np.nan, np.float32), columns)
    assert np.isfinite(plan.encode(nothing, "new.csv")).all()  # no value, no contradiction


def test_numbers_are_categories_where_the_plan_says_so_and_text_is_numbers() -> None:
    codes = np.repeat([0, 1], 10).astype(np.float32)
    raw = RawFeatures(
        np.stack([codes, np.arange(20)], axis=1).astype(np.float32),
        (FeatureColumn("zone", ("1", "2")), FeatureColumn("size")),
    )
    plan = FeaturePlan.fit(raw, np.arange(20))
    later = RawFeatures(
        np.array([[2.0, 1], [7, 0]], np.float32),
        (FeatureColumn("zone"), FeatureColumn("size", ("10", "9.5"))),
    )
    found = dict(zip(plan.outputs, plan.encode(later, "later").T, strict=True))
    assert [found["zone=2"].tolist(), found["zone=other"].tolist()] == [[1, 0], [0, 1]]
    expected = (np.array([9.5, 10]) - 9.5) / np.arange(20).std()
    np.testing.assert_allclose(found["size"], expected, atol=1e-6)


def test_a_category_called_other_has_a_column_of_its_own() -> None:
    codes = np.repeat([0, 1], 10).astype(np.float32)[:, None]
    plan = FeaturePlan.fit(RawFeatures(codes, (FeatureColumn("kind", ("other", "tea")),)), np.arange(20))
    assert len(set(plan.outputs)) == len(plan.outputs) == 3


def test_a_plain_matrix_has_the_columns_of_a_file(raw: RawFeatures, plan: FeaturePlan) -> None:
    with pytest.raises(DataError, match="3 features; those of the run are age, price, kind, one"):
        plan.encode_matrix(np.zeros((2, 3), np.float32), "new")
    numbers = RawFeatures(raw.values[:, [0, 1, 3]], tuple(raw.columns[i] for i in (0, 1, 3)))
    own = FeaturePlan.fit(numbers, TRAIN)
    assert own.encode_matrix(numbers.values, "new").tolist() == own.encode(numbers, "new").tolist()


def test_missing_values_of_a_complete_training_part_become_the_mean(plan: FeaturePlan) -> None:
    raw = RawFeatures(np.full((2, 4), np.nan, np.float32), raw_columns(plan))
    assert plan.encode(raw, "new")[:, 0].tolist() == [0, 0]


def test_numeric_outputs_are_those_of_numbers(plan: FeaturePlan) -> None:
    assert [plan.outputs[i] for i in plan.numeric] == ["age", "price", "one"]
