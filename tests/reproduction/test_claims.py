"""Claims: who is best, and how claims are listed."""

from __future__ import annotations

from math import nan

import pytest

from contig.experiments.rows import Spread
from contig.reproduction.claims import Claim, best_claim, claims_sheet
from contig.reproduction.tables.numbers import Grid, Line, Value
from contig.reproduction.verdicts import Verdict

Result = tuple[tuple[float, float], float]  # ours with its deviation, and the paper's


def best(models: dict[str, Result]) -> list[Claim]:
    lines = tuple(
        Line(name, (Value(), Value(Spread(*ours), Spread(theirs, 0.1), 3)))
        for name, (ours, theirs) in models.items()
    )
    return list(best_claim("best", "mooc", Grid("mooc", "model", ("AUC", "AP"), lines), 1))


@pytest.mark.parametrize(
    ("contig", "tgn", "verdict", "ours"),
    [
        (((90.0, 0.5), 80.0), ((88.0, 0.5), 79.0), Verdict.HOLDS, "rank 1 of 3, +2.00 vs. tgn"),
        (((90.0, 0.5), 80.0), ((89.5, 0.5), 79.0), Verdict.OPEN, "rank 1 of 3, +0.50 vs. tgn"),
        (((90.0, 0.5), 80.0), ((90.5, 0.5), 79.0), Verdict.OPEN, "rank 2 of 3, -0.50 vs. tgn"),
        (((90.0, 0.5), 80.0), ((92.0, 0.5), 79.0), Verdict.FAILS, "rank 2 of 3, -2.00 vs. tgn"),
        (((90.0, 0.5), 78.0), ((88.0, 0.5), 79.0), Verdict.ONLY_HERE, "rank 1 of 3, +2.00 vs. tgn"),
        (((90.0, 0.5), 78.0), ((89.5, 0.5), 79.0), Verdict.OPEN, "rank 1 of 3, +0.50 vs. tgn"),
        (((90.0, 0.5), 78.0), ((92.0, 0.5), 79.0), Verdict.NEITHER, "rank 2 of 3, -2.00 vs. tgn"),
        (((90.0, nan), 80.0), ((10.0, nan), 79.0), Verdict.ONE_SEED, "rank 1 of 3, +40.00 vs. gae"),
    ],
)
def test_the_best_of_all_models(contig: Result, tgn: Result, verdict: Verdict, ours: str) -> None:
    """A model without a number in the paper does not count."""
    [claim] = best({"contig": contig, "tgn": tgn, "gae": ((50.0, 9.0), 20.0), "vgae": ((95.0, 0.1), nan)})
    assert (claim.text, claim.where, claim.verdict, claim.ours) == ("best", "mooc", verdict, ours)
    place = 1 if contig[1] > tgn[1] else 2
    assert claim.paper == f"rank {place} of 3, {contig[1] - tgn[1]:+.2f} vs. tgn"


def test_the_best_is_found_on_each_side_separately() -> None:
    models = {"contig": ((90.0, 0.1), 80.0), "tgn": ((80.0, 0.1), 79.0), "gat": ((91.0, 0.1), 60.0)}
    [claim] = best(models)
    assert (claim.paper, claim.ours) == ("rank 1 of 3, +1.00 vs. tgn", "rank 2 of 3, -1.00 vs. gat")
    assert claim.verdict is Verdict.FAILS


@pytest.mark.parametrize(
    "models",
    [
        {"contig": ((90.0, 0.1), 80.0)},
        {"tgn": ((90.0, 0.1), 80.0), "gat": ((91.0, 0.1), 60.0)},
        {"contig": ((90.0, 0.1), nan), "tgn": ((80.0, 0.1), 79.0)},
        {"contig": ((nan, nan), 80.0), "tgn": ((80.0, 0.1), 79.0)},
    ],
)
def test_no_claim_without_the_numbers(models: dict[str, Result]) -> None:
    assert best(models) == []


def test_claims_with_the_same_text_are_listed_together() -> None:
    claims = [
        Claim(text, where, "yes", "no", Verdict.FAILS)
        for text, where in (("b", "mooc"), ("a", "mooc"), ("b", "wikipedia"))
    ]
    sheet = claims_sheet(claims, ["A note."], "QUICK: small")
    [layout] = sheet.layouts
    assert [(row.section, row.label) for row in layout.rows] == [
        *(("b", "mooc"), ("b", "wikipedia"), ("a", "mooc"))
    ]
    assert layout.rows[0].cells[-1] == ("does not hold", "down")
    first, *_ = sheet.records()
    assert first == {
        **{"item": "claims", "part": layout.title, "section": "b", "label": "mooc"},
        **{"paper": "yes", "ours": "no", "verdict": "does not hold", "scale": "quick"},
    }
    assert sheet.notes[0] == "A note."
    assert claims_sheet([]).layouts == ()


def test_the_notes_say_what_is_compared() -> None:
    notes = claims_sheet([]).notes
    assert "further apart than the sum of their standard deviations" in " ".join(notes)
    assert any(note.startswith("Models that cannot score new nodes (gae, vgae, ctdne) ") for note in notes)
