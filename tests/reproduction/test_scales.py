"""The scales of a study."""

from __future__ import annotations

from contig.reproduction.scales import FULL, QUICK


def test_the_full_scale_gives_every_model_the_same_effort() -> None:
    assert set(FULL.settings) == {"epochs", "patience"}
    assert (FULL.events, FULL.warning, FULL.quick) == (None, "", False)


def test_the_quick_scale_says_how_small_it_is() -> None:
    assert QUICK.quick
    for part in (
        f"{QUICK.events:,} events",
        f"{QUICK.settings['epochs']} epochs",
        f"dimension {QUICK.settings['dim']}",
    ):
        assert part in QUICK.warning
