"""The notes of a table name depth and training of every model."""

from __future__ import annotations

from contig.experiments.recipes import Recipe
from contig.experiments.training_settings import LAYERS, LEDGER_NOTE, describe, settings_notes
from contig.models import model_class, model_names


def test_depth_and_training() -> None:
    tgat = Recipe("mooc", "tgat", {"layers": 3, "neighbors": 7, "lr": 0.5, "epochs": 4, "patience": 6})
    assert describe(tgat) == "3 layers, 7 neighbors, lr 0.5, at most 4 epochs, patience 6"
    jodie = Recipe("mooc", "jodie", {"epochs": 4})
    assert describe(jodie) == "no layers, lr 0.001, at most 4 epochs, patience 5"


def test_the_depth_of_every_model_that_learns_is_known() -> None:
    for name in model_names():
        kind = model_class(name)
        if kind.learns:
            assert hasattr(kind.options, "layers") != (name in LAYERS), name


def test_datasets_are_named_only_where_settings_differ() -> None:
    same, other = Recipe("a", "tgn"), Recipe("b", "tgn", {"lr": 0.5})
    assert settings_notes([("a", same), ("b", same), ("a", same)]) == [f"tgn: {describe(same)}.", LEDGER_NOTE]
    assert settings_notes([("a", same), ("b", other), ("c", same)])[0] == (
        f"tgn: on a, c: {describe(same)}; on b: {describe(other)}."
    )
    assert settings_notes([("a", Recipe("a", "recency"))]) == []
