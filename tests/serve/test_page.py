"""The page in a real browser: found by keyboard, scrubbed, live, in light and dark, without other hosts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contig.live import Engine
from contig.runs.run import Run
from contig.serve.client import Client
from contig.serve.server import running
from contig.serve.settings import ServeSettings

pytestmark = pytest.mark.browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TOKEN = "a-token-for-the-page"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium of this machine; Playwright's own builds are not downloaded."""
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, of the extra dev")
    path = os.environ.get("CONTIG_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip(
            f"needs a browser, one of {', '.join(CHROMIUM)}: run make browser, or set CONTIG_CHROMIUM"
        )
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def service(text_id_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that needs a token, at a port of its own."""
    engine = Engine.open(tmp_path_factory.mktemp("page") / "live", text_id_run.path, device="cpu")
    with running(engine, ServeSettings(port=0), TOKEN) as url:
        yield url


class Page:
    """An open page, and what went wrong in it."""

    def __init__(self, browser: Any, url: str, scheme: str = "light") -> None:
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 1100})
        self.page, self.url = self.context.new_page(), url
        self.hosts: set[str] = set()
        self.errors: list[str] = []
        self.page.set_default_timeout(20_000)
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if _bad(message) else None)

    def log_in(self) -> None:
        self.page.goto(self.url)
        self.page.fill("#token", TOKEN)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#chips button")

    def find(self, text: str) -> None:
        """Find a node with the keyboard alone."""
        self.page.focus("#query")
        self.page.keyboard.type(text)
        self.page.wait_for_selector("#found li[role=option]")
        self.page.keyboard.press("ArrowDown")
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#node:not([aria-busy])")
        self.page.wait_for_selector("#best li")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))


def _bad(message: Any) -> bool:
    """Refused policies and failures; the request that finds out that a token is needed is none."""
    return message.type == "error" and "401" not in message.text


@pytest.fixture
def page(browser: Any, service: str) -> Iterator[Page]:
    opened = Page(browser, service)
    opened.log_in()
    yield opened
    assert opened.errors == []
    assert opened.hosts == {service.split("/")[2]}, "the page may ask its own service only"
    opened.context.close()


def test_a_node_is_found_and_followed_by_keyboard(page: Page, service: str) -> None:
    page.find("n3")
    assert page.text("#title") == "n3"
    assert page.text("#side") == "source"
    with Client(service, TOKEN) as client:
        events = client.recent_events("n3", 30)
        best = client.recommend("n3", k=10)
    rows = page.page.query_selector_all("#events tr")
    assert len(rows) == len(events)
    assert rows[0].inner_text().split()[:2] == [events[0]["src"], events[0]["dst"]]
    names = [one.split()[0] for one in page.page.locator("#best li").all_inner_texts()]
    assert sorted(names) == sorted(str(one.id) for one in best)
    marks = len(events) - 1  # the path starts just after the first event
    assert 10 < marks < 20
    assert page.page.locator("#path .mark").count() == marks
    assert page.page.locator("#path .drift").count() > 50

    page.page.focus("#time")
    before = page.text("#at")
    page.page.keyboard.press("Home")
    assert page.text("#at") != before
    assert page.page.get_attribute("#time", "aria-valuetext") == page.text("#at").replace(" · ", ", ")
    assert page.page.locator("#path .mark:not(.ahead)").count() == 0
    for _ in range(12):
        page.page.keyboard.press("PageUp")
    assert page.page.locator("#path .mark:not(.ahead)").count() == marks
    assert "n3" in page.page.url.partition("#")[2]


def test_new_events_appear_by_themselves(page: Page, service: str) -> None:
    page.find("n4")
    with Client(service, TOKEN) as client:
        sent = client.observe([{"src": "n4", "dst": "<b>new</b>", "t": client.status()["last_time"] + 1}])
        assert sent.accepted == 1
    page.page.wait_for_selector("#events tr:first-child:has-text('<b>new</b>')")
    assert page.page.locator("#events b").count() == 0, "ids are text, never markup"


def test_unknown_nodes_and_names_of_both_sides(page: Page) -> None:
    page.page.goto(page.url + "/#id=nobody")
    page.page.wait_for_selector("#problem:not([hidden])")
    assert "nobody" in page.text("#problem")
    page.errors.clear()  # the browser logs the 404
    page.find("n12")
    first = page.text("#side")
    page.page.fill("#query", "n12")
    page.page.wait_for_selector("#found li:nth-child(2)")
    page.page.click("#found li:nth-child(2)")
    other = {"source": "destination", "destination": "source"}[first]
    page.page.wait_for_selector(f"#side:text-is('{other}')")


def test_everything_has_a_name_for_screen_readers(page: Page) -> None:
    page.find("n5")
    unnamed = page.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, svg[role=img], table, [role=region]")]
          .filter(e => !e.closest("[hidden], dialog:not([open])"))
          .filter(e => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length
                         || e.textContent.trim()))
          .map(e => e.outerHTML)"""
    )
    assert unnamed == []
    assert page.page.locator("h1").count() == 1
    assert page.text("#said").startswith("Showing n5")
    assert page.page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_in_light_and_dark(scheme: str, browser: Any, service: str, tmp_path: Path) -> None:
    """Text has enough contrast, and nothing is cut off on a phone.

    Set CONTIG_SCREENSHOTS to a folder to keep the pictures.
    """
    opened = Page(browser, service, scheme)
    opened.log_in()
    folder = Path(os.environ.get("CONTIG_SCREENSHOTS", tmp_path))
    opened.page.screenshot(path=folder / f"welcome-{scheme}.png", full_page=True)
    opened.find("n3")
    for name, width in (("node", 1280), ("narrow", 390)):
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        opened.page.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)
    opened.page.goto(service + "/docs")
    opened.page.wait_for_selector("details")
    opened.page.click("summary:has-text('/status')")
    opened.page.click("details[open] button")
    opened.page.wait_for_selector("details[open] pre:has-text('200')")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    opened.page.screenshot(path=folder / f"docs-{scheme}.png", full_page=True)
    assert opened.errors == []
    colors = opened.page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert _contrast(*colors) > 7
    opened.context.close()


def _contrast(ink: str, ground: str) -> float:
    """The contrast ratio of two colors, as WCAG defines it."""
    light = sorted(_luminance(color) for color in (ink, ground))
    return (light[1] + 0.05) / (light[0] + 0.05)


def _luminance(color: str) -> float:
    parts = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
