"""What a study leaves in its folder."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from support.studies import fill, planned

from contig.reproduction.output import judge, write_results
from contig.reproduction.plan import Plan

ITEMS = "table2 fig6"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study"), ITEMS))


def test_every_table_in_every_format(plan: Plan) -> None:
    sheets = write_results(plan, ["tgn failed"])
    assert [sheet.name for sheet in sheets] == [*ITEMS.split(), "claims"]
    out = plan.study.out
    for sheet in sheets:
        for extension in ("txt", "md", "tex"):
            assert sheet.title.partition(":")[2] in (out / f"{sheet.name}.{extension}").read_text()
        with (out / f"{sheet.name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["label"] for row in rows] == [record["label"] for record in sheet.records()]
    for item in ITEMS.split():
        assert (out / f"{item}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (out / f"{item}.svg").read_text()
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "tgn failed" in page
    assert (out / "protocol.md").read_text().startswith("# Protocol\n")


def test_outdated_figures_are_removed(tmp_path: Path) -> None:
    plan = planned(tmp_path, "fig6")
    for extension in ("png", "svg"):
        (tmp_path / f"fig6.{extension}").write_text("drawn earlier")
    write_results(plan)
    assert not list(tmp_path.glob("fig6.[ps][nv]g"))
    assert "<svg" not in (tmp_path / "report.html").read_text()


def test_every_item_is_judged(plan: Plan) -> None:
    claims = judge(plan, plan.tables())
    assert claims.notes[0].startswith("contig differs from the paper's model")
    assert not any(note.startswith("Table 4: ") for note in claims.notes)
    [layout] = claims.layouts
    assert {row.section.partition(":")[0] for row in layout.rows} == {"Table 2", "Fig. 6"}


def test_the_claims_come_with_the_key_of_their_words(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table4 fig4 fig5"))
    notes = judge(plan, plan.tables()).notes
    for start in (
        "Table 4: Without transform: ",
        "Fig. 4: The paper's abstract ",
        "Fig. 5: T is the end",
    ):
        assert len([note for note in notes if note.startswith(start)]) == 1
