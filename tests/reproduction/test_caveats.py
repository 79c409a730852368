"""What a reader is told about the numbers follows from the study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.studies import SCALE, planned

from contig.reproduction.caveats import not_comparable, protocol, reading


def test_what_is_not_comparable(tmp_path: Path) -> None:
    told = " ".join(not_comparable(planned(tmp_path)))
    assert "wikipedia: 0 features here, 172 in the paper." in told
    assert "Not run here: reddit, collegemsg." in told
    assert "Seeds 0 to 2 here, 10 runs in the paper" in told
    assert "lr 0.0003 (paper: 0.0001)" in told
    assert "time_dim" not in told  # it is the paper's
    assert "scope pair (paper: all)" in told
    assert "query_time zero (paper: absolute)" in told
    assert "activity" not in told
    assert "Fig. 6 uses synthetic" in told
    assert "Fig. 6" not in " ".join(not_comparable(planned(tmp_path, "table2")))


def test_what_only_one_stream_departs_in_is_told_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    settings = {"scope": "all", "activity": True}
    (folder / "mooc.json").write_text(json.dumps({"data": "mooc", "settings": settings}))
    told = " ".join(not_comparable(planned(tmp_path, "table2", configs=folder)))
    assert "activity on (mooc; paper: off)" in told
    assert "scope pair (wikipedia; paper: all)" in told
    assert "lr 0.0003 (paper: 0.0001)" in told


@pytest.mark.parametrize("item", ["table4", "fig5", "fig6"])
def test_departures_are_told_of_every_item_that_has_the_papers_model(item: str, tmp_path: Path) -> None:
    [told] = [line for line in not_comparable(planned(tmp_path, item)) if "departs" in line]
    assert "state_norm on (paper: off)" in told
    for swept in ("horizon", "neighbors", "heads", "dim"):
        assert swept not in told  # changed to see what that does


def test_the_page_has_it_all(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    page = reading(plan)
    for line in (*protocol(plan.study), *not_comparable(plan)):
        assert f"\n- {line}\n" in page
    assert page.count("\n# ") + page.startswith("# ") == 2


def test_one_seed_and_a_small_scale_are_told(tmp_path: Path) -> None:
    from dataclasses import replace

    small = replace(SCALE, warning="QUICK: small", settings={"dim": 8})
    plan = planned(tmp_path, "table2", seeds=1, scale=small)
    told = " ".join(not_comparable(plan))
    assert "QUICK: small" in told
    assert "dim 8 (paper: 172)" in told
    assert "Seed 0 alone" in " ".join(protocol(plan.study))
