"""Check the built site: every link leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The targets of a page's links, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := found.get(name)))
        if tag == "a" and (target := found.get("href")):
            self.links.append(target)
        if (name := LOADED.get(tag)) and (target := found.get(name)):
            self.loads.append(target)


def problems(site: Path) -> Iterator[str]:
    """Yield what is wrong with the pages of a site, but for 404.html, whose links start at the host."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        if str(name) == "404.html":
            continue
        yield from (f"{name} loads {target}" for target in page.loads if is_external(target))
        for target in (*page.links, *page.loads):
            if not is_external(target) and (problem := broken(path, target, pages)):
                yield f"{name}: {target} {problem}"
    for style in sorted(site.rglob("*.css")):
        if found := re.search(
            r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//[^)'\"\s]*", style.read_text("utf-8")
        ):
            yield f"{style.relative_to(site)} loads {found[0]}"


def is_external(target: str) -> bool:
    """Return whether a target is on another host."""
    parts = urlsplit(target)
    return bool(parts.netloc or parts.scheme in ("http", "https", "mailto"))


def broken(path: Path, target: str, pages: dict[Path, Page]) -> str:
    """Say what is missing at the target of a link, if anything is."""
    parts = urlsplit(target)
    if parts.scheme:  # data: and the like
        return ""
    place = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if not place.is_file():
        return "does not exist"
    known = pages.get(place)
    if parts.fragment and known is not None and unquote(parts.fragment) not in known.anchors:
        return "has no such anchor"
    return ""


def main(folder: str) -> None:
    """Exit with a list of problems, if there are any."""
    found = list(problems(Path(folder).resolve()))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1])
