from __future__ import annotations

from html.parser import HTMLParser

from contig import markup
from contig.data.events import EventStream


class Cells(HTMLParser):
    """Collects the text of table cells, and fails on tags that are not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_facts_and_tables_are_escaped() -> None:
    found = Cells(markup.facts("<a>", {"x<y": "1 & 2", "z": 3}, ["note <b>"]))
    assert found.cells == ["x<y", "1 & 2", "z", "3"]
    assert "<a>" not in markup.facts("<a>", {})
    assert Cells(markup.table("t", ["a", "b"], [["<i>", 2]], ["n"])).cells == ["a", "b", "<i>", "2"]


def test_a_stream_shows_its_first_events() -> None:
    stream = EventStream.from_arrays([f"<n{i}>" for i in range(9)], list(range(20, 29)), list(range(9)))
    cells = Cells(stream._repr_html_()).cells
    assert cells[:3] == ["src", "dst", "t"]
    assert cells[3:6] == ["<n0>", "20", "0"]
    assert len(cells) == 3 + 5 * 3
