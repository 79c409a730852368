"""The notes of a table name depth, width, training and departing options of every model."""

from __future__ import annotations

from contig.experiments.recipes import Recipe
from contig.experiments.training_settings import LAYERS, LEDGER_NOTE, OPTIONS_NOTE, settings_notes
from contig.models import model_class, model_names

TRAINING = {"lr": 0.5, "epochs": 4, "patience": 6}


def notes(*recipes: Recipe) -> list[str]:
    return settings_notes((recipe.data, recipe) for recipe in recipes)


def test_depth_width_and_training() -> None:
    tgat = Recipe("mooc", "tgat", {"layers": 3, "neighbors": 7, "dim": 5, **TRAINING})
    described = "3 layers, 7 neighbors, 5 dimensions, lr 0.5, at most 4 epochs, patience 6"
    assert notes(tgat) == [f"tgat: {described}.", LEDGER_NOTE]
    jodie = Recipe("mooc", "jodie", {"epochs": 4})
    assert notes(jodie)[0] == "jodie: no layers, 172 dimensions, lr 0.001, at most 4 epochs, patience 5."
    assert notes(Recipe("mooc", "recency")) == []


def test_the_depth_of_every_model_that_learns_is_known() -> None:
    for name in model_names():
        kind = model_class(name)
        if kind.learns:
            assert hasattr(kind.options, "layers") != (name in LAYERS), name


def test_the_width_of_every_model_that_learns_is_an_option() -> None:
    assert all(hasattr(kind.options, "dim") for kind in map(model_class, model_names()) if kind.learns)


def test_options_that_depart_from_the_default_are_named() -> None:
    """The model's own default counts, also of its training: contig-pair has two negatives."""
    departing = {"identity": 32, "batch_size": 100, "negatives": 2, "dropout": 0.1, "time_encoding": "raw"}
    first, explained, _ = notes(Recipe("mooc", "tgat", {**departing, "seed": 3, "holdout": "none"}))
    assert first.endswith("patience 5, time_encoding=raw, identity=32, batch_size=100, negatives=2.")
    assert explained == OPTIONS_NOTE
    assert "negatives" not in notes(Recipe("mooc", "contig-pair", {"negatives": 2}))[0]
    assert "negatives=1" in notes(Recipe("mooc", "contig-pair", {"negatives": 1}))[0]
    flags = {"activity": True, "without": ["update", "latest"], "beta": 0.5}
    assert "beta=0.5, activity=true, without=update+latest." in notes(Recipe("mooc", "contig", flags))[0]


def test_what_all_models_share_comes_first_and_equal_models_share_a_note() -> None:
    models = [Recipe("mooc", name, {"patience": 7}) for name in ("gae", "vgae", "graphsage", "recency")]
    assert notes(*models) == [
        "All trained models: 2 layers, 64 dimensions, at most 50 epochs, patience 7.",
        "gae, vgae: lr 0.01.",
        "graphsage: 10 neighbors, lr 0.003.",
        LEDGER_NOTE,
    ]
    both = notes(Recipe("mooc", "gae", {"dropout": 0.3}), Recipe("mooc", "vgae"))
    assert both[1:3] == ["gae: dropout=0.3.", OPTIONS_NOTE]


def test_datasets_are_named_only_where_settings_differ() -> None:
    def tgat(data: str, **settings: object) -> Recipe:
        return Recipe(data, "tgat", settings)

    usual = "2 layers, 20 neighbors, 172 dimensions, lr 0.0003, at most 50 epochs, patience 5"
    assert notes(tgat("a"), tgat("b"), tgat("a")) == [f"tgat: {usual}.", LEDGER_NOTE]
    found = notes(tgat("a", neighbors=10, identity=32), tgat("b"), tgat("c"), tgat("d", lr=0.5))
    assert found[0] == f"tgat: {usual} (on a: 10 neighbors, identity=32; on d: lr 0.5)."
    found = notes(tgat("a", identity=32), tgat("b", identity=32), tgat("c"))
    assert found[0] == f"tgat: {usual}, identity=32 (on c: identity=0)."


def test_a_variant_follows_its_model() -> None:
    variant = Recipe("mooc", "contig", {"activity": True}, variant="activity")
    found = notes(Recipe("mooc", "contig"), Recipe("mooc", "tgn"), variant)
    assert [note.partition(":")[0] for note in found[1:4]] == ["contig", "contig, activity", "tgn"]
    assert found[2] == "contig, activity: 15 neighbors, activity=true."
