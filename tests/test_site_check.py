"""The check of the built site finds broken links and requests to other hosts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "site_check.py"
GOOD = """<link href="style.css"><h1 id="top">A</h1><img src="data:image/png;base64,AA">
<a href="#top">up</a> <a href="part/b.html#caf%C3%A9">b</a> <a href="https://example.org">the web</a>"""


def problems(folder: Path, **changes: str) -> list[str]:
    spec = importlib.util.spec_from_file_location("site_check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files = {"a.html": GOOD, "part/b.html": '<p id="café"><a href="../a.html">a</a>', "style.css": "a {}"}
    files["404.html"] = '<a href="/a.html">a</a>'
    for name, text in (files | {key.replace("_", "."): value for key, value in changes.items()}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return list(module.problems(folder.resolve()))


def test_a_good_site_has_no_problems(tmp_path: Path) -> None:
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="c.html">c</a>', "a.html: c.html does not exist"),
        ('<a href="part">b</a>', "a.html: part does not exist"),
        ('<a href="part/b.html#no">b</a>', "a.html: part/b.html#no has no such anchor"),
        ('<a href="#no">b</a>', "a.html: #no has no such anchor"),
        ('<img src="no.png">', "a.html: no.png does not exist"),
        ('<script src="https://example.org/a.js"></script>', "a.html loads https://example.org/a.js"),
        ('<link href="//example.org/a.css">', "a.html loads //example.org/a.css"),
    ],
)
def test_problems_are_named(page: str, problem: str, tmp_path: Path) -> None:
    assert problems(tmp_path, a_html=page) == [problem]


@pytest.mark.parametrize("style", ["a { b: url('https://example.org/f') }", "@import '//example.org/f';"])
def test_styles_load_nothing_from_other_hosts(style: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, style_css=style)
    assert found.startswith("style.css loads ")
    assert "//example.org/f" in found
