"""The report: one well-formed page that needs nothing else and leaves nothing out."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.studies import SCALE, fill, planned

from contig.plots import inline_svg
from contig.reproduction.claims import claims
from contig.reproduction.figures import figure
from contig.reproduction.findings import tables
from contig.reproduction.grids import Table
from contig.reproduction.report import report

VOID = {"meta", "br", "img", "path", "use", "rect"}


class Page(HTMLParser):
    """Checks that what is opened is closed, and gathers ids, references and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._gather(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._gather(attrs)

    def _gather(self, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.refers += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        self.refers += [ref for _, value in attrs for ref in re.findall(r"url\(([^)]*)\)", value or "")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Table], str]:
    plan = fill(planned(tmp_path_factory.mktemp("study")))
    found = tables(plan)
    pictures = {
        table.name: inline_svg(drawn, table.name) for table in found if (drawn := figure(table, None))
    }
    return found, report(plan, found, claims(found), pictures, ["tgn failed: <why> & how"])


@pytest.fixture(scope="module")
def page(made: tuple[list[Table], str]) -> Page:
    page = Page()
    page.feed(made[1])
    page.close()
    return page


def test_it_is_well_formed(page: Page) -> None:
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


def test_it_needs_nothing_from_elsewhere(page: Page, made: tuple[list[Table], str]) -> None:
    assert {ref for ref in page.refers if not ref.startswith("#")} == set()
    assert {ref[1:] for ref in page.refers} <= set(page.ids)  # and what it refers to is there
    assert not re.search(r"https?:|//\w|@import|<script", made[1])


def test_every_table_and_picture_is_in_it(page: Page, made: tuple[list[Table], str]) -> None:
    found, text = made
    said, glance = " ".join(page.text), claims(found)
    assert glance.grids
    assert all(table.title in said for table in found)
    assert "At a glance" in said
    for table in (*found, glance):
        for grid in table.grids:
            assert grid.title in said
            for _, label, cells in grid.body():
                assert label in said
                assert all(cell.text in said for cell in cells)
    assert text.count("<svg") == len(found) == 7


def test_it_tells_how_and_on_what(page: Page) -> None:
    said = " ".join(page.text)
    for words in (
        *("abacus", "seeds 0 to 2", "lr 0.0003", "What is not comparable, and why", "rule tgn"),
        *("wikipedia: 0 features here, 172 in the paper.", "tgn failed: <why> & how", "without update"),
    ):
        assert words in said
    assert "QUICK" not in said


def test_a_quick_one_is_labelled_throughout(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2 table4", scale=replace(SCALE, warning="QUICK: small")))
    found = tables(plan)
    text = report(plan, found, claims(found), {}, [])
    sections = text.count("<section")
    assert sections > 5
    assert text.count('<span class="tag">QUICK</span>') == sections
    assert "<h1>QUICK" in text


def test_the_same_results_make_the_same_page(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2 fig6"))
    pages = []
    for _ in range(2):
        found = tables(plan)
        drawn = {t.name: inline_svg(f, t.name) for t in found if (f := figure(t, None))}
        pages.append(report(plan, found, claims(found), drawn, []))
    assert pages[0] == pages[1]
