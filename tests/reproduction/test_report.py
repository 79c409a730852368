"""The report: one well-formed, self-contained page with every result."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.studies import fill, planned

from contig.plots import inline_svg
from contig.reproduction.output import judge
from contig.reproduction.plan import Plan
from contig.reproduction.report import hardware, report
from contig.reproduction.scales import Scale
from contig.reproduction.tables.numbers import Table

VOID = {"meta", "br", "img", "path", "use", "rect"}


class Page(HTMLParser):
    """Checks that every element is closed, and gathers ids, references and text."""

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


def drawn(plan: Plan, table: Table) -> str:
    figure = plan.study.item(table.name).figure(table)
    assert figure is not None
    return inline_svg(figure, table.name)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fill(planned(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def text(plan: Plan) -> str:
    tables = plan.tables()
    figures = {table.name: drawn(plan, table) for table in tables}
    return report(plan, tables, judge(plan, tables), figures, ["tgn failed: <why> & how"])


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    return page


def test_it_is_well_formed(page: Page) -> None:
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


def test_it_is_self_contained(page: Page, text: str) -> None:
    assert {ref for ref in page.refers if not ref.startswith("#")} == set()
    assert {ref[1:] for ref in page.refers} <= set(page.ids)  # every reference has its target
    assert not re.search(r"https?:|//\w|@import|<script", text)


def test_every_table_and_figure_is_in_it(page: Page, plan: Plan, text: str) -> None:
    tables, words = plan.tables(), " ".join(page.text)
    claims = judge(plan, tables)
    assert claims.layouts
    assert "Summary" in words
    for sheet in (*(table.sheet() for table in tables), claims):
        assert sheet is claims or sheet.title in words
        for layout in sheet.layouts:
            assert layout.title in words
            for row in layout.rows:
                assert row.label in words
                assert all(cell.text in words for cell in row.cells)
    assert text.count("<svg") == len(tables) == 7


def test_it_says_how_the_results_were_made(page: Page) -> None:
    words = " ".join(page.text)
    for part in (
        *("abacus", "seeds 0 to 2", "lr 0.0003", "Differences from the paper", "TGN's protocol"),
        *("wikipedia has 0 features here and 172 in the paper.", "without update"),
        *("tgn failed: <why> & how", "contig: link prediction"),
    ):
        assert part in words
    assert "QUICK" not in words


def test_unfinished_runs_are_listed(tmp_path: Path) -> None:
    plan = planned(tmp_path, "table2")
    assert hardware(plan) == []
    tables = plan.tables()
    text = report(plan, tables, judge(plan, tables), {}, [])
    assert text.count("<td>not finished</td>") == len(plan.jobs) == 16
    assert "Failures" not in text


def test_every_section_of_a_quick_report_says_so(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "table2 table4", scale=Scale(seeds=1, warning="QUICK: small")))
    tables = plan.tables()
    text = report(plan, tables, judge(plan, tables), {}, [])
    sections = text.count("<section")
    assert sections > 5
    assert text.count('<span class="tag">QUICK</span>') == sections
    assert "<h1>QUICK" in text


def test_the_same_results_make_the_same_page(tmp_path: Path) -> None:
    plan = fill(planned(tmp_path, "fig6"))
    [table] = plan.tables()
    claims = judge(plan, [table])
    pages = [report(plan, [table], claims, {"fig6": drawn(plan, table)}, []) for _ in range(2)]
    assert pages[0] == pages[1]
